//! The charts of one queue, or of all: throughput, size by state, latency.

use std::time::Duration;

use asynq_runtime::TaskState;

use super::{
    format::{count, span},
    part::chart::{Chart, Kind, Series as Row, Unit},
};
use crate::sample::{Point, Series};

/// Most points of one chart.
const POINTS: usize = 90;

/// The states of the tasks that are not at their end, from the top of the stack down, with their names.
const OPEN: [(TaskState, &str); 5] = [
    (TaskState::Pending, "Pending"),
    (TaskState::Active, "Active"),
    (TaskState::Scheduled, "Scheduled"),
    (TaskState::Retry, "Retry"),
    (TaskState::Aggregating, "Aggregating"),
];

/// Returns the three charts of a series.
pub(super) fn charts(series: &Series) -> Vec<Chart> {
    let points = thinned(series, POINTS);
    let times: Vec<i64> = points.iter().map(|point| point.at_ms / 1000).collect();
    let row = |class, name, of: &dyn Fn(&Point) -> f64| Row { class, name, values: points.iter().map(of).collect() };
    // A title tells the last latency, not the highest of the last points.
    let latency_ms = series.last().map_or(0, |last| last.latency_ms);
    let last = points.last().map(|&point| Point { latency_ms, ..point });
    let now = |text: fn(&Point) -> String| last.as_ref().map(text).unwrap_or_default();
    vec![
        Chart {
            id: "throughput",
            title: "Throughput",
            kind: Kind::Lines,
            unit: Unit::Rate,
            now: now(|p| format!("{}/s, {}/s failed", rate(p.processed), rate(p.failed))),
            times: times.clone(),
            series: vec![
                row("processed", "Processed", &|p| f64::from(p.processed)),
                row("failed", "Failed", &|p| f64::from(p.failed)),
            ],
        },
        Chart {
            id: "size",
            title: "Open tasks by state",
            kind: Kind::Stack,
            unit: Unit::Count,
            now: now(|p| format!("{} open", count(open(p)))),
            times: times.clone(),
            series: OPEN.map(|(state, name)| row(state.as_str(), name, &|p| f64::from(p.count(state)))).into(),
        },
        Chart {
            id: "latency",
            title: "Latency",
            kind: Kind::Lines,
            unit: Unit::Span,
            now: now(|p| span(Duration::from_millis(p.latency_ms))),
            times,
            series: vec![row("latency", "Wait of the next task", &|p| p.latency_ms as f64 / 1000.0)],
        },
    ]
}

fn open(p: &Point) -> u64 {
    OPEN.into_iter().map(|(state, _)| u64::from(p.count(state))).sum()
}

/// Formats a rate, with one digit behind the point below 100.
fn rate(per_second: f32) -> String {
    if per_second >= 100.0 || per_second == 0.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// Returns at most `most` points: of neighbours the mean rates and the highest latency, and the last of all other numbers, so that
/// counts stay exact.
pub(super) fn thinned(series: &Series, most: usize) -> Series {
    let step = series.len().div_ceil(most.max(1)).max(1);
    // Slices are counted from the newest, or every new point would move all others.
    let mut points: Series = series
        .rchunks(step)
        .filter_map(|some| {
            let mean = |of: fn(&Point) -> f32| some.iter().map(of).sum::<f32>() / some.len() as f32;
            let latency_ms = some.iter().map(|p| p.latency_ms).max().unwrap_or_default();
            let (processed, failed) = (mean(|p| p.processed), mean(|p| p.failed));
            some.last().map(|&last| Point { processed, failed, latency_ms, ..last })
        })
        .collect();
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(n: u32) -> Point {
        Point {
            at_ms: i64::from(n) * 5000,
            // One runs, seven are archived.
            tasks: [1, n, 0, 0, 7, 0, 0],
            processed: n as f32,
            failed: 0.0,
            latency_ms: 1500,
        }
    }

    #[test]
    fn an_hour_becomes_a_few_points_with_mean_rates() {
        let hour: Series = (0..720).map(point).collect();
        let few = thinned(&hour, 90);
        assert_eq!((few.len(), few[89].count(TaskState::Pending), few[89].processed), (90, 719, 715.5));
        assert_eq!(thinned(&hour[..3].to_vec(), 90), hour[..3]);
        assert!(thinned(&Series::new(), 90).is_empty());
    }

    #[test]
    fn a_short_peak_of_the_latency_is_seen() {
        let mut hour: Series = (0..720).map(point).collect();
        hour[716].latency_ms = 60_000;
        assert_eq!(thinned(&hour, 90)[89].latency_ms, 60_000);
        assert_eq!(charts(&hour)[2].now, "1.5 s", "the title tells the last latency");
    }

    #[test]
    fn the_last_numbers_are_written_out() {
        let texts: Vec<_> = charts(&vec![point(1), point(2)]).into_iter().map(|chart| chart.now).collect();
        assert_eq!(texts, ["2.0/s, 0/s failed", "3 open", "1.5 s"]);
        assert!(charts(&Series::new()).iter().all(|chart| chart.now.is_empty()));
    }
}

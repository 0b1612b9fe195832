//! The page that a whole run ends with.

use std::time::Duration;

use super::{
    Extent, Found,
    goals::{self, Judged},
    growth::{self, BROKERS, LIMIT, QUEUES},
    plan::Planned,
};
use crate::{
    measured::{Figure, HEAD, Measured, short},
    median::Median,
    meter,
};

/// Returns the whole page, as Markdown.
pub(super) fn page(
    extent: &Extent,
    facts: &str,
    plan: &[Planned],
    found: &Found,
    failures: &[String],
    took: Duration,
) -> String {
    let mut page = format!("# Measured\n\nWritten by `scripts/bench`; not by hand.\n\n{facts}");
    page += &format!("- medians of {} interleaved runs, {} min\n", extent.runs, took.as_secs().div_ceil(60));
    if extent.quick {
        page += "- **quick: a fraction of the tasks; these figures only show that everything works**\n";
    }
    for failure in failures {
        page += &format!("- **failed: {failure}**\n");
    }

    page += "\n## Figures to reach\n\n";
    page += "*Beside* is the limit of the broker for the same tasks, or the same run without the million or with one queue; *share* is of that. \
             The limit of Redis is that of bare scripts on two connections that alternate, with as many tasks under way as the callers or, up to 128, the worker beside it; *broker CPU %* below *Every run* is the share of the time in which Redis ran them, \
             and where it is far below 100 the figure is not the most that Redis can do. The limit of one awaiting producer, of a GET and of latencies is that of one connection. \
             *Spread* is half of the range of the runs; there is none of one run, and none of the earliest start, which is that of all runs. \
             Latencies and waits are of 100 tasks a run, so that p99 is the second longest; the wait of four processes is of all their calls, and that of the process with the longest p99. \
             A row of memory is *not on this system* where the system does not report that of a process.\n\n";
    let judged = goals::judge(found, meter::peak_rss_mib().is_some());
    page += &format!("Reached: {}.\n\n", reached(&judged));
    let head = ["figure", "measured", "beside", "share", "to reach", "reach for", "reached", "spread"];
    page += &table(&head, judged.iter().map(cells));

    page += "\n## How cost grows\n\nDrain at concurrency 100, from the build of the worker, which connects it; its limit connects within its time, too. \
             µs: time per task; CPU: of worker and broker per task.\n";
    page += &format!("\n![queues](queues.svg)\n\nMedians of at most {} runs.\n\n", growth::ROUNDS);
    let head = ["queues", "tasks", "Redis µs", "Redis CPU µs", "its limit µs", "SQLite µs", "SQLite CPU µs"];
    page += &table(
        &head,
        QUEUES.into_iter().map(|queues| {
            let median = |name, figure: Figure| {
                let runs = found.get(&growth::key(name, queues))?;
                figure.median(runs).map(|median| median.figure)
            };
            let time = |name| formatted(median(name, Figure::Time));
            let cpu = |name| {
                let broker = median(name, Figure::BrokerCpu).unwrap_or(0.0);
                formatted(median(name, Figure::OwnCpu).map(|own| own + broker))
            };
            let [redis, sqlite] = BROKERS;
            let tasks = found.get(&growth::key(redis, queues)).and_then(|runs| runs.first());
            let tasks = tasks.map(|run| run.order.n.to_string()).unwrap_or_default();
            [queues.to_string(), tasks, time(redis), cpu(redis), time(LIMIT), time(sqlite), cpu(sqlite)]
        }),
    );

    page += "\n## Every run\n\n`broker us`, `commands` and `own us` are per task: CPU of Redis, its commands, and CPU of the measured process.\n\n";
    page +=
        &table(&HEAD, plan.iter().filter_map(|planned| Some(Measured::median(found.get(&planned.key)?).ok()?.cells())));
    page
}

/// Writes how many of the goals that this system can show are reached.
fn reached(judged: &[Judged]) -> String {
    let reached = judged.iter().filter(|judged| judged.reached == Some(true)).count();
    let known = judged.iter().filter(|judged| !judged.is_unknown).count();
    format!("{reached} of {known}")
}

fn cells(judged: &Judged) -> [String; 8] {
    [
        judged.row.to_owned(),
        formatted(judged.measured.map(|median| median.figure)),
        formatted(judged.beside),
        judged.share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default(),
        judged.to_reach.clone(),
        judged.reach_for.clone(),
        match judged.reached {
            Some(true) => "yes",
            Some(false) => "**no**",
            None if judged.is_unknown => "not on this system",
            None => "not measured",
        }
        .to_owned(),
        judged.measured.map(Median::spread).unwrap_or_default(),
    ]
}

fn formatted(figure: Option<f64>) -> String {
    figure.map(short).unwrap_or_default()
}

/// Returns a table.
pub(crate) fn table<H: AsRef<str>, R: AsRef<[String]>>(head: &[H], rows: impl IntoIterator<Item = R>) -> String {
    let mut table = format!("{}|{}\n", line(head), "---|".repeat(head.len()));
    for row in rows {
        table += &line(row.as_ref());
    }
    table
}

fn line(cells: &[impl AsRef<str>]) -> String {
    cells.iter().fold("|".to_owned(), |line, cell| format!("{line} {} |", cell.as_ref())) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_that_the_system_cannot_show_are_not_missed() {
        let (all, known) = (goals::judge(&Found::new(), true), goals::judge(&Found::new(), false));
        assert_eq!(reached(&all), format!("0 of {}", all.len()));
        assert_eq!(reached(&known), format!("0 of {}", all.len() - 3));
        let cells = known.iter().map(|judged| cells(judged).join(" | "));
        assert_eq!(cells.filter(|line| line.contains("not on this system")).count(), 3);
    }
}

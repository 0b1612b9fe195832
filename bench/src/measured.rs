//! The result of one run, as a JSON line and as a row of a table.

use std::collections::BTreeMap;

use asynq_runtime::prelude::BoxError;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{median::Median, order::Order};

/// The name of the earliest start after its time. No run may begin a task too early, so that the least of several runs stands for all.
pub(crate) const EARLIEST: &str = "earliest ms";

/// The figures of one run; `None` for a figure that the run does not have.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The order of the run.
    #[serde(flatten)]
    pub(crate) order: Order,
    /// Tasks per second.
    pub(crate) rate: Option<f64>,
    /// Milliseconds of the single times that the workload measures.
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    /// Microseconds of CPU of the broker, per task.
    pub(crate) broker_cpu_us: Option<f64>,
    /// Commands of the broker, those inside scripts included, per task.
    pub(crate) broker_commands: Option<f64>,
    /// Microseconds of CPU of the measured process, per task.
    pub(crate) own_cpu_us: Option<f64>,
    /// Most memory that the measured process had.
    pub(crate) peak_rss_mib: Option<f64>,
    /// Figures that only this workload has.
    pub(crate) more: BTreeMap<String, f64>,
}

impl Measured {
    /// Returns a result without figures.
    pub(crate) fn of(order: &Order) -> Self {
        Self { order: order.clone(), ..Self::default() }
    }

    /// Adds the quantiles of these microseconds.
    #[must_use]
    pub(crate) fn spread(mut self, micros: &Histogram<u64>) -> Self {
        let at = |quantile| Some(micros.value_at_quantile(quantile) as f64 / 1e3);
        (self.p50, self.p90, self.p99) = (at(0.50), at(0.90), at(0.99));
        self.max = Some(micros.max() as f64 / 1e3);
        self
    }

    /// Adds a figure that only this workload has.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, figure: f64) -> Self {
        self.more.insert(name.to_owned(), figure);
        self
    }

    /// Returns the median of these runs of one order, for every figure by itself.
    ///
    /// # Errors
    ///
    /// There is no run.
    pub(crate) fn median(runs: &[Self]) -> Result<Self, BoxError> {
        let middle = |figure: &dyn Fn(&Self) -> Option<f64>| {
            Median::of(runs.iter().filter_map(figure)).map(|median| median.figure)
        };
        let first = runs.first().ok_or("nothing was measured")?;
        let more = first.more.keys().map(|name| (name, Self::median_of(runs, name)));
        Ok(Self {
            order: first.order.clone(),
            rate: middle(&|run| run.rate),
            p50: middle(&|run| run.p50),
            p90: middle(&|run| run.p90),
            p99: middle(&|run| run.p99),
            max: middle(&|run| run.max),
            broker_cpu_us: middle(&|run| run.broker_cpu_us),
            broker_commands: middle(&|run| run.broker_commands),
            own_cpu_us: middle(&|run| run.own_cpu_us),
            peak_rss_mib: middle(&|run| run.peak_rss_mib),
            more: more.filter_map(|(name, median)| Some((name.clone(), median?.figure))).collect(),
        })
    }

    /// Returns the median of a figure that only this workload has.
    fn median_of(runs: &[Self], name: &str) -> Option<Median> {
        let figures = runs.iter().filter_map(|run| run.more.get(name).copied());
        if name == EARLIEST { Median::least_of(figures) } else { Median::of(figures) }
    }

    /// Returns the cells of its row, under [`HEAD`].
    pub(crate) fn cells(&self) -> [String; HEAD.len()] {
        let formatted =
            |figure: Option<f64>, digits| figure.map_or_else(String::new, |figure| format!("{figure:.digits$}"));
        let more = self.more.iter().map(|(name, figure)| format!("{name} {}", short(*figure)));
        [
            self.order.label(),
            self.order.broker.clone(),
            self.order.n.to_string(),
            self.order.concurrency.to_string(),
            formatted(self.rate, 0),
            formatted(self.p50, 2),
            formatted(self.p90, 2),
            formatted(self.p99, 2),
            formatted(self.max, 2),
            formatted(self.broker_cpu_us, 1),
            formatted(self.broker_commands, 2),
            formatted(self.own_cpu_us, 1),
            formatted(self.peak_rss_mib, 1),
            more.collect::<Vec<_>>().join(", "),
        ]
    }
}

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Rate,
    /// Microseconds per task: the inverse of the rate.
    Time,
    P50,
    P99,
    BrokerCpu,
    OwnCpu,
    Rss,
    More(&'static str),
}

impl Figure {
    /// Returns this figure of a run.
    fn of(self, run: &Measured) -> Option<f64> {
        match self {
            Self::Rate => run.rate,
            Self::Time => run.rate.map(|rate| 1e6 / rate),
            Self::P50 => run.p50,
            Self::P99 => run.p99,
            Self::BrokerCpu => run.broker_cpu_us,
            Self::OwnCpu => run.own_cpu_us,
            Self::Rss => run.peak_rss_mib,
            Self::More(name) => run.more.get(name).copied(),
        }
    }

    /// Returns the median of this figure over the runs of one order, and the least of [`EARLIEST`].
    pub(crate) fn median(self, runs: &[Measured]) -> Option<Median> {
        match self {
            Self::More(name) => Measured::median_of(runs, name),
            _ => Median::of(runs.iter().filter_map(|run| self.of(run))),
        }
    }
}

/// Titles of the cells of a row.
pub(crate) const HEAD: [&str; 14] = [
    "workload",
    "broker",
    "n",
    "conc",
    "tasks/s",
    "p50 ms",
    "p90",
    "p99",
    "max",
    "broker us",
    "commands",
    "own us",
    "RSS MiB",
    "more",
];

/// Writes a figure with as many digits as mean something.
pub(crate) fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 || figure.fract() == 0.0 => format!("{figure:.0}"),
        size if size >= 1.0 => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

/// Writes aligned columns for a terminal.
pub(crate) fn table(runs: &[Measured]) -> String {
    let rows: Vec<[String; HEAD.len()]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(runs.iter().map(Measured::cells)).collect();
    let widths: [usize; HEAD.len()] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Words begin at the left, figures end at the right.
            let left = column < 2 || column == HEAD.len() - 1;
            text += &if left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_that_began_too_early_is_seen_beside_two_that_did_not() {
        let runs = [0.4, -0.1, 0.7].map(|earliest| Measured::default().with(EARLIEST, earliest));
        assert_eq!(Figure::More(EARLIEST).median(&runs).map(|median| median.figure), Some(-0.1));
        assert_eq!(Measured::median(&runs).unwrap().more[EARLIEST], -0.1);
    }
}

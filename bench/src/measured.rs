//! What one run found, as a JSON line and as rows of a table.

use std::collections::BTreeMap;

use asynq_runtime::prelude::BoxError;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::order::Order;

/// One run. `None`: says nothing about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) workload: String,
    pub(crate) broker: String,
    pub(crate) n: u64,
    pub(crate) concurrency: usize,
    pub(crate) payload_bytes: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
    /// Tasks per second.
    pub(crate) rate: Option<f64>,
    /// Milliseconds, of what the workload measures one by one.
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
    /// What only this workload measures.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<String, f64>,
}

impl Measured {
    /// Nothing measured yet.
    pub(crate) fn of(order: &Order) -> Self {
        Self {
            workload: order.workload.clone(),
            broker: order.broker().to_owned(),
            n: order.n,
            concurrency: order.concurrency,
            payload_bytes: order.payload_bytes,
            batch: order.batch,
            rate: None,
            p50: None,
            p90: None,
            p99: None,
            max: None,
            broker_cpu_us: None,
            broker_commands: None,
            own_cpu_us: None,
            peak_rss_mib: None,
            more: BTreeMap::new(),
        }
    }

    /// Adds the spread of what took these microseconds.
    #[must_use]
    pub(crate) fn spread(mut self, micros: &Histogram<u64>) -> Self {
        let at = |quantile| Some(micros.value_at_quantile(quantile) as f64 / 1e3);
        (self.p50, self.p90, self.p99) = (at(0.50), at(0.90), at(0.99));
        self.max = Some(micros.max() as f64 / 1e3);
        self
    }

    /// Every figure by itself the median of these runs of one order.
    ///
    /// # Errors
    ///
    /// There is no run.
    pub(crate) fn median(runs: &[Self]) -> Result<Self, BoxError> {
        let middle = |figure: &dyn Fn(&Self) -> Option<f64>| {
            let mut figures: Vec<f64> = runs.iter().filter_map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures.get(figures.len() / 2).copied()
        };
        let mut median = runs.first().ok_or("nothing was measured")?.clone();
        median.rate = middle(&|run| run.rate);
        median.p50 = middle(&|run| run.p50);
        median.p90 = middle(&|run| run.p90);
        median.p99 = middle(&|run| run.p99);
        median.max = middle(&|run| run.max);
        median.broker_cpu_us = middle(&|run| run.broker_cpu_us);
        median.broker_commands = middle(&|run| run.broker_commands);
        median.own_cpu_us = middle(&|run| run.own_cpu_us);
        median.peak_rss_mib = middle(&|run| run.peak_rss_mib);
        for (name, figure) in &mut median.more {
            *figure = middle(&|run| run.more.get(name).copied()).unwrap_or(*figure);
        }
        Ok(median)
    }
}

/// The head of [`row`].
pub(crate) fn head() -> String {
    format!(
        "{:<26}{:<8}{:>9}{:>6}{:>10}{:>9}{:>9}{:>9}{:>9}{:>11}{:>10}{:>8}{:>9}",
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
        "RSS MiB"
    )
}

/// One line of a table for people.
pub(crate) fn row(run: &Measured) -> String {
    let shown =
        |figure: Option<f64>, digits| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"));
    let name = match run.batch {
        Some(batch) => format!("{} of {batch}", run.workload),
        None => run.workload.clone(),
    };
    let more: String = run.more.iter().map(|(name, figure)| format!("  {name} {figure:.3}")).collect();
    format!(
        "{name:<26}{:<8}{:>9}{:>6}{:>10}{:>9}{:>9}{:>9}{:>9}{:>11}{:>10}{:>8}{:>9}{more}",
        run.broker,
        run.n,
        run.concurrency,
        shown(run.rate, 0),
        shown(run.p50, 2),
        shown(run.p90, 2),
        shown(run.p99, 2),
        shown(run.max, 2),
        shown(run.broker_cpu_us, 1),
        shown(run.broker_commands, 2),
        shown(run.own_cpu_us, 1),
        shown(run.peak_rss_mib, 1),
    )
}

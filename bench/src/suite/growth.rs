//! Measures how the cost of a task grows with queues, waiting tasks, concurrency and payload.

use std::path::Path;

use asynq_runtime::prelude::BoxError;

use super::{Extent, Found, plan::Planned, plot};
use crate::{measured::Figure, order::Order};

/// A size that grows, step by step.
pub(super) struct Axis {
    /// The file name of its plot.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Each value of the size, and how many tasks are drained.
    steps: &'static [(u64, u64)],
    set: fn(&mut Order, u64),
    /// Whether each step is measured for the limit of Redis, too.
    has_limit: bool,
    /// The most rounds in which it runs: one for a curve, several where a goal is about it.
    pub(super) times: usize,
}

pub(super) const BROKERS: [&str; 2] = ["redis", "sqlite"];
/// Stands for the limit of Redis among the brokers.
pub(super) const LIMIT: &str = "redis limit";

pub(super) const AXES: &[Axis] = &[
    Axis {
        name: "queues",
        title: "queues",
        steps: &[(1, 100_000), (10, 100_000), (100, 100_000), (1_000, 100_000), (10_000, 100_000)],
        set: |order, queues| order.queues = Some(queues),
        has_limit: true,
        times: 3,
    },
    Axis {
        name: "waiting",
        title: "waiting tasks",
        steps: &[(1_000, 1_000), (10_000, 10_000), (100_000, 100_000), (1_000_000, 1_000_000)],
        set: |_, _| {},
        has_limit: false,
        times: 1,
    },
    Axis {
        name: "concurrency",
        title: "concurrency",
        steps: &[(1, 10_000), (10, 50_000), (100, 50_000), (1_000, 50_000)],
        set: |order, concurrency| order.concurrency = concurrency as usize,
        has_limit: false,
        times: 1,
    },
    Axis {
        name: "payload",
        title: "bytes of payload",
        steps: &[(100, 50_000), (1_000, 50_000), (10_000, 10_000), (100_000, 2_000)],
        set: |order, bytes| order.payload_bytes = bytes as usize,
        has_limit: false,
        times: 1,
    },
];

impl Axis {
    /// Returns the steps that are measured. A quick run measures the ends of a curve, which are a line.
    pub(super) fn steps(&self, extent: &Extent) -> impl Iterator<Item = (u64, u64)> {
        let is_short = extent.quick && self.times == 1;
        let last = self.steps.len() - 1;
        let steps = self.steps.iter().copied().enumerate();
        steps.filter(move |(n, _)| !is_short || *n == 0 || *n == last).map(|(_, step)| step)
    }
}

/// Returns a drain per step and broker, and that of the limit.
pub(super) fn plan(extent: &Extent) -> Vec<Planned> {
    let steps = AXES.iter().flat_map(|axis| axis.steps(extent).map(move |step| (axis, step)));
    let runs = steps.flat_map(|step| {
        BROKERS.into_iter().chain(step.0.has_limit.then_some(LIMIT)).map(move |broker| (step, broker))
    });
    let runs = runs.map(|((axis, (value, n)), name)| {
        let (workload, broker) = if name == LIMIT { ("limit-drain", "redis") } else { ("drain", name) };
        let (workload, broker) = (workload.to_owned(), broker.to_owned());
        let mut order =
            Order { workload, broker, n: extent.tasks(n), concurrency: 100, payload_bytes: 100, ..Order::default() };
        (axis.set)(&mut order, value);
        // There are never more queues than tasks.
        order.queues = order.queues.map(|queues| queues.min(order.n));
        Planned { key: key(name, axis, value), order, times: axis.times.min(extent.runs) }
    });
    runs.collect()
}

/// Returns the key of a run.
pub(super) fn key(broker: &str, axis: &Axis, value: u64) -> String {
    format!("{broker} growth {} {value}", axis.name)
}

/// Draws each axis into a file of its name.
///
/// # Errors
///
/// A file cannot be written.
pub(super) fn draw(found: &Found, folder: &Path) -> Result<(), BoxError> {
    for axis in AXES {
        let lines = BROKERS.map(|broker| {
            let points = axis.steps.iter().filter_map(|(value, _)| {
                let time = Figure::Time.median(found.get(&key(broker, axis, *value))?)?;
                Some((*value as f64, time.figure))
            });
            (broker, points.collect::<Vec<_>>())
        });
        plot::draw(&folder.join(format!("{}.svg", axis.name)), axis.title, &lines)?;
    }
    Ok(())
}

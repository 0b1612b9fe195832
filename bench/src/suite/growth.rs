//! Measures how the cost of a task grows with the number of queues.

use std::path::Path;

use asynq_runtime::prelude::BoxError;

use super::{Extent, Found, plan::Planned, plot};
use crate::{measured::Figure, order::Order};

pub(super) const BROKERS: [&str; 2] = ["redis", "sqlite"];
/// Stands for the limit of Redis among the brokers.
pub(super) const LIMIT: &str = "redis limit";
pub(super) const QUEUES: [u64; 5] = [1, 10, 100, 1_000, 10_000];
const TASKS: u64 = 100_000;
/// The most rounds in which they are measured.
pub(super) const ROUNDS: usize = 3;

/// Returns a drain per number of queues and broker, and that of the limit.
pub(super) fn plan(extent: &Extent) -> Vec<Planned> {
    let n = extent.tasks(TASKS);
    let runs = QUEUES.into_iter().flat_map(|queues| BROKERS.into_iter().chain([LIMIT]).map(move |name| (queues, name)));
    let runs = runs.map(|(queues, name)| {
        let (workload, broker) = if name == LIMIT { ("limit-drain", "redis") } else { ("drain", name) };
        let (workload, broker) = (workload.to_owned(), broker.to_owned());
        let order = Order { workload, broker, n, concurrency: 100, payload_bytes: 100, ..Order::default() };
        // There are never more queues than tasks.
        let order = Order { queues: Some(queues.min(n)), ..order };
        Planned { key: key(name, queues), order, times: ROUNDS }
    });
    runs.collect()
}

/// Returns the key of a run.
pub(super) fn key(broker: &str, queues: u64) -> String {
    format!("{broker} growth queues {queues}")
}

/// Draws the times into a file.
///
/// # Errors
///
/// The file cannot be written.
pub(super) fn draw(found: &Found, folder: &Path) -> Result<(), BoxError> {
    let lines = BROKERS.map(|broker| {
        let points = QUEUES.into_iter().filter_map(|queues| {
            let time = Figure::Time.median(found.get(&key(broker, queues))?)?;
            Some((queues as f64, time.figure))
        });
        (broker, points.collect::<Vec<_>>())
    });
    plot::draw(&folder.join("queues.svg"), &lines)
}

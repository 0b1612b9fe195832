//! Measures tasks in groups: those that a worker runs in sets, and those that are not ripe yet.

use asynq_runtime::prelude::*;

use super::{Stage, spent::Spent, wake};
use crate::{
    queue,
    task::{Seen, notes, task},
};

/// Tasks that run in sets, and the groups that they are spread over: each set is full.
const TASKS: u64 = 10_000;
const GROUPS: u64 = 10;
/// Tasks per call before a measurement.
const BATCH: u64 = 1_000;

/// Stores `n` tasks, spread over `groups` groups.
pub(super) async fn fill(stage: &Stage, n: u64, groups: u64) -> Result<(), BoxError> {
    for first in (0..n).step_by(BATCH as usize) {
        let numbers = first..n.min(first + BATCH);
        let tasks = numbers.map(|number| task(number, 100).into_job().group(format!("g{:07}", number % groups)));
        queue::store(&stage.client, tasks).await?;
    }
    Ok(())
}

/// Measures tasks that run in sets of `size`, from the start of a worker to the last acknowledgement.
pub(super) async fn run(stage: &Stage, size: u64) -> Result<Spent, BoxError> {
    fill(stage, TASKS, GROUPS).await?;
    let seen = Seen::none_of(TASKS);
    let worker = queue::worker::<notes>(&stage.order, seen.clone()).group_max_size(usize::try_from(size)?);
    stage.work(worker, &seen, TASKS, TASKS / size).await
}

/// Measures one second of a worker beside `n` groups of one task each, of which none is ripe.
pub(super) async fn unripe(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    fill(stage, n, n).await?;
    wake::without_tasks(stage, queue::worker::<notes>(&stage.order, Seen::none_of(0)).group_grace("1h")).await
}

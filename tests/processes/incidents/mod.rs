//! Incidents that every company meets in a year, with whole processes of a program of `main!`, default settings and the real lease.
//! `scripts/prove incidents` runs them all and prints a line for each; incidents that take seconds run in every suite.

mod blocked;
mod clock;
mod crash;
mod disk;
mod file;
mod outage;
mod redis;
mod schedule;
mod slow_network;

use asynq_runtime::TaskState;

use crate::processes::world::World;

/// Waits until the queue is idle, and asserts that `runs` tasks ran once each and were done.
async fn all_done(world: &World, runs: usize) {
    let stats = world.settled().await;
    let history = world.history();
    assert_eq!((history.ends().len(), history.repeated()), (runs, Vec::new()));
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (runs as u64, 0, 0));
}

/// The `crashes` count of each active task, by the broker.
async fn crashes(world: &World) -> Vec<u32> {
    world.tasks(TaskState::Active).await.iter().map(|task| task.crashes).collect()
}

//! Everything that can be measured: one workload per file, run the same way on every broker.

mod blocking;
mod delayed;
mod drain;
mod end_to_end;
mod enqueue;
mod idle;
mod latency;
mod processes;
mod scheduled_million;
mod wait;

use async_trait::async_trait;
use asynq_runtime::prelude::{BoxError, Client};

pub(crate) use self::{
    blocking::jobs as blocking_jobs,
    idle::{CYCLE, SETTLES},
    latency::{EVERY, produce},
    wait::work,
};
use crate::{limit, measured::Measured, order::Order, queue};

/// A workload that can be measured.
#[async_trait]
pub(crate) trait Workload: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// A line of help.
    fn about(&self) -> &'static str;

    /// The default number of tasks, and the default concurrency.
    fn sizes(&self) -> (u64, usize);

    /// Returns the runs that its name stands for, on the order's broker; none where there is nothing to measure.
    fn orders(&self, order: Order) -> Vec<Order> {
        vec![order]
    }

    /// Puts the broker into the state from which the measurement starts.
    async fn prepare(&self, _order: &Order, _client: &Client) -> Result<(), BoxError> {
        Ok(())
    }

    /// Measures, in a process of its own.
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError>;

    /// Checks that the measured work was done: by default, that no task is left.
    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        queue::expect(client, &measured.order, 0).await
    }
}

/// All workloads, in the order of the report.
pub(crate) static ALL: &[&dyn Workload] = &[
    &enqueue::ONE,
    &enqueue::CONCURRENT,
    &enqueue::BULK,
    &drain::Drain,
    &end_to_end::EndToEnd,
    &latency::Latency,
    &wait::Wait,
    &delayed::Delayed,
    &idle::Idle,
    &scheduled_million::ScheduledMillion,
    &blocking::Blocking,
    &processes::Processes,
];

/// Returns the workload of this name, a limit included.
///
/// # Errors
///
/// There is no workload of this name.
pub(crate) fn named(name: &str) -> Result<&'static dyn Workload, BoxError> {
    let mut all = ALL.iter().chain(limit::ALL).copied();
    all.find(|workload| workload.name() == name).ok_or_else(|| format!("there is no workload {name}").into())
}

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
    latency::{EVERY, produce},
    wait::work,
};
use crate::{limit, measured::Measured, order::Order, queue};

/// One thing to measure.
#[async_trait]
pub(crate) trait Workload: Sync {
    /// As it is called on the command line.
    fn name(&self) -> &'static str;

    /// One line of help.
    fn about(&self) -> &'static str;

    /// How many tasks and what concurrency, unless somebody says otherwise.
    fn sizes(&self) -> (u64, usize);

    /// The runs that its name stands for, on the order's broker; none where there is nothing to measure.
    fn orders(&self, order: Order) -> Vec<Order> {
        vec![order]
    }

    /// Puts the broker into the state from which the measurement starts.
    async fn prepare(&self, _order: &Order, _client: &Client) -> Result<(), BoxError> {
        Ok(())
    }

    /// Measures, in a process of its own.
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError>;

    /// Checks that what was measured happened: unless said otherwise, that nothing is left.
    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        queue::expect(client, &measured.order, 0).await
    }
}

/// All of them, in the order of the report.
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

/// The workload of this name, a limit included.
///
/// # Errors
///
/// There is none.
pub(crate) fn named(name: &str) -> Result<&'static dyn Workload, BoxError> {
    let mut all = ALL.iter().chain(limit::ALL).copied();
    all.find(|workload| workload.name() == name).ok_or_else(|| format!("there is no workload {name}").into())
}

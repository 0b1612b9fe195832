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

/// A workload as the command line has it.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    /// Returns the default number of tasks, and the default concurrency.
    pub(crate) sizes: fn() -> (u64, usize),
    /// A line of help.
    pub(crate) about: &'static str,
    pub(crate) workload: &'static dyn Workload,
}

/// A workload that can be measured.
#[async_trait]
pub(crate) trait Workload: Sync {
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
#[rustfmt::skip]
pub(crate) static ALL: &[Named] = &[
    Named { name: "enqueue", sizes: || (20_000, 1), about: "One caller, each call awaited", workload: &enqueue::ONE },
    Named { name: "enqueue-concurrent", sizes: || (100_000, 64), about: "Many callers of one client, each call awaited", workload: &enqueue::CONCURRENT },
    Named { name: "enqueue-bulk", sizes: || (100_000, 1), about: "One caller, 100 and 1,000 tasks per call", workload: &enqueue::BULK },
    Named { name: "drain", sizes: || (100_000, 100), about: "N waiting tasks, from the build of the worker to the last acknowledgement", workload: &drain::Drain },
    Named { name: "end-to-end", sizes: || (60_000, 100), about: "64 producers and the worker together, to the last acknowledgement", workload: &end_to_end::EndToEnd },
    Named { name: "latency", sizes: || (200, 10), about: "Idle system, one task every 137 ms, from the enqueue call to the start of the job", workload: &latency::Latency },
    Named { name: "wait", sizes: || (200, 10), about: "Idle system, one task every 137 ms whose caller waits for it, from the end of the job to the answer", workload: &wait::Wait },
    Named { name: "delayed", sizes: || (100, 10), about: "Tasks due at random within four seconds: start minus due", workload: &delayed::Delayed },
    Named { name: "idle", sizes: || (0, 10), about: "CPU and broker commands per second of a worker without tasks", workload: &idle::Idle },
    // With the million of scheduled-million these are fewer than 2^20, at which Redis doubles its table of keys.
    Named { name: "scheduled-million", sizes: || (40_000, 100), about: "Enqueue and drain with none and with 1,000,000 scheduled tasks present; on SQLite also as many archived ones", workload: &scheduled_million::ScheduledMillion },
    Named { name: "blocking", sizes: || (blocking::jobs() as u64, blocking::jobs()), about: "16 jobs at a time, or two for each processor, that only compute, for longer than a lease: the longest time without an extension", workload: &blocking::Blocking },
    Named { name: "processes", sizes: || (0, 64), about: "SQLite: four processes with many callers each enqueue for seconds; tasks of the slowest to the fastest, and wait per call", workload: &processes::Processes },
];

/// Returns the workload of this name, a limit included.
///
/// # Errors
///
/// There is no workload of this name.
pub(crate) fn named(name: &str) -> Result<&'static dyn Workload, BoxError> {
    let found = ALL.iter().chain(limit::ALL).find(|named| named.name == name);
    Ok(found.ok_or_else(|| format!("there is no workload {name}"))?.workload)
}

//! Measures the limit of a broker for the same tasks: throwaway scripts that do asynq's data-structure work and nothing else,
//! sent by a lean blocking client, so that Redis has the next one while an answer is read; and on a SQLite file the least that a queue has to do
//! there. No receipts, no typed jobs.

mod alternating;
mod file;
mod resp;
mod scripts;

use std::time::Instant;

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;

pub(crate) use self::scripts::Script;
use self::{
    alternating::Alternating,
    file::File,
    scripts::{Task, Tasks},
};
use crate::{
    measured::Measured,
    meter::{Meter, Usage},
    order::Order,
    queue,
    workload::{self, Named, Workload},
};

/// Tasks of a bulk call.
const BULK: usize = 1_000;
/// Most tasks of a script, as of a worker or a client; tasks of a script or a commit that prepares a drain.
const GROUP: usize = 64;
/// Tasks that one commit of a bulk call stores on a file.
const COMMIT: usize = 256;

/// The work of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// One task per script, one script per round trip.
    Enqueue,
    /// A group per script or commit: the best merge of concurrent calls, of which none enqueues its next task before an answer.
    EnqueueConcurrent,
    /// A group per script, half of a call of [`BULK`] tasks per write on each connection; on a file [`COMMIT`] tasks per commit.
    EnqueueBulk,
    /// One script settles a group and fetches the next.
    Drain,
    /// Three scripts for each group: enqueue, fetch, settle.
    EndToEnd,
    /// One task enqueued and fetched, after which its job would start, as rarely as `latency` has one. On a file a fetch does not
    /// wait until the task is on the disk, as in asynq.
    Latency,
    /// The messages as plain values, read by a group of GET per round trip: the cost of their bytes alone. On Redis only.
    Get,
}

/// Most tasks of a latency: one takes 137 ms, and more add nothing.
const LATENCIES: u64 = 100;

/// All limits.
#[rustfmt::skip]
pub(crate) static ALL: &[Named] = &[
    Named { name: "limit-enqueue", sizes: || (20_000, 100), about: "One task per script and round trip", workload: &Limit::Enqueue },
    Named { name: "limit-enqueue-concurrent", sizes: || (100_000, 100), about: "One group per script or commit, two groups of half the concurrency under way", workload: &Limit::EnqueueConcurrent },
    Named { name: "limit-enqueue-bulk", sizes: || (100_000, 100), about: "One group per script, 500 tasks per write on each of two connections; on a file 256 tasks per commit", workload: &Limit::EnqueueBulk },
    Named { name: "limit-drain", sizes: || (100_000, 100), about: "Settle a group and fetch the next in one script", workload: &Limit::Drain },
    Named { name: "limit-end-to-end", sizes: || (60_000, 100), about: "Three scripts for each group", workload: &Limit::EndToEnd },
    Named { name: "limit-latency", sizes: || (LATENCIES, 100), about: "Idle system, one task every 137 ms, enqueued and fetched", workload: &Limit::Latency },
    Named { name: "limit-get", sizes: || (20_000, 100), about: "The messages as plain values, one group of GET per round trip", workload: &Limit::Get },
];

#[async_trait]
impl Workload for Limit {
    fn orders(&self, order: Order) -> Vec<Order> {
        let most = if *self == Self::Latency { LATENCIES } else { u64::MAX };
        // A file has no GET, and only a drain of Redis goes from queue to queue.
        let is_measured = match self {
            Self::Drain => order.on_redis() || !order.has_queues(),
            Self::Get => order.on_redis() && !order.has_queues(),
            _ => !order.has_queues(),
        };
        if !is_measured {
            return Vec::new();
        }
        vec![Order { n: order.n.min(most), ..order }]
    }

    async fn prepare(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        match self {
            Self::Drain if order.has_queues() => queue::fill(client, order).await,
            Self::Drain if order.on_redis() => {
                let mut redis = Script::connect(&order.url)?;
                Ok(Tasks::new(order).groups(GROUP).try_for_each(|group| redis.enqueue(group))?)
            }
            Self::Drain => {
                let mut file = File::open(&order.url)?;
                Tasks::new(order).groups(GROUP).try_for_each(|group| file.enqueue(group))?;
                file.sync()
            }
            Self::Get => Ok(Script::connect(&order.url)?.set(&Tasks::new(order))?),
            _ => Ok(()),
        }
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        // The tasks are made before the clock starts: a generator of ids must not be the limit.
        let has_tasks = !matches!(self, Self::Drain | Self::Get);
        let tasks = if has_tasks { Tasks::new(order) } else { Tasks::default() };
        let mut calls = Histogram::new(3)?;
        let usage = if order.on_redis() {
            self.on_redis(order, &tasks, &mut calls).await?
        } else {
            self.on_file(order, &tasks, &mut calls).await?
        };
        let shown = self.shown(order);
        let measured = match (self, usage.redis) {
            // The process sleeps most of its time, so its CPU says nothing.
            (Self::Latency, _) => Measured::of(&shown),
            // A limit of Redis is one where Redis has no time left.
            (_, Some(redis)) => usage.per_task(&shown).with("broker CPU %", redis.cpu_us / usage.seconds / 1e4),
            (_, None) => usage.per_task(&shown),
        };
        Ok(if calls.is_empty() { measured } else { measured.spread(&calls) })
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        if *self == Self::Get {
            // Each value was counted as it came.
            return Ok(());
        }
        let (order, drained) = (&measured.order, matches!(self, Self::Drain | Self::EndToEnd | Self::Latency));
        if !order.on_redis() {
            let n = order.n.cast_signed();
            let expected = if drained { (0, n) } else { (n, 0) };
            return match File::end(&order.url)? {
                found if found == expected => Ok(()),
                found => Err(format!("expected waiting and settled: {expected:?}, found: {found:?}").into()),
            };
        }
        queue::expect(client, order, if drained { 0 } else { order.n }).await?;
        match queue::counts(client, order).await?.processed {
            settled if drained && settled != order.n => {
                Err(format!("{settled} of {} tasks were settled", order.n).into())
            }
            _ => Ok(()),
        }
    }
}

impl Limit {
    /// Returns the number of tasks per script or commit, and of values per round trip of GET.
    fn group(&self, order: &Order) -> usize {
        match self {
            // Two groups are under way, on both connections or in a commit that is made and one that goes to the disk. Together they
            // have as many tasks as the worker or the callers of this concurrency, as far as scripts of a worker's size can.
            Self::EnqueueConcurrent | Self::Drain | Self::EndToEnd => {
                (order.concurrency / Alternating::CONNECTIONS).clamp(1, GROUP)
            }
            Self::EnqueueBulk if !order.on_redis() => COMMIT,
            _ if order.concurrency <= 10 => 16,
            _ => GROUP,
        }
    }

    /// Returns the order with the numbers of connections and of tasks per group that the limit has.
    fn shown(&self, order: &Order) -> Order {
        let connections = if order.on_redis() { Alternating::CONNECTIONS } else { 1 };
        let group = self.group(order);
        match self {
            Self::Enqueue | Self::Latency => Order { concurrency: 1, ..order.clone() },
            Self::Get => Order { concurrency: 1, batch: Some(group), ..order.clone() },
            _ => Order { concurrency: connections, batch: Some(group), ..order.clone() },
        }
    }

    /// Connects and starts the clock. The limit beside a drain starts the clock first, because the worker there connects within its
    /// time; the others connect first, as the callers beside them do.
    fn connected<T>(
        &self,
        order: &Order,
        connect: impl FnOnce() -> Result<T, BoxError>,
    ) -> Result<(Meter, T), BoxError> {
        let within = matches!(self, Self::Drain | Self::Get).then(|| Meter::start(order)).transpose()?;
        let connected = connect()?;
        Ok((within.map_or_else(|| Meter::start(order), Ok)?, connected))
    }

    async fn on_redis(&self, order: &Order, tasks: &Tasks, calls: &mut Histogram<u64>) -> Result<Usage, BoxError> {
        let (meter, (mut redis, mut alternating)) =
            self.connected(order, || Ok((Script::connect(&order.url)?, Alternating::connect(&order.url)?)))?;
        match self {
            // One caller that awaits each call: Redis waits for the caller, too.
            Self::Enqueue => each(tasks, 1, calls, |task| Ok(redis.enqueue(task)?))?,
            Self::Latency => {
                for task in tasks.groups(1) {
                    tokio::time::sleep(workload::EVERY).await;
                    let began = Instant::now();
                    redis.enqueue(task)?;
                    redis.settle_and_fetch(1)?;
                    note(calls, began)?;
                    redis.settle_and_fetch(0)?;
                }
            }
            Self::Get => redis.get(order.n, self.group(order))?,
            Self::EnqueueConcurrent => alternating.enqueue(tasks, self.group(order), self.group(order))?,
            // One caller awaits each call of a thousand tasks.
            Self::EnqueueBulk => alternating.enqueue(tasks, self.group(order), BULK / Alternating::CONNECTIONS)?,
            Self::Drain => alternating.drain(queue::names(order), self.group(order))?,
            Self::EndToEnd => alternating.end_to_end(tasks, self.group(order))?,
        }
        meter.stop()
    }

    async fn on_file(&self, order: &Order, tasks: &Tasks, calls: &mut Histogram<u64>) -> Result<Usage, BoxError> {
        let (meter, mut file) = self.connected(order, || File::open(&order.url))?;
        match self {
            Self::Enqueue => each(tasks, 1, calls, |task| file.enqueue_to_disk(task))?,
            Self::EnqueueConcurrent => each(tasks, self.group(order), calls, |group| file.enqueue(group))?,
            Self::EnqueueBulk => {
                each(tasks, BULK, calls, |call| call.chunks(COMMIT).try_for_each(|group| file.enqueue(group)))?;
            }
            Self::Drain => while file.settle_and_fetch(self.group(order))? > 0 {},
            Self::EndToEnd => {
                for group in tasks.groups(self.group(order)) {
                    file.enqueue(group)?;
                    file.fetch(group.len())?;
                    file.settle()?;
                }
            }
            Self::Latency => {
                for task in tasks.groups(1) {
                    tokio::time::sleep(workload::EVERY).await;
                    let began = Instant::now();
                    file.enqueue(task)?;
                    file.fetch(1)?;
                    note(calls, began)?;
                    file.settle()?;
                    file.sync()?;
                }
            }
            Self::Get => return Err("limit-get is about Redis: a file has no GET".into()),
        }
        // The last commits are on the disk when the clock stops, as it was promised.
        file.sync()?;
        meter.stop()
    }
}

/// Makes a call with each `n` of the tasks, and notes its time.
fn each(
    tasks: &Tasks,
    n: usize,
    calls: &mut Histogram<u64>,
    mut call: impl FnMut(&[Task]) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    for tasks in tasks.groups(n) {
        let began = Instant::now();
        call(tasks)?;
        note(calls, began)?;
    }
    Ok(())
}

/// Notes the time of a call since it began.
fn note(calls: &mut Histogram<u64>, began: Instant) -> Result<(), BoxError> {
    Ok(calls.record(u64::try_from(began.elapsed().as_micros())?)?)
}

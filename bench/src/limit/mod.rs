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
use self::{alternating::Alternating, file::File, scripts::Tasks};
use crate::{
    measured::Measured,
    meter::{Meter, Usage},
    order::Order,
    queue,
    workload::{self, Workload},
};

/// Tasks of a bulk call.
const BULK: usize = 1_000;
/// Most tasks of a script, as of a worker or a client; tasks of a script or a commit that prepares a drain.
const GROUP: usize = 64;
/// Tasks that one commit of a bulk call stores on a file.
const COMMIT: usize = 256;

/// The work of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
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

struct Limit {
    name: &'static str,
    about: &'static str,
    n: u64,
    work: Work,
}

/// All limits.
pub(crate) static ALL: &[&dyn Workload] = &[
    &Limit { name: "limit-enqueue", about: "One task per script and round trip", n: 20_000, work: Work::Enqueue },
    &Limit {
        name: "limit-enqueue-concurrent",
        about: "One group per script or commit, two groups of half the concurrency under way",
        n: 100_000,
        work: Work::EnqueueConcurrent,
    },
    &Limit {
        name: "limit-enqueue-bulk",
        about: "One group per script, 500 tasks per write on each of two connections; on a file 256 tasks per commit",
        n: 100_000,
        work: Work::EnqueueBulk,
    },
    &Limit {
        name: "limit-drain",
        about: "Settle a group and fetch the next in one script",
        n: 100_000,
        work: Work::Drain,
    },
    &Limit { name: "limit-end-to-end", about: "Three scripts for each group", n: 60_000, work: Work::EndToEnd },
    &Limit {
        name: "limit-latency",
        about: "Idle system, one task every 137 ms, enqueued and fetched",
        n: 100,
        work: Work::Latency,
    },
    &Limit {
        name: "limit-get",
        about: "The messages as plain values, one group of GET per round trip",
        n: 20_000,
        work: Work::Get,
    },
];

#[async_trait]
impl Workload for Limit {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn sizes(&self) -> (u64, usize) {
        (self.n, 100)
    }

    fn orders(&self, order: Order) -> Vec<Order> {
        // One task takes 137 ms, and more tasks add nothing.
        let most = if self.work == Work::Latency { self.n } else { u64::MAX };
        // A file has no GET, and only a drain of Redis goes from queue to queue.
        let is_measured = match self.work {
            Work::Drain => order.on_redis() || !order.has_queues(),
            Work::Get => order.on_redis() && !order.has_queues(),
            _ => !order.has_queues(),
        };
        if !is_measured {
            return Vec::new();
        }
        vec![Order { n: order.n.min(most), ..order }]
    }

    async fn prepare(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        match self.work {
            Work::Drain if order.has_queues() => queue::fill(client, order).await,
            Work::Drain if order.on_redis() => {
                let mut redis = Script::connect(&order.url)?;
                Ok(Tasks::new(order).groups(GROUP).try_for_each(|group| redis.enqueue(group))?)
            }
            Work::Drain => {
                let mut file = File::open(&order.url)?;
                Tasks::new(order).groups(GROUP).try_for_each(|group| file.enqueue(group))?;
                file.sync()
            }
            Work::Get => Ok(Script::connect(&order.url)?.set(&Tasks::new(order))?),
            _ => Ok(()),
        }
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        // The tasks are made before the clock starts: a generator of ids must not be the limit.
        let has_tasks = !matches!(self.work, Work::Drain | Work::Get);
        let tasks = if has_tasks { Tasks::new(order) } else { Tasks::default() };
        let mut calls = Histogram::new(3)?;
        let usage = if order.on_redis() {
            self.on_redis(order, &tasks, &mut calls).await?
        } else {
            self.on_file(order, &tasks, &mut calls).await?
        };
        let shown = self.shown(order);
        let measured = match (self.work, usage.redis) {
            // The process sleeps most of its time, so its CPU says nothing.
            (Work::Latency, _) => Measured::of(&shown),
            // A limit of Redis is one where Redis has no time left.
            (_, Some(redis)) => usage.per_task(&shown).with("broker CPU %", redis.cpu_us / usage.seconds / 1e4),
            (_, None) => usage.per_task(&shown),
        };
        Ok(if calls.is_empty() { measured } else { measured.spread(&calls) })
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        if self.work == Work::Get {
            // Each value was counted as it came.
            return Ok(());
        }
        let (order, drained) = (&measured.order, matches!(self.work, Work::Drain | Work::EndToEnd | Work::Latency));
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
        match self.work {
            // Two groups are under way, on both connections or in a commit that is made and one that goes to the disk. Together they
            // have as many tasks as the worker or the callers of this concurrency, as far as scripts of a worker's size can.
            Work::EnqueueConcurrent | Work::Drain | Work::EndToEnd => {
                (order.concurrency / Alternating::CONNECTIONS).clamp(1, GROUP)
            }
            Work::EnqueueBulk if !order.on_redis() => COMMIT,
            _ if order.concurrency <= 10 => 16,
            _ => GROUP,
        }
    }

    /// Returns the order with the numbers of connections and of tasks per group that the limit has.
    fn shown(&self, order: &Order) -> Order {
        let connections = if order.on_redis() { Alternating::CONNECTIONS } else { 1 };
        let group = self.group(order);
        match self.work {
            Work::Enqueue | Work::Latency => Order { concurrency: 1, ..order.clone() },
            Work::Get => Order { concurrency: 1, batch: Some(group), ..order.clone() },
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
        let within = matches!(self.work, Work::Drain | Work::Get).then(|| Meter::start(order)).transpose()?;
        let connected = connect()?;
        Ok((within.map_or_else(|| Meter::start(order), Ok)?, connected))
    }

    async fn on_redis(&self, order: &Order, tasks: &Tasks, calls: &mut Histogram<u64>) -> Result<Usage, BoxError> {
        let (meter, (mut redis, mut alternating)) =
            self.connected(order, || Ok((Script::connect(&order.url)?, Alternating::connect(&order.url)?)))?;
        match self.work {
            // One caller that awaits each call: Redis waits for the caller, too.
            Work::Enqueue => {
                for task in tasks.groups(1) {
                    let began = Instant::now();
                    redis.enqueue(task)?;
                    note(calls, began)?;
                }
            }
            Work::Latency => {
                for task in tasks.groups(1) {
                    tokio::time::sleep(workload::EVERY).await;
                    let began = Instant::now();
                    redis.enqueue(task)?;
                    redis.settle_and_fetch(1)?;
                    note(calls, began)?;
                    redis.settle_and_fetch(0)?;
                }
            }
            Work::Get => redis.get(order.n, self.group(order))?,
            Work::EnqueueConcurrent => alternating.enqueue(tasks, self.group(order), self.group(order))?,
            // One caller awaits each call of a thousand tasks.
            Work::EnqueueBulk => alternating.enqueue(tasks, self.group(order), BULK / Alternating::CONNECTIONS)?,
            Work::Drain => alternating.drain(queue::names(order), self.group(order))?,
            Work::EndToEnd => alternating.end_to_end(tasks, self.group(order))?,
        }
        meter.stop()
    }

    async fn on_file(&self, order: &Order, tasks: &Tasks, calls: &mut Histogram<u64>) -> Result<Usage, BoxError> {
        let (meter, mut file) = self.connected(order, || File::open(&order.url))?;
        match self.work {
            Work::Enqueue => {
                for task in tasks.groups(1) {
                    let began = Instant::now();
                    file.enqueue_to_disk(task)?;
                    note(calls, began)?;
                }
            }
            Work::EnqueueConcurrent => {
                for group in tasks.groups(self.group(order)) {
                    let began = Instant::now();
                    file.enqueue(group)?;
                    note(calls, began)?;
                }
            }
            Work::EnqueueBulk => {
                for call in tasks.groups(BULK) {
                    let began = Instant::now();
                    call.chunks(COMMIT).try_for_each(|group| file.enqueue(group))?;
                    note(calls, began)?;
                }
            }
            Work::Drain => while file.settle_and_fetch(self.group(order))? > 0 {},
            Work::EndToEnd => {
                for group in tasks.groups(self.group(order)) {
                    file.enqueue(group)?;
                    file.fetch(group.len())?;
                    file.settle()?;
                }
            }
            Work::Latency => {
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
            Work::Get => return Err("limit-get is about Redis: a file has no GET".into()),
        }
        // The last commits are on the disk when the clock stops, as it was promised.
        file.sync()?;
        meter.stop()
    }
}

/// Notes the time of a call since it began.
fn note(calls: &mut Histogram<u64>, began: Instant) -> Result<(), BoxError> {
    Ok(calls.record(u64::try_from(began.elapsed().as_micros())?)?)
}

//! Measures the limit of a broker for the same tasks: throwaway scripts that do asynq's data-structure work and nothing else,
//! sent by a lean blocking client; and on a SQLite file the least that a queue has to do there. No receipts, no typed jobs.

mod file;
mod resp;
mod scripts;

use std::time::Instant;

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;

pub(crate) use self::scripts::Script;
use self::{
    file::File,
    scripts::{Task, Tasks},
};
use crate::{
    measured::Measured,
    meter::Meter,
    order::Order,
    queue,
    workload::{self, Workload},
};

/// Tasks that a bulk call has; its scripts go out in one write.
const BULK: usize = 1_000;
/// Tasks of a bulk call that one commit stores.
const COMMIT: usize = 256;

/// The work of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// One task per script, one script per round trip.
    Enqueue,
    /// A group per script, one script per round trip: the best merge of many concurrent calls.
    EnqueueConcurrent,
    /// A group per script, [`BULK`] tasks per round trip; on a file [`COMMIT`] tasks per commit.
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
        about: "One group per script and round trip",
        n: 100_000,
        work: Work::EnqueueConcurrent,
    },
    &Limit {
        name: "limit-enqueue-bulk",
        about: "One group per script, 1,000 tasks per call",
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
        // A file has no GET, and only a drain of Redis turns from queue to queue.
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
        if order.has_queues() {
            queue::fill(client, order).await?;
        } else if self.work == Work::Drain {
            let mut broker = Raw::connect(order)?;
            for group in Tasks::new(order).groups(64) {
                broker.enqueue(group)?;
            }
            broker.end()?;
        }
        if self.work == Work::Get {
            Script::connect(&order.url)?.set(&Tasks::new(order))?;
        }
        Ok(())
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let (mut broker, group) = (Raw::connect(order)?, order.group());
        // The tasks are made before the clock starts: a generator of ids must not be the limit.
        let has_tasks = !matches!(self.work, Work::Drain | Work::Get);
        let tasks = if has_tasks { Tasks::new(order) } else { Tasks::default() };
        let mut calls = Histogram::new(3)?;
        let mut timed = |began: Instant| calls.record(began.elapsed().as_micros() as u64);

        let meter = Meter::start(order)?;
        match self.work {
            Work::Enqueue | Work::EnqueueConcurrent => {
                for group in tasks.groups(if self.work == Work::Enqueue { 1 } else { group }) {
                    let began = Instant::now();
                    broker.enqueue(group)?;
                    if self.work == Work::Enqueue {
                        broker.end()?;
                    }
                    timed(began)?;
                }
            }
            Work::Latency => {
                for task in tasks.groups(1) {
                    tokio::time::sleep(workload::EVERY).await;
                    let began = Instant::now();
                    broker.enqueue(task)?;
                    broker.fetch(1)?;
                    timed(began)?;
                    broker.settle()?;
                    broker.end()?;
                }
            }
            Work::EnqueueBulk => {
                let group = if order.on_redis() { group } else { COMMIT };
                for call in tasks.groups(BULK) {
                    let began = Instant::now();
                    broker.enqueue_all(call.chunks(group))?;
                    timed(began)?;
                }
            }
            Work::Drain => {
                for queue in queue::names(order) {
                    broker.turn_to(&queue);
                    while broker.settle_and_fetch(group)? > 0 {}
                }
            }
            Work::Get => broker.get(order.n, group)?,
            Work::EndToEnd => {
                for group in tasks.groups(group) {
                    broker.enqueue(group)?;
                    broker.fetch(group.len())?;
                    broker.settle()?;
                }
            }
        }
        broker.end()?;
        let measured = match self.work {
            // The process sleeps most of its time, so its CPU says nothing.
            Work::Latency => Measured::of(order),
            _ => meter.stop()?.per_task(order),
        };
        Ok(if calls.is_empty() { measured } else { measured.spread(&calls) })
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        if self.work == Work::Get {
            // Each value was counted as it came. A given Redis keeps none of them.
            return Ok(Script::connect(&measured.order.url)?.forget(measured.order.n)?);
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

/// A connection to a broker without the framework.
enum Raw {
    Redis(Box<Script>),
    Sqlite(File),
}

impl Raw {
    fn connect(order: &Order) -> Result<Self, BoxError> {
        Ok(if order.on_redis() {
            Self::Redis(Box::new(Script::connect(&order.url)?))
        } else {
            Self::Sqlite(File::open(&order.url)?)
        })
    }

    fn enqueue(&mut self, group: &[Task]) -> Result<(), BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.enqueue(group)?),
            Self::Sqlite(file) => file.enqueue(group),
        }
    }

    /// Enqueues the groups of one call: a script or a commit each.
    fn enqueue_all<'a>(&mut self, mut groups: impl Iterator<Item = &'a [Task]>) -> Result<(), BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.enqueue_all(groups)?),
            Self::Sqlite(file) => groups.try_for_each(|group| file.enqueue(group)),
        }
    }

    fn fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.fetch(n)?),
            Self::Sqlite(file) => file.fetch(n),
        }
    }

    /// Waits until all work is as durable as it was promised.
    fn end(&mut self) -> Result<(), BoxError> {
        match self {
            Self::Redis(_) => Ok(()),
            Self::Sqlite(file) => file.sync(),
        }
    }

    /// Works on another queue from now on; a file has one alone.
    fn turn_to(&mut self, queue: &str) {
        if let Self::Redis(redis) = self {
            redis.turn_to(queue);
        }
    }

    fn get(&mut self, n: u64, group: usize) -> Result<(), BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.get(n, group)?),
            Self::Sqlite(_) => Err("limit-get is about Redis: a file has no GET".into()),
        }
    }

    fn settle(&mut self) -> Result<(), BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.settle()?),
            Self::Sqlite(file) => file.settle(),
        }
    }

    fn settle_and_fetch(&mut self, n: usize) -> Result<usize, BoxError> {
        match self {
            Self::Redis(redis) => Ok(redis.settle_and_fetch(n)?),
            Self::Sqlite(file) => file.settle_and_fetch(n),
        }
    }
}

//! What Redis itself can do for the same tasks: throwaway scripts that do asynq's data-structure work and nothing else, sent
//! by a lean blocking client. No fence, no receipts, no typed jobs.

mod resp;
mod scripts;

use std::time::Instant;

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;

pub(crate) use self::scripts::Script;
use self::scripts::Tasks;
use crate::{measured::Measured, meter::Meter, order::Order, queue, workload::Workload};

/// Tasks that a bulk call has; its scripts go out in one write.
const BULK: usize = 1_000;

/// What a limit does with its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// One task per script, one script per round trip.
    Enqueue,
    /// A group per script, one script per round trip: what many callers at once can be put together to.
    EnqueueConcurrent,
    /// A group per script, [`BULK`] tasks per round trip.
    EnqueueBulk,
    /// One script settles a group and fetches the next.
    Drain,
    /// Three scripts for each group: enqueue, fetch, settle.
    EndToEnd,
}

struct Limit {
    name: &'static str,
    about: &'static str,
    n: u64,
    work: Work,
}

/// All of them.
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
        about: "One group per script, 1,000 tasks per round trip",
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
        if order.on_redis() { vec![order] } else { Vec::new() }
    }

    async fn prepare(&self, order: &Order, _client: &Client) -> Result<(), BoxError> {
        if self.work == Work::Drain {
            let mut redis = Script::connect(&order.url)?;
            for group in Tasks::new(order).groups(64) {
                redis.enqueue(group)?;
            }
        }
        Ok(())
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let (mut redis, group) = (Script::connect(&order.url)?, order.group());
        // Made before the clock starts: the limit is not to be that of a generator of ids.
        let tasks = if self.work == Work::Drain { Tasks::default() } else { Tasks::new(order) };
        let mut calls = Histogram::new(3)?;
        let mut timed = |began: Instant| calls.record(began.elapsed().as_micros() as u64);

        let meter = Meter::start(order)?;
        match self.work {
            Work::Enqueue | Work::EnqueueConcurrent => {
                for group in tasks.groups(if self.work == Work::Enqueue { 1 } else { group }) {
                    let began = Instant::now();
                    redis.enqueue(group)?;
                    timed(began)?;
                }
            }
            Work::EnqueueBulk => {
                for call in tasks.groups(BULK) {
                    let began = Instant::now();
                    redis.enqueue_all(call.chunks(group))?;
                    timed(began)?;
                }
            }
            Work::Drain => while redis.settle_and_fetch(group)? > 0 {},
            Work::EndToEnd => {
                for group in tasks.groups(group) {
                    redis.enqueue(group)?;
                    redis.fetch(group.len())?;
                    redis.settle()?;
                }
            }
        }
        let measured = meter.stop()?.per_task(order);
        Ok(if calls.is_empty() { measured } else { measured.spread(&calls) })
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        let (order, drained) = (&measured.order, matches!(self.work, Work::Drain | Work::EndToEnd));
        queue::expect(client, order, if drained { 0 } else { order.n }).await?;
        match queue::held(client, order).await?.processed {
            settled if drained && settled != order.n => {
                Err(format!("{settled} of {} tasks were settled", order.n).into())
            }
            _ => Ok(()),
        }
    }
}

//! Enqueues: one caller, many callers, and calls with many tasks. Each call is timed.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::Workload;
use crate::{measured::Measured, meter::Meter, order::Order, queue, task::task};

pub(super) struct Producers {
    is_one: bool,
    /// Tasks per call, a run for each; one task per call if empty.
    batches: &'static [usize],
}

pub(super) const ONE: Producers = Producers { is_one: true, batches: &[] };
pub(super) const CONCURRENT: Producers = Producers { is_one: false, batches: &[] };
pub(super) const BULK: Producers = Producers { is_one: true, batches: &[100, 1_000] };

#[async_trait]
impl Workload for Producers {
    fn orders(&self, mut order: Order) -> Vec<Order> {
        if self.is_one {
            order.concurrency = 1;
        }
        if self.batches.is_empty() {
            return vec![order];
        }
        self.batches.iter().map(|batch| Order { batch: Some(*batch), ..order.clone() }).collect()
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let client = Client::connect(&order.url).await?;
        let meter = Meter::start(order)?;
        let calls = from_many(&client, order, order.concurrency).await?;
        let usage = meter.stop()?;
        let measured = usage.per_task(&Order { n: calls.tasks, ..order.clone() }).spread(&calls.micros);
        Ok(match usage.redis {
            Some(redis) => measured.with("bytes per task", redis.memory / calls.tasks as f64),
            None => measured,
        })
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        queue::expect(client, &measured.order, measured.order.n).await
    }
}

/// Calls that have returned.
pub(super) struct Calls {
    /// The number of tasks that they enqueued.
    pub(super) tasks: u64,
    /// The time that each call took.
    pub(super) micros: Histogram<u64>,
}

/// Enqueues `order.n` tasks from `callers` callers at once, or as many as possible in `order.seconds`.
///
/// # Errors
///
/// A task was refused.
pub(super) async fn from_many(client: &Client, order: &Order, callers: usize) -> Result<Calls, BoxError> {
    let until = order.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let share = order.n.div_ceil(callers as u64).max(1);
    let mut producers = JoinSet::new();
    for first in (0..order.n).step_by(usize::try_from(share)?) {
        let numbers = first..order.n.min(first + share);
        producers.spawn(one(client.clone(), order.clone(), numbers, until));
    }
    let mut all = Calls { tasks: 0, micros: Histogram::new(3)? };
    while let Some(calls) = producers.join_next().await {
        let calls = calls??;
        all.tasks += calls.tasks;
        all.micros.add(calls.micros)?;
    }
    Ok(all)
}

async fn one(client: Client, order: Order, numbers: Range<u64>, until: Option<Instant>) -> Result<Calls, BoxError> {
    let mut calls = Calls { tasks: 0, micros: Histogram::new(3)? };
    for first in numbers.clone().step_by(order.batch.unwrap_or(1)) {
        let called = Instant::now();
        if until.is_some_and(|until| called > until) {
            break;
        }
        match order.batch {
            None => {
                client.enqueue(task(first, order.payload_bytes)).await?;
                calls.tasks += 1;
            }
            Some(batch) => {
                let numbers = first..numbers.end.min(first + batch as u64);
                calls.tasks += numbers.end - numbers.start;
                queue::store(&client, numbers.map(|number| task(number, order.payload_bytes))).await?;
            }
        }
        calls.micros.record(u64::try_from(called.elapsed().as_micros())?)?;
    }
    Ok(calls)
}

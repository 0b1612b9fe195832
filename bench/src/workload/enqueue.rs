//! Enqueues: one caller, many callers, and calls with many tasks. Each call is timed.

use std::{ops::Range, time::Instant};

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::Workload;
use crate::{
    measured::Measured,
    meter::Meter,
    order::Order,
    task::{self, task},
};

pub(super) struct Producers {
    name: &'static str,
    about: &'static str,
    n: u64,
    callers: usize,
    batches: &'static [usize],
}

pub(super) const ONE: Producers =
    Producers { name: "enqueue", about: "One caller, each call awaited", n: 20_000, callers: 1, batches: &[] };

pub(super) const CONCURRENT: Producers = Producers {
    name: "enqueue-concurrent",
    about: "Many callers of one client, each call awaited",
    n: 50_000,
    callers: 64,
    batches: &[],
};

pub(super) const BULK: Producers = Producers {
    name: "enqueue-bulk",
    about: "One caller, 100 and 1,000 tasks per call",
    n: 100_000,
    callers: 1,
    batches: &[100, 1_000],
};

#[async_trait]
impl Workload for Producers {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn sizes(&self) -> (u64, usize) {
        (self.n, self.callers)
    }

    fn orders(&self, order: Order) -> Vec<Order> {
        // Only what is called concurrent has as many callers as somebody likes.
        let order = if self.callers == 1 { Order { concurrency: 1, ..order } } else { order };
        if self.batches.is_empty() {
            return vec![order];
        }
        self.batches.iter().map(|batch| Order { batch: Some(*batch), ..order.clone() }).collect()
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let client = Client::connect(&order.url).await?;
        let meter = Meter::start(order)?;
        let calls = from_many(&client, order, order.concurrency).await?;
        Ok(meter.stop(order)?.spread(&calls))
    }

    async fn verify(&self, order: &Order, client: &Client) -> Result<(), BoxError> {
        task::expect_pending(client, order.n).await
    }
}

/// Enqueues `order.n` tasks from so many callers at once; says how many microseconds each call took.
///
/// # Errors
///
/// A task was refused.
pub(super) async fn from_many(client: &Client, order: &Order, callers: usize) -> Result<Histogram<u64>, BoxError> {
    let share = order.n.div_ceil(callers as u64).max(1);
    let mut producers = JoinSet::new();
    for first in (0..order.n).step_by(usize::try_from(share)?) {
        let numbers = first..order.n.min(first + share);
        producers.spawn(one(client.clone(), numbers, order.payload_bytes, order.batch));
    }
    let mut calls = Histogram::new(3)?;
    while let Some(producer) = producers.join_next().await {
        calls.add(producer??)?;
    }
    Ok(calls)
}

async fn one(
    client: Client,
    numbers: Range<u64>,
    payload_bytes: usize,
    batch: Option<usize>,
) -> Result<Histogram<u64>, BoxError> {
    let mut calls = Histogram::new(3)?;
    for first in numbers.clone().step_by(batch.unwrap_or(1)) {
        let called = Instant::now();
        match batch {
            None => drop(client.enqueue(task(first, payload_bytes)).await?),
            Some(batch) => {
                let numbers = first..numbers.end.min(first + batch as u64);
                for outcome in client.enqueue_many(numbers.map(|number| task(number, payload_bytes))).await? {
                    outcome?;
                }
            }
        }
        calls.record(u64::try_from(called.elapsed().as_micros())?)?;
    }
    Ok(calls)
}

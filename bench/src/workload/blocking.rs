//! Jobs that use every processor for longer than a lease: the worker must keep its tasks.

use std::{
    hint::black_box,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use asynq_runtime::prelude::*;

use super::Workload;
use crate::{measured::Measured, meter::Meter, order::Order, queue, task::Seen};

/// Longer than a lease of 30 s, plus the time that other programs wait after a lease.
const SECONDS: u64 = 36;

/// Returns the number of jobs, two for each processor and at least 16: fewer would leave time to the worker.
pub(crate) fn jobs() -> usize {
    16_usize.max(2 * available_parallelism().map_or(1, usize::from))
}

/// Computes for so many seconds.
#[job(queue = "bench", codec = "json")]
fn crunch(seen: State<Seen>, number: u64, seconds: u64) -> JobResult {
    let (began, mut sum) = (Instant::now(), number);
    while began.elapsed() < Duration::from_secs(seconds) {
        for n in 0..100_000_u64 {
            sum = black_box(sum.rotate_left(7) ^ n);
        }
    }
    seen.mark(number);
    Ok(())
}

pub(super) struct Blocking;

#[async_trait]
impl Workload for Blocking {
    fn name(&self) -> &'static str {
        "blocking"
    }

    fn about(&self) -> &'static str {
        "16 jobs at a time, or two for each processor, that only compute, for longer than a lease: how many leases are lost"
    }

    fn sizes(&self) -> (u64, usize) {
        (jobs() as u64, jobs())
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let seen = Seen::none_of(order.n);
        let client = Client::connect(&order.url).await?;
        for number in 0..order.n {
            client.enqueue(crunch { number, seconds: order.seconds.unwrap_or(SECONDS) }).await?;
        }
        let meter = Meter::start(order)?;
        let running = queue::worker::<crunch>(order, seen.clone()).build().await?.start().await?;
        seen.all().await?;
        queue::acknowledged(&running, order.n).await?;
        let measured = meter.stop()?.per_task(order);
        // A server that loses a lease has its task recovered: it fails once, and runs again.
        let lost = queue::counts(&client, order).await?.failed + seen.again();
        running.shutdown().await?;
        Ok(measured.with("leases lost", lost as f64))
    }

    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        let counts = queue::counts(client, &measured.order).await?;
        // A lost lease is a figure, not a failure of the measurement.
        if counts.pending + counts.others == 0 { Ok(()) } else { Err(format!("tasks are left: {counts:?}").into()) }
    }
}

//! Measures how exactly tasks start that are due at random within seconds.

use std::time::Duration;

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use tokio::sync::mpsc;

use super::Workload;
use crate::{
    measured::{EARLIEST, Measured},
    meter,
    order::Order,
    queue,
    task::{Starts, next_start, stamp, unix_nanos},
};

/// The first task is due so long after the last was enqueued.
const SOON: Duration = Duration::from_secs(1);
/// The tasks are due within so long.
const WITHIN: Duration = Duration::from_secs(4);

pub(super) struct Delayed;

#[async_trait]
impl Workload for Delayed {
    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let (sender, mut started) = mpsc::unbounded_channel();
        let running = queue::worker::<stamp>(order, Starts(sender)).build().await?.start().await?;
        let client = running.client();

        let begin = unix_nanos() + u64::try_from(SOON.as_nanos())?;
        for number in 0..order.n {
            let moment = begin + scattered(number, u64::try_from(WITHIN.as_nanos())?);
            let due = chrono::DateTime::from_timestamp_nanos(moment.cast_signed());
            client.enqueue(stamp { number, moment }.into_job().process_at(due)).await?;
        }
        let (mut micros, mut earliest) = (Histogram::<u64>::new(3)?, i64::MAX);
        for _ in 0..order.n {
            let (_, nanos) = next_start(&mut started).await?;
            earliest = earliest.min(nanos);
            micros.record(u64::try_from(nanos.max(0))? / 1_000)?;
        }
        running.shutdown().await?;
        let measured = Measured { peak_rss_mib: meter::peak_rss_mib(), ..Measured::of(order) };
        Ok(measured.spread(&micros).with(EARLIEST, earliest as f64 / 1e6))
    }
}

/// Returns a number below `end` that looks random and is the same in every run.
fn scattered(number: u64, end: u64) -> u64 {
    fastrand::Rng::with_seed(number).u64(..end)
}

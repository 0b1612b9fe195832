//! Start latency on an idle system: from the enqueue call to the first line of the job.

use std::time::Duration;

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use tokio::sync::mpsc;

use super::Workload;
use crate::{
    limit::Script,
    measured::Measured,
    meter,
    order::{Order, Source},
    queue, run,
    task::{Starts, next_start, stamp, unix_nanos},
};

/// The time between two enqueues: long enough that the worker is idle again, and in step with no interval of ours or of Redis.
pub(crate) const EVERY: Duration = Duration::from_millis(137);
/// Tasks before the measurement, which open connections and warm caches.
pub(super) const WARM_UP: u64 = 10;

pub(super) struct Latency;

#[async_trait]
impl Workload for Latency {
    fn orders(&self, order: Order) -> Vec<Order> {
        let sources: &[_] = if order.on_redis() {
            &[Source::Process, Source::Script, Source::Same]
        } else {
            &[Source::Process, Source::Same]
        };
        sources.iter().map(|source| Order { from: Some(*source), ..order.clone() }).collect()
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let (sender, mut started) = mpsc::unbounded_channel();
        let running = queue::worker::<stamp>(order, Starts(sender)).build().await?.start().await?;

        let producer = async {
            if order.from == Some(Source::Same) {
                return one_by_one(order, By::Client(running.client())).await;
            }
            let ended = run::Role::Produce.command(order)?.status().await?;
            if ended.success() { Ok(()) } else { Err("the producing process failed".into()) }
        };
        let listener = async {
            let mut micros = Histogram::<u64>::new(3)?;
            for _ in 0..order.n + WARM_UP {
                let (number, nanos) = next_start(&mut started).await?;
                if number >= WARM_UP {
                    micros.record(u64::try_from(nanos)? / 1_000)?;
                }
            }
            Ok::<_, BoxError>(micros)
        };
        let ((), micros) = tokio::try_join!(producer, listener)?;
        running.shutdown().await?;
        Ok(Measured { peak_rss_mib: meter::peak_rss_mib(), ..Measured::of(order) }.spread(&micros))
    }
}

/// Enqueues one task every [`EVERY`], as the order says, in the role of another process.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn produce(order: &Order) -> Result<(), BoxError> {
    let by = match order.from {
        Some(Source::Script) => By::Script(Box::new(Script::connect(&order.url)?)),
        _ => By::Client(Client::connect(&order.url).await?),
    };
    one_by_one(order, by).await
}

/// The sender of the tasks.
enum By {
    /// The client of the server in the worker's process, or one of another process.
    Client(Client),
    /// A stand-in for a program that is not ours.
    Script(Box<Script>),
}

async fn one_by_one(order: &Order, mut by: By) -> Result<(), BoxError> {
    let mut ticks = tokio::time::interval(EVERY);
    for number in 0..order.n + WARM_UP {
        ticks.tick().await;
        let task = stamp { number, moment: unix_nanos() };
        match &mut by {
            By::Client(client) => drop(client.enqueue(task).await?),
            By::Script(script) => script.enqueue_one(task.into_job())?,
        }
    }
    Ok(())
}

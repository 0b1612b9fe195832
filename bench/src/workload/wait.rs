//! Measures how soon a caller that waits for a task is answered: from the end of the job, its settlement included.

use std::{io::Read as _, process::Stdio};

use async_trait::async_trait;
use asynq_runtime::prelude::*;
use hdrhistogram::Histogram;
use tokio::{task::spawn_blocking, time::interval};

use super::{EVERY, Workload, latency::WARM_UP};
use crate::{
    measured::Measured,
    meter,
    order::{Order, Source},
    queue, run,
    task::{PATIENCE, finish, unix_nanos},
};

pub(super) struct Wait;

#[async_trait]
impl Workload for Wait {
    fn orders(&self, order: Order) -> Vec<Order> {
        [Source::Process, Source::Same].map(|source| Order { from: Some(source), ..order.clone() }).into()
    }

    async fn measure(&self, order: &Order) -> Result<Measured, BoxError> {
        let micros = if order.from == Some(Source::Same) {
            let running = worker(order).await?;
            let micros = one_by_one(order, &running.client()).await?;
            running.shutdown().await?;
            micros
        } else {
            let mut other = run::Role::Work.command(order)?.stdin(Stdio::piped()).spawn()?;
            let micros = one_by_one(order, &Client::connect(&order.url).await?).await?;
            drop(other.stdin.take());
            if !other.wait().await?.success() {
                return Err("the working process failed".into());
            }
            micros
        };
        Ok(Measured { peak_rss_mib: meter::peak_rss_mib(), ..Measured::of(order) }.spread(&micros))
    }

    /// The tasks are kept a while, so that their callers can read the answer.
    async fn verify(&self, measured: &Measured, client: &Client) -> Result<(), BoxError> {
        let counts = queue::counts(client, &measured.order).await?;
        let expected = queue::QueueCounts {
            others: measured.order.n + WARM_UP,
            processed: counts.processed,
            ..Default::default()
        };
        if counts == expected { Ok(()) } else { Err(format!("expected: {expected:?}, found: {counts:?}").into()) }
    }
}

async fn worker(order: &Order) -> Result<asynq_runtime::server::Running, BoxError> {
    Ok(queue::worker::<finish>(order, ()).build().await?.start().await?)
}

/// Works until standard input ends, in the role of another process.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn work(order: &Order) -> Result<(), BoxError> {
    let running = worker(order).await?;
    spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    running.shutdown().await?;
    Ok(())
}

async fn one_by_one(order: &Order, client: &Client) -> Result<Histogram<u64>, BoxError> {
    let (mut micros, mut ticks) = (Histogram::<u64>::new(3)?, interval(EVERY));
    for number in 0..order.n + WARM_UP {
        ticks.tick().await;
        let task = finish::job().retention("1h").awaited().enqueue(client).await?;
        let ended = task.wait(PATIENCE).await?.done()?;
        if number >= WARM_UP {
            micros.record(unix_nanos().saturating_sub(ended) / 1_000)?;
        }
    }
    Ok(micros)
}

//! Measures the cost of a SQLite file: bytes that this process writes, CPU of an idle worker, and the room that deleted tasks
//! leave.

use std::{fs, path::Path, time::Duration};

use asynq_runtime::{inspector::Force, prelude::*};

use super::{Stage, spent::Spent};
use crate::{
    meter::Meter,
    order::Order,
    queue,
    task::{PATIENCE, Seen, note, task},
};

/// Tasks that are enqueued while others wait, and tasks per call.
const TASKS: u64 = 1_000;
const BATCH: u64 = 100;
/// Refusals that are counted.
const REFUSALS: u64 = 100;
/// Within this time after its start a worker has asked everything once.
const SETTLES: Duration = Duration::from_secs(3);
const LOCK: Duration = Duration::from_secs(3_600);

/// Measures enqueues of tasks beside others that wait.
pub(super) async fn enqueue(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let counter = stage.count()?;
    for first in (n..n + TASKS).step_by(BATCH as usize) {
        let tasks = (first..first + BATCH).map(|number| task(number, 100));
        for outcome in stage.client.enqueue_many(tasks).await? {
            outcome?;
        }
    }
    counter.stop(TASKS)
}

/// Measures a drain of waiting tasks, from the start of a worker to the last acknowledgement.
pub(super) async fn drain(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let seen = Seen::none_of(n);
    let server = queue::worker::<note>(&stage.order, seen.clone()).build().await?;
    let counter = stage.count()?;
    let running = server.start().await?;
    seen.all().await?;
    queue::acknowledged(&running, n).await?;
    let spent = counter.stop(n)?;
    running.shutdown().await?;
    Ok(spent)
}

/// Measures the refusal of duplicates, beside tasks that wait.
pub(super) async fn duplicate(stage: &Stage) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    stage.client.enqueue(task(0, 100).into_job().unique(LOCK)).await?;
    let counter = stage.count()?;
    for _ in 0..REFUSALS {
        if stage.client.enqueue(task(0, 100).into_job().unique(LOCK)).await.is_ok() {
            return Err("a duplicate was stored".into());
        }
    }
    counter.stop(REFUSALS)
}

/// Measures one second of a worker without tasks; its time is the CPU time of this process.
pub(super) async fn idle(stage: &Stage, queues: u64) -> Result<Spent, BoxError> {
    let order = Order { queues: Some(queues), ..stage.order.clone() };
    let running = queue::worker::<note>(&order, Seen::none_of(0)).build().await?.start().await?;
    tokio::time::sleep(SETTLES).await;
    let (meter, counter) = (Meter::start(&order)?, stage.count()?);
    tokio::time::sleep(Duration::from_secs(stage.seconds)).await;
    let spent = counter.stop(stage.seconds)?;
    let cpu_ms = meter.stop()?.own_cpu_us / 1e3 / stage.seconds as f64;
    running.shutdown().await?;
    Ok(Spent { ms: cpu_ms, ..spent })
}

/// Measures the time from the deletion of all tasks until the file has a quarter of its size; the bytes are the size of the file
/// then. A worker keeps 4 MiB for new tasks, so the file has to be four times as long before.
pub(super) async fn shrinks(stage: &Stage) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let path = Path::new(stage.order.url.strip_prefix("sqlite://").unwrap_or_default());
    let size = || Ok::<_, BoxError>(fs::metadata(path)?.len());
    let running = queue::worker::<note>(&stage.order, Seen::none_of(0));
    stage.client.inspector().delete_queue(queue::QUEUE, Force::Yes).await?;
    let before = size()?;
    let running = running.build().await?.start().await?;
    let counter = stage.count()?;
    let shrunk = async {
        while size()? * 4 > before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok::<_, BoxError>(())
    };
    let ended = tokio::time::timeout(PATIENCE, shrunk).await;
    let spent = counter.stop(1)?;
    running.shutdown().await?;
    ended.map_err(|_| format!("the file had {before} bytes and has {}", size().unwrap_or_default()))??;
    Ok(Spent { bytes: Some(size()? as f64), ..spent })
}

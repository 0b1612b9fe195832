//! Measures the cost of a SQLite file: bytes that this process writes, and the room that deleted tasks leave.

use std::{fs, path::Path, time::Duration};

use asynq_runtime::{inspector::Force, prelude::*};

use super::{Stage, spent::Spent};
use crate::{
    queue,
    task::{PATIENCE, Seen, note, task},
};

/// Tasks that are enqueued while others wait, and tasks per call.
const TASKS: u64 = 1_000;
const BATCH: u64 = 100;
/// Refusals that are counted.
const REFUSALS: u64 = 100;
const LOCK: Duration = Duration::from_secs(3_600);

/// Measures enqueues of tasks beside others that wait.
pub(super) async fn enqueue(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let counter = stage.count()?;
    for first in (n..n + TASKS).step_by(BATCH as usize) {
        let tasks = (first..first + BATCH).map(|number| task(number, 100));
        queue::store(&stage.client, tasks).await?;
    }
    counter.stop(TASKS)
}

/// Measures a drain of waiting tasks, from the start of a worker to the last acknowledgement.
pub(super) async fn drain(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let seen = Seen::none_of(n);
    stage.work(queue::worker::<note>(&stage.order, seen.clone()), &seen, n, n).await
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

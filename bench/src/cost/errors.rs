//! Measures the memory of a task that failed again and again with a long text.

use asynq_runtime::{prelude::*, task::QueueName};

use super::{Stage, spent::Spent};
use crate::{queue, queue::QUEUE, task::PATIENCE};

/// Bytes that are kept of a text.
const TEXT: usize = 4_096;

/// Fails with a text as long as any that is kept.
#[job(queue = "bench", codec = "json", backoff = "10ms")]
pub(crate) async fn failing() -> JobResult {
    Err("x".repeat(TEXT).into())
}

/// Measures a task that failed `failures` times and was archived; the bytes are all that Redis holds of the task.
pub(super) async fn stored(stage: &Stage, failures: u64) -> Result<Spent, BoxError> {
    let running = queue::worker::<failing>(&stage.order, ()).build().await?.start().await?;
    let counter = stage.count()?;
    let task = failing::job().retry(u32::try_from(failures - 1)?);
    let id = stage.client.enqueue(task).await?.id;
    let queue: QueueName = QUEUE.parse()?;
    let archived = async {
        while stage.client.broker().queue_stats(&queue).await?.archived == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Ok::<_, BoxError>(())
    };
    tokio::time::timeout(PATIENCE, archived).await.map_err(|_| "the task was not archived")??;
    let spent = counter.stop(1)?;
    running.shutdown().await?;
    let mut redis = stage.order.redis_connection()?;
    let key = format!("asynq:{{{QUEUE}}}:t:{id}");
    let bytes: f64 = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut redis)?;
    // Time and commands are left out: the way to the archive is not measured, and they depend on the pauses between the attempts and
    // on how often the loop looked.
    Ok(Spent { bytes: Some(bytes), ms: None, cpu_ms: None, commands: None, ..spent })
}

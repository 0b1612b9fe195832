//! The exact due times of delayed tasks, which Go workers do not know and leave behind.

use std::time::Duration;

use asynq_runtime::prelude::*;

use super::{Stage, spent::Spent};
use crate::{queue, queue::QUEUE, task::task};

/// Tasks of a part. Each part comes after the one before it is past.
const PART: u64 = 1_000;
/// Members of this age are removed by the next call that adds some.
const PAST: Duration = Duration::from_millis(3_000);
const SOON: Duration = Duration::from_millis(100);

/// Schedules so many parts and takes each of them out of `scheduled`, as a Go forwarder does. The bytes are those of all due times
/// that are left in the end: if they grow with the parts, the key never shrinks.
pub(super) async fn beside_go(stage: &Stage, parts: u64) -> Result<Spent, BoxError> {
    let mut redis = stage.order.redis_connection()?;
    let counter = stage.count()?;
    for part in 0..parts {
        let tasks = (0..PART).map(|number| task(part * PART + number, 100).into_job().process_in(SOON));
        queue::store(&stage.client, tasks).await?;
        tokio::time::sleep(PAST).await;
        redis::cmd("UNLINK").arg(format!("asynq:{{{QUEUE}}}:scheduled")).exec(&mut redis)?;
    }
    let spent = counter.stop(parts)?;
    let key = format!("asynq:{{{QUEUE}}}:x:due");
    let left: Option<f64> = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut redis)?;
    // Most of the time is the pauses above.
    Ok(Spent { ms: None, bytes: Some(left.unwrap_or(0.0)), ..spent })
}

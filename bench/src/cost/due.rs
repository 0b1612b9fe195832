//! The exact due times of delayed tasks, which Go workers do not know and leave behind.

use std::time::Duration;

use asynq_runtime::prelude::*;

use super::{Stage, spent::Spent};
use crate::{queue::QUEUE, task::task};

/// The tasks come in so many parts, each after the part before it is past.
const PARTS: u64 = 4;
/// Members of this age are removed by the next call that adds some.
const PAST: Duration = Duration::from_millis(3_000);
const SOON: Duration = Duration::from_millis(100);
const BATCH: u64 = 1_000;

/// Schedules `n` tasks and takes each part out of `scheduled`, as a Go forwarder does. The bytes are those of the due times that
/// are left, per task.
pub(super) async fn beside_go(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let mut redis = redis::Client::open(stage.order.url.as_str())?.get_connection()?;
    let counter = stage.count()?;
    for part in 0..PARTS {
        let end = n * (part + 1) / PARTS;
        let mut first = n * part / PARTS;
        while first < end {
            let last = end.min(first + BATCH);
            let tasks = (first..last).map(|number| task(number, 100).into_job().process_in(SOON));
            for outcome in stage.client.enqueue_many(tasks).await? {
                outcome?;
            }
            first = last;
        }
        tokio::time::sleep(PAST).await;
        redis::cmd("UNLINK").arg(format!("asynq:{{{QUEUE}}}:scheduled")).exec(&mut redis)?;
    }
    let spent = counter.stop(n)?;
    let key = format!("asynq:{{{QUEUE}}}:x:due");
    let left: Option<f64> = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut redis)?;
    Ok(Spent { bytes: Some(left.unwrap_or(0.0) / n as f64), ..spent })
}

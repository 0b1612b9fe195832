//! Measures housekeeping: ids without a task, and groups that are not known.

use asynq_runtime::{prelude::*, task::QueueName};

use super::{Stage, spent::Spent};
use crate::{queue, queue::QUEUE};

/// Ids whose tasks are gone.
const GHOSTS: isize = 100;
/// Turns that a sweep of them may take.
const ROUNDS: u64 = 20;

/// Sweeps a queue where the tasks of the oldest ids are gone, in turns until no such id is left.
pub(super) async fn sweep(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let mut redis = redis::Client::open(stage.order.url.as_str())?.get_connection()?;
    let pending = format!("asynq:{{{QUEUE}}}:pending");
    let oldest: Vec<String> = redis::cmd("LRANGE").arg(&pending).arg(-GHOSTS).arg(-1).query(&mut redis)?;
    let keys: Vec<String> = oldest.iter().map(|id| format!("asynq:{{{QUEUE}}}:t:{id}")).collect();
    redis::cmd("UNLINK").arg(&keys).exec(&mut redis)?;

    let (queue, left) = (QUEUE.parse::<QueueName>()?, n - oldest.len() as u64);
    let counter = stage.count()?;
    let mut rounds = 0;
    while stage.client.broker().queue_stats(&queue).await?.pending > left && rounds < ROUNDS {
        stage.client.broker().sweep(&queue).await?;
        rounds += 1;
    }
    let spent = counter.stop(rounds.max(1))?;
    match stage.client.broker().queue_stats(&queue).await?.pending {
        swept if swept == left => Ok(spent),
        pending => Err(format!("{} ids are left after {rounds} rounds", pending - left).into()),
    }
}

/// Takes one turn of the search for groups that have tasks and are not known, among so many keys.
pub(super) async fn restore_groups(stage: &Stage) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let queues = [QUEUE.parse::<QueueName>()?];
    let counter = stage.count()?;
    stage.client.broker().restore_groups(&queues).await?;
    counter.stop(1)
}

//! Measures housekeeping and repairs: ids without a task, groups that are not known, changes of many tasks.

use asynq_runtime::{
    broker::{BulkAction, Chosen, GroupRules},
    prelude::*,
    task::{GroupName, QueueName},
};

use super::{Stage, spent::Spent};
use crate::{queue, queue::QUEUE, task::task};

/// Ids whose tasks are gone.
const GHOSTS: u64 = 100;
/// The place, counted from the oldest task, up to which a sweep removes such ids.
const DEEPEST: u64 = 20_000;
/// Tasks of one slice of a change.
const SLICE: usize = 100;
/// Slices that are measured.
const SLICES: u64 = 10;

/// Sweeps a queue where the tasks of some ids are gone, in turns until no such id is left: the oldest, or those that are as deep
/// as any that a sweep removes.
pub(super) async fn sweep(stage: &Stage, n: u64, is_deep: bool) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let mut redis = stage.order.redis_connection()?;
    let pending = format!("asynq:{{{QUEUE}}}:pending");
    let end = if is_deep { n.min(DEEPEST) } else { n.min(GHOSTS) }.cast_signed();
    let mut gone = redis::cmd("LRANGE");
    gone.arg(&pending).arg(-end).arg((GHOSTS.cast_signed() - 1 - end).min(-1));
    let gone: Vec<String> = gone.query(&mut redis)?;
    let keys: Vec<String> = gone.iter().map(|id| format!("asynq:{{{QUEUE}}}:t:{id}")).collect();
    redis::cmd("UNLINK").arg(&keys).exec(&mut redis)?;

    let (queue, left) = (QUEUE.parse::<QueueName>()?, n - gone.len() as u64);
    // A sweep of each hundred up to them, and those that go around once more.
    let most = 2 * DEEPEST / 100;
    let counter = stage.count()?;
    let (mut rounds, mut removed) = (0, 0);
    while removed < gone.len() && rounds < most {
        removed += stage.client.broker().sweep(&queue).await?.ghosts_removed;
        rounds += 1;
    }
    let spent = counter.stop(rounds.max(1))?;
    match stage.client.broker().queue_stats(&queue).await?.pending {
        swept if swept == left => Ok(spent),
        pending => Err(format!("{} ids are left after {rounds} rounds", pending - left).into()),
    }
}

/// Takes the set of a task that joined its group after `n` ids without a task.
pub(super) async fn claim(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let (queue, group): (QueueName, GroupName) = (QUEUE.parse()?, "g".parse()?);
    let mut redis = stage.order.redis_connection()?;
    let id = stage.client.enqueue(task(0, 100).into_job().group("g")).await?.id;
    let mut joined = redis::cmd("ZADD");
    joined.arg(format!("asynq:{{{QUEUE}}}:g:g")).arg(2).arg(id.as_str());
    for number in 0..n {
        joined.arg(1).arg(format!("gone-{number}"));
    }
    joined.exec(&mut redis)?;
    let counter = stage.count()?;
    let set = stage.client.broker().claim_set(&queue, &group, &GroupRules::default()).await?;
    let spent = counter.stop(1)?;
    match set {
        Some(set) if set.members.len() == 1 => Ok(spent),
        set => Err(format!("no set of one task: {set:?}").into()),
    }
}

/// Archives the oldest waiting tasks, slice by slice.
pub(super) async fn bulk(stage: &Stage) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let (queue, chosen) = (QUEUE.parse::<QueueName>()?, Chosen::InState(TaskState::Pending));
    let counter = stage.count()?;
    let mut slices = 0;
    while slices < SLICES {
        slices += 1;
        if !stage.client.broker().change_some(&queue, &chosen, BulkAction::Archive, SLICE).await?.more {
            break;
        }
    }
    counter.stop(slices)
}

/// Takes one turn of the search for groups that have tasks and are not known, among so many keys.
pub(super) async fn restore_groups(stage: &Stage) -> Result<Spent, BoxError> {
    queue::fill(&stage.client, &stage.order).await?;
    let queues = [QUEUE.parse::<QueueName>()?];
    let counter = stage.count()?;
    stage.client.broker().restore_groups(&queues).await?;
    counter.stop(1)
}

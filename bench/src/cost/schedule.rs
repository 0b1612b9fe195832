//! Measures schedules: a tick, and the list of entries.

use std::time::Duration;

use asynq_runtime::{
    broker::{EntryId, EntryPlan, Overlap, Tick, Ticked},
    prelude::*,
    task::SchedulerEntry,
};
use chrono::DateTime;

use super::{Stage, spent::Spent};
use crate::queue::QUEUE;

/// The cost is the mean of so many calls.
const CALLS: u64 = 10;
const HOUR: Duration = Duration::from_secs(3_600);

fn plan(number: u64) -> Result<EntryPlan, BoxError> {
    Ok(EntryPlan {
        queue: QUEUE.parse()?,
        entry: EntryId::of("note", &number.to_string()),
        spec: "* * * * * *".to_owned(),
        zone: "UTC".to_owned(),
        revision: 1,
        supersedes: None,
        keep: HOUR,
    })
}

/// Fires ticks of the last of `n` entries.
pub(super) async fn tick(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    for number in 0..n {
        stage.client.broker().plan_entry(&plan(number)?).await?;
    }
    let plan = plan(n - 1)?;
    // The ticks are due, and later than the time at which the entry was planned.
    tokio::time::sleep(Duration::from_secs(CALLS + 1)).await;
    let now = stage.client.broker().now().timestamp();
    let counter = stage.count()?;
    for second in now - CALLS.cast_signed() + 1..=now {
        let at = DateTime::from_timestamp(second, 0).ok_or("no time")?;
        let mut task = asynq_tests::task(plan.entry.task_id(at).as_str());
        (task.queue, task.message.queue) = (plan.queue.clone(), QUEUE.to_owned());
        let tick = Tick { plan: plan.clone(), at, marker: HOUR, known: None, overlap: Overlap::Skip, task };
        match stage.client.broker().tick(&tick).await? {
            Ticked::Enqueued(_) | Ticked::Skipped(_) => {}
            other => return Err(format!("a tick did not fire: {other:?}").into()),
        }
    }
    counter.stop(CALLS)
}

fn entries(n: u64) -> Vec<SchedulerEntry> {
    let entry = |number: u64| SchedulerEntry {
        id: EntryId::of("note", &number.to_string()).to_string(),
        spec: "* * * * *".to_owned(),
        task_type: "note".to_owned(),
        task_payload: vec![b'x'; 100].into(),
        ..SchedulerEntry::default()
    };
    (0..n).map(entry).collect()
}

/// Writes the list of `n` entries, as the leader does every few seconds.
pub(super) async fn show(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    let entries = entries(n);
    let counter = stage.count()?;
    for _ in 0..CALLS {
        stage.client.broker().show_entries("bench", &entries, HOUR).await?;
    }
    counter.stop(CALLS)
}

/// Reads the list of `n` entries.
pub(super) async fn list(stage: &Stage, n: u64) -> Result<Spent, BoxError> {
    stage.client.broker().show_entries("bench", &entries(n), HOUR).await?;
    let counter = stage.count()?;
    for _ in 0..CALLS {
        let listed = stage.client.broker().scheduler_entries().await?.len() as u64;
        if listed != n {
            return Err(format!("{listed} of {n} entries are listed").into());
        }
    }
    counter.stop(CALLS)
}

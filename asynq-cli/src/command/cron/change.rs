//! `cron run`, `cron pause`, `cron resume`.

use std::collections::BTreeSet;

use asynq_cron::{EntryId, Schedule};
use asynq_runtime::task::{QueueName, SchedulerEntry};
use clap::Args;
use serde_json::json;

use super::{
    super::several::{Done, Several},
    listed,
};
use crate::{error::CliError, session::Session, show::clean};

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Ids, as `cron ls` shows them in its first column
    #[arg(required = true, value_name = "ENTRY")]
    entries: Vec<String>,
    /// The queue of entries that are listed in several; to pause and resume, also of those that no running scheduler lists
    #[arg(short, long)]
    queue: Option<String>,
}

impl Which {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let schedule = Schedule::new(&session.client_to_enqueue(false).await?);
        let entries = schedule.entries().await?;
        Several::changing("entry").each(session, &self.entries, async |id| {
            let entry = listed_in(&entries, id, self.queue.as_deref())?;
            let task = schedule.run_listed(entry).await?;
            let queue = Schedule::queue_of(entry);
            // The list of a scheduler of Go has fewer options than its ticks.
            let unlisted = match entry.task {
                Some(_) => "",
                None => {
                    "; options that its program gave to the task itself are not listed, so this task has none of them"
                }
            };
            let text = format!("task {} is in queue {}{unlisted}\n", clean(task.as_str()), clean(queue.as_str()));
            Ok((json!({ "task_id": task.as_str(), "queue": queue.as_str() }), text))
        })
        .await
    }

    pub(super) async fn set(self, session: &mut Session, paused: bool) -> Result<(), CliError> {
        let schedule = super::schedule(session).await?;
        let entries = schedule.entries().await?;
        let set = async |id: &str| self.set_one(&schedule, &entries, id, paused).await;
        Several::changing("entry").each(session, &self.entries, set).await
    }

    async fn set_one(
        &self,
        schedule: &Schedule,
        entries: &[SchedulerEntry],
        id: &str,
        paused: bool,
    ) -> Result<Done, CliError> {
        let queue = match &self.queue {
            Some(queue) => QueueName::from_wire(queue),
            None => Schedule::queue_of(listed_in(entries, id, None)?),
        };
        let entry = EntryId::from_wire(id);
        if schedule.entry(&queue, &entry).await?.is_none() {
            return Err(CliError::NotFound(format!(
                "periodic entry `{id}` cannot be paused or resumed in queue `{queue}`: no Rust scheduler has planned it \
                 there (one of Go's does not look)"
            )));
        }
        let changed =
            if paused { schedule.pause(&queue, &entry).await? } else { schedule.resume(&queue, &entry).await? };
        let became = match (paused, changed) {
            (true, true) => "is paused",
            (true, false) => "was paused already",
            (false, true) => "goes on with its next tick",
            (false, false) => "was not paused",
        };
        Ok((json!({ "paused": paused, "changed": changed }), format!("entry {} {became}\n", clean(id))))
    }
}

/// Returns the listed entry of this id, in `queue` if that is given. Two versions of a program may list an entry in different queues.
fn listed_in<'a>(entries: &'a [SchedulerEntry], id: &str, queue: Option<&str>) -> Result<&'a SchedulerEntry, CliError> {
    let first = listed(entries, id)?;
    let mut of_id = entries.iter().filter(|entry| entry.id == id);
    if let Some(queue) = queue {
        let found = of_id.find(|entry| Schedule::queue_of(entry).as_str() == queue);
        return found.ok_or_else(|| {
            CliError::NotFound(format!(
                "periodic entry `{id}` was not found in queue `{queue}`: no running scheduler lists it there"
            ))
        });
    }
    let queues: BTreeSet<String> = of_id.map(|entry| format!("`{}`", Schedule::queue_of(entry))).collect();
    if queues.len() == 1 {
        return Ok(first);
    }
    let queues = queues.into_iter().collect::<Vec<_>>().join(", ");
    Err(CliError::NotFound(format!(
        "periodic entry `{id}` is listed in several queues ({queues}); choose one with --queue"
    )))
}

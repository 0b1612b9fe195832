//! Performs the changes that the user confirmed.

use asynq_cron::{EntryId, Schedule};
use asynq_runtime::{Client, TaskState, broker::BulkAction};

use super::model::{Act, TaskAct, TheTask};
use crate::error::CliError;

/// Performs a change, and returns a sentence about its result.
pub(crate) async fn perform(client: &Client, act: Act) -> Result<String, CliError> {
    let inspector = client.inspector();
    Ok(match act {
        Act::PauseQueue(queue, true) => {
            // The queue may have been deleted since it was shown: the pause would be there before its next task, and in no list.
            inspector.exists(&queue).await?;
            let became = if inspector.pause(&queue).await? { "is paused" } else { "was paused already" };
            format!("queue {queue} {became}")
        }
        Act::PauseQueue(queue, false) => {
            let became = if inspector.resume(&queue).await? { "goes on" } else { "was not paused" };
            format!("queue {queue} {became}")
        }
        Act::Task(TaskAct::Change(action), TheTask { queue, id, state }) => {
            inspector.change_task(&queue, &id, Some(state), action).await?;
            let became = match action {
                BulkAction::Run => "pending",
                BulkAction::Archive => "archived",
                BulkAction::Delete => "deleted",
            };
            format!("task {id} is {became}")
        }
        Act::Task(TaskAct::Cancel, TheTask { queue, id, .. }) => {
            let state = inspector.task(&queue, &id).await?.state;
            if state != TaskState::Active {
                format!("task {id} is {state}, not running; there is no run to cancel")
            } else if inspector.cancel_in(&queue, &id).await? {
                format!("no worker ran task {id} any more; the attempt counts as failed")
            } else {
                format!("the worker of task {id} is asked to stop it")
            }
        }
        Act::RunEntry(entry) => {
            let task = Schedule::new(client).run_listed(&entry).await?;
            format!("task {task} is in queue {}", Schedule::queue_of(&entry))
        }
        Act::PauseEntry(entry, paused) => {
            let (schedule, queue, id) =
                (Schedule::new(client), Schedule::queue_of(&entry), EntryId::from_wire(&entry.id));
            let changed =
                if paused { schedule.pause(&queue, &id).await? } else { schedule.resume(&queue, &id).await? };
            match (changed, paused) {
                (true, true) => "the entry is paused".to_owned(),
                (true, false) => "the entry goes on with its next tick".to_owned(),
                (false, true) => {
                    "nothing changed: the entry was paused already, or no Rust scheduler has planned it".to_owned()
                }
                (false, false) => "the entry was not paused".to_owned(),
            }
        }
    })
}

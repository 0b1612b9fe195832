//! Changes what somebody asked to be changed.

use asynq_cron::{EntryId, Schedule};
use asynq_runtime::{Client, inspector::InspectError};

use super::model::{Act, TaskAct};

/// Does it and says what was done.
pub(crate) async fn perform(client: &Client, act: Act) -> Result<String, InspectError> {
    let inspector = client.inspector();
    Ok(match act {
        Act::Pause(queue) => match inspector.pause(&queue).await? {
            true => format!("queue {queue} is paused"),
            false => format!("queue {queue} was paused already"),
        },
        Act::Resume(queue) => match inspector.resume(&queue).await? {
            true => format!("queue {queue} goes on"),
            false => format!("queue {queue} was not paused"),
        },
        Act::Task(TaskAct::Run, queue, id) => {
            inspector.run(&queue, &id).await?;
            format!("task {id} is pending")
        }
        Act::Task(TaskAct::Archive, queue, id) => {
            inspector.archive(&queue, &id).await?;
            format!("task {id} is archived")
        }
        Act::Task(TaskAct::Delete, queue, id) => {
            inspector.delete(&queue, &id).await?;
            format!("task {id} is deleted")
        }
        Act::Task(TaskAct::Cancel, _, id) => {
            inspector.cancel(&id).await?;
            format!("task {id} is asked to stop")
        }
        Act::RunEntry(entry) => {
            let task = Schedule::new(client).run_listed(&entry).await;
            match task {
                Ok(task) => format!("task {task} is in queue {}", Schedule::queue_of(&entry)),
                Err(error) => format!("it cannot run: {error}"),
            }
        }
        Act::PauseEntry(entry, paused) => {
            let (schedule, queue, id) =
                (Schedule::new(client), Schedule::queue_of(&entry), EntryId::from_wire(&entry.id));
            let changed = match paused {
                true => schedule.pause(&queue, &id).await?,
                false => schedule.resume(&queue, &id).await?,
            };
            match (changed, paused) {
                (true, true) => "the entry is paused".to_owned(),
                (true, false) => "the entry goes on with its next tick".to_owned(),
                (false, _) => "nothing changed: only entries of Rust schedulers can be paused".to_owned(),
            }
        }
    })
}

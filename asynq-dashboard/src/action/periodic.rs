//! Runs, pauses and resumes periodic entries.

use asynq_cron::{EntryId, Periodic, PeriodicEntry};
use asynq_runtime::task::QueueName;
use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{Nothing, done};
use crate::{
    failure::{Failure, Kind},
    input::Input,
    path::{Name, Segments},
    query::periodic,
    state::AppState,
};

type EntryPath = Segments<(Name, Name)>;

pub(super) async fn run(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): EntryPath,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Value>, Failure> {
    let entry = periodic::one(&app, &queue, &id).await?;
    // An entry of this program is known as a whole; of other entries only the listed fields are known.
    let linked = PeriodicEntry::linked().into_iter().filter_map(|entry| entry.to_periodic().ok());
    let task = match linked_entry(linked, &entry.queue, &entry.listed.id) {
        Some(linked) => app.schedule.run_now(&linked).await?,
        None => app.schedule.run_listed(&entry.listed).await?,
    };
    app.samples.forget();
    let message = format!("Task {task} is enqueued in {queue}.");
    Ok(Json(json!({ "message": message, "id": task.as_str(), "queue": entry.queue.as_str() })))
}

/// Returns the entry of this program that is the listed one. The queue is not part of an id: another version of the program may list
/// the entry with another queue, and its tasks belong there.
fn linked_entry(linked: impl IntoIterator<Item = Periodic>, queue: &QueueName, id: &str) -> Option<Periodic> {
    linked.into_iter().find(|linked| linked.id().as_str() == id && linked.queue() == queue)
}

/// Pauses an entry, or resumes it.
pub(super) async fn set_paused<const PAUSED: bool>(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): EntryPath,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Value>, Failure> {
    let entry = periodic::one(&app, &queue, &id).await?;
    if entry.state.is_none() {
        let why = "the entry is one of a Go scheduler, which knows no pause; pause its queue instead";
        return Err(Failure::new(Kind::Conflict, why));
    }
    let name = entry.listed.task_type;
    let (queue, id) = (QueueName::from_wire(&queue), EntryId::from_wire(&id));
    let changed =
        if PAUSED { app.schedule.pause(&queue, &id).await? } else { app.schedule.resume(&queue, &id).await? };
    Ok(done(match (PAUSED, changed) {
        (true, true) => format!("{name} is paused: its ticks pass."),
        (true, false) => format!("{name} was paused already."),
        (false, true) => format!("{name} goes on with its next tick."),
        (false, false) => format!("{name} was not paused."),
    }))
}

#[cfg(test)]
mod tests {
    use asynq_cron::CronSpec;
    use asynq_runtime::RawTask;

    use super::*;

    #[test]
    fn an_entry_that_another_version_lists_in_another_queue_is_not_the_one_of_this_program() {
        let spec = CronSpec::parse("@hourly").expect("a schedule");
        let entry = Periodic::new(spec, RawTask::new("report", "").queue("new")).expect("an entry").key("");
        let id = entry.id().to_string();
        for (queue, id, expected) in [("new", &*id, true), ("old", &*id, false), ("new", "another", false)] {
            let found = linked_entry([entry.clone()], &QueueName::from_wire(queue), id);
            assert_eq!(found.is_some(), expected, "{queue} {id}");
        }
    }
}

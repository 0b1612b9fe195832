//! Runs, pauses and resumes periodic entries.

use asynq_cron::{CronSpec, EntryId, Periodic, PeriodicEntry};
use asynq_runtime::task::{QueueName, SchedulerEnqueueEvent};
use axum::{Json, extract::State};
use serde::Serialize;

use super::{Done, Nothing, done};
use crate::{
    failure::{Failure, Kind},
    input::Input,
    look::periodic::{self, Entry},
    path::{Name, Segments},
    state::AppState,
};

type EntryPath = Segments<(Name, Name)>;

/// What was enqueued.
#[derive(Debug, Serialize)]
pub(super) struct Ran {
    message: String,
    /// The task's id.
    id: String,
    /// Its queue.
    queue: String,
}

pub(super) async fn run(
    State(app): State<AppState>,
    Segments((queue, id)): EntryPath,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Ran>, Failure> {
    let entry = periodic::one(&app, &queue, &id).await?;
    let planned = planned(&entry)?;
    let task = app.schedule().run_now(&planned).await?;
    if planned.id().as_str() != entry.id {
        // Its scheduler names it in another way, as Go's do: the history that people look at is that one.
        let now = app.client().broker().now();
        let event = SchedulerEnqueueEvent { task_id: task.to_string(), enqueue_time: Some(now.into()) };
        app.client().broker().record_enqueue(&entry.id, &event).await?;
    }
    app.samples().forget().await;
    let message = format!("Task {task} is enqueued in {queue}.");
    Ok(Json(Ran { message, id: task.to_string(), queue: planned.queue().to_string() }))
}

/// The entry as this program has it, or else as its scheduler shows it.
fn planned(entry: &Entry) -> Result<Periodic, Failure> {
    let linked = PeriodicEntry::linked().into_iter().filter_map(|entry| entry.to_periodic().ok());
    if let Some(linked) = linked.into_iter().find(|linked| linked.id().as_str() == entry.id) {
        return Ok(linked);
    }
    let spec = CronSpec::parse(&entry.spec).or_else(|_| CronSpec::parse_compat(&entry.spec)).map_err(|error| {
        Failure::new(Kind::Conflict, format!("the schedule of the entry cannot be read here: {error}"))
    })?;
    Ok(Periodic::new(spec, periodic::task(&entry.shown)?)?.foreign())
}

pub(super) async fn pause(
    State(app): State<AppState>,
    Segments((queue, id)): EntryPath,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    let entry = kept(&app, &queue, &id).await?;
    let changed = app.schedule().pause(&QueueName::from_wire(&queue), &EntryId::from_wire(&id)).await?;
    let what = &entry.r#type;
    Ok(done(if changed { format!("{what} is paused: its ticks pass.") } else { format!("{what} was paused already.") }))
}

pub(super) async fn resume(
    State(app): State<AppState>,
    Segments((queue, id)): EntryPath,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    let entry = kept(&app, &queue, &id).await?;
    let changed = app.schedule().resume(&QueueName::from_wire(&queue), &EntryId::from_wire(&id)).await?;
    let what = &entry.r#type;
    Ok(done(if changed { format!("{what} goes on with its next tick.") } else { format!("{what} was not paused.") }))
}

/// The entry, if it can be paused.
async fn kept(app: &AppState, queue: &str, id: &str) -> Result<Entry, Failure> {
    let entry = periodic::one(app, queue, id).await?;
    if entry.kept.is_none() {
        return Err(Failure::new(
            Kind::Conflict,
            "the entry is one of a Go scheduler, which knows no pause; pause its queue instead",
        ));
    }
    Ok(entry)
}

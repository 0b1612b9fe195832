//! Runs, archives, deletes, cancels and edits one task.

use asynq_runtime::{
    PreparedTask, TaskInfo, TaskState, broker::BulkAction, inspector::InspectError, job::JobDescriptor,
};
use axum::{
    Json,
    extract::State,
    routing::{MethodRouter, post},
};
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Nothing, done};
use crate::{
    failure::{Failure, Kind},
    input::Input,
    path::{Name, Segments},
    query::{
        payload::{self, Reader},
        search,
    },
    state::AppState,
};

type Task = Segments<(Name, Name)>;

/// The condition of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct When {
    /// The state in which the user saw the task: another state is refused. Without it every state will do.
    state: Option<String>,
}

/// Returns the handler of an action that makes a task `becomes`, if the condition of the request holds.
pub(super) fn change(action: BulkAction, becomes: &'static str) -> MethodRouter<AppState> {
    post(
        move |State(app): State<AppState>, Segments((Name(queue), Name(id))): Task, Input(when): Input<When>| async move {
            let only = when.state.as_deref().map(search::known_state).transpose()?;
            app.inspector.change_task(&queue, &id, only, action).await?;
            app.samples.forget();
            Ok::<_, Failure>(done(format!("Task {id} is {becomes}.")))
        },
    )
}

pub(super) async fn cancel(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Task,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Value>, Failure> {
    // A request for a task that does not exist would reach no server and look like a success.
    let state = app.inspector.task(&queue, &id).await?.state;
    if state != TaskState::Active {
        return Err(Failure::new(
            Kind::Conflict,
            format!("task `{id}` is {state}, not running; there is no run to cancel"),
        ));
    }
    let was_orphan = app.inspector.cancel_in(&queue, &id).await?;
    app.samples.forget();
    Ok(done(if was_orphan {
        format!("No worker ran task {id} any more; the attempt counts as failed.")
    } else {
        format!("The worker of task {id} is asked to cancel it.")
    }))
}

/// The new payload: one of the two fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    /// Arguments as JSON, checked and encoded by the job's types where this program knows them, else by the shape that the
    /// broker keeps of the task's. A null is a value: that of a lone argument that is an `Option`.
    #[serde(default, deserialize_with = "some")]
    arguments: Option<Value>,
    /// The payload as text, taken as it is.
    payload: Option<String>,
    /// The text of the arguments that the user saw: others are left. Without it all are replaced.
    was: Option<String>,
}

/// Reads a field that is there, also if it is null.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) async fn edit(
    State(app): State<AppState>,
    Segments((Name(queue), Name(id))): Task,
    Input(new): Input<New>,
) -> Result<Json<Value>, Failure> {
    let task = app.inspector.task(&queue, &id).await?;
    let mut inspector = app.inspector.clone();
    let changed = || {
        let message = format!(
            "the arguments of task {id} have changed meanwhile: look at them, and save yours again to replace them"
        );
        Failure::new(Kind::Conflict, message)
    };
    if let Some(was) = &new.was {
        let shown = payload::of_one(&app, &task.r#type, &task.payload).await;
        if *was != shown.text {
            return Err(changed());
        }
        // Another user may save before this edit is written.
        inspector = inspector.edits_only(&task);
    }
    let edited = match new {
        New { arguments: Some(arguments), payload: None, .. } => match encoded(&app, &task, &arguments).await? {
            Some((job, new)) => inspector.edit_prepared(&queue, &id, job, &new).await,
            None => inspector.edit_arguments(&queue, &id, &arguments).await.map(drop),
        },
        New { arguments: None, payload: Some(payload), .. } => {
            inspector.edit_raw_in_shape(&queue, &id, as_it_is(&app, &task, payload)?).await
        }
        _ => return Err(Failure::bad_request("give either `arguments` or `payload`")),
    };
    match edited {
        Ok(()) => Ok(done(format!("Task {id} has its new arguments."))),
        Err(InspectError::Contended { .. }) => Err(changed()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the job of this program with a task of these arguments; `None` if the job is not known here, or the task has another
/// shape.
async fn encoded<'a>(
    app: &'a AppState,
    task: &TaskInfo,
    arguments: &Value,
) -> Result<Option<(&'a JobDescriptor, PreparedTask)>, Failure> {
    let job = app.registry.as_ref().and_then(|registry| registry.get(&task.r#type));
    if job.is_none_or(|job| job.show(&task.payload).is_err()) {
        let reader = Reader::new(app, [(&*task.r#type, &task.payload[..])]).await;
        if let Some(shown) = reader.shapes.read(&task.r#type, job, &task.payload) {
            // An argument that has become secret since is hidden, and its kept shape does not say so.
            if shown.is_ok_and(|shown| has_mask(&shown)) && has_mask(arguments) {
                return Err(masked());
            }
            return Ok(None);
        }
    }
    let Some(job) = job else {
        let message = format!(
            "this program does not know the job `{}`, nor the shape of its arguments: give its payload as text",
            task.r#type
        );
        return Err(Failure::bad_request(message));
    };
    if shows_mask(job, &task.payload) && has_mask(arguments) {
        return Err(masked());
    }
    let task = job.prepare(arguments);
    let task = task.map_err(|error| Failure::bad_request(format!("the arguments do not fit: {error}")))?;
    Ok(Some((job, task)))
}

fn as_it_is(app: &AppState, task: &TaskInfo, payload: String) -> Result<Bytes, Failure> {
    let job = app.registry.as_ref().and_then(|registry| registry.get(&task.r#type));
    // One of the two payloads may have a shape that the job cannot read, so the job looks for secrets in both.
    let has_secrets = |job: &JobDescriptor| shows_mask(job, &task.payload) || shows_mask(job, payload.as_bytes());
    if holds_mask(payload.as_bytes()) && job.is_some_and(has_secrets) {
        return Err(masked());
    }
    Ok(Bytes::from(payload))
}

fn masked() -> Failure {
    Failure::bad_request("a secret is shown as ***: write it anew, or it would become ***")
}

/// Returns whether this payload has a value that is shown as a secret.
fn shows_mask(job: &JobDescriptor, payload: &[u8]) -> bool {
    job.show(payload).is_ok_and(|arguments| has_mask(&arguments))
}

/// Returns whether the text `***` is among the values of a payload, JSON or postcard, which writes the length before a text.
fn holds_mask(payload: &[u8]) -> bool {
    match serde_json::from_slice(payload) {
        Ok(json) => has_mask(&json),
        Err(_) => payload.windows(4).any(|bytes| bytes == b"\x03***"),
    }
}

/// Returns whether `***` is anywhere in `value`. Any `***` that comes back may be a secret that was shown so, also in
/// another place, such as behind a new element.
fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "***",
        Value::Array(values) => values.iter().any(has_mask),
        Value::Object(members) => members.values().any(has_mask),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_is_seen_wherever_it_is() {
        for (given, expected) in [
            (json!({ "to": "bob", "key": "***" }), true),
            (json!({ "key": "new", "more": [{ "pin": "***" }] }), true),
            (json!(["new", "***"]), true),
            (json!("***"), true),
            (json!({ "***": "x", "key": "a***", "more": [{ "pin": 7 }] }), false),
            (json!({}), false),
        ] {
            assert_eq!(has_mask(&given), expected, "{given}");
            assert_eq!(holds_mask(given.to_string().as_bytes()), expected, "{given}");
        }
        // A postcard payload: one text of three letters, and one of four.
        assert!(holds_mask(b"\x01abcd\x03ann\x03***") && !holds_mask(b"\x01abcd\x03ann\x04a***"));
    }
}

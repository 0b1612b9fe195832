//! Runs, archives, deletes, cancels and edits one task.

use asynq_runtime::TaskInfo;
use axum::{Json, extract::State};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::{Done, Nothing, done};
use crate::{
    failure::Failure,
    input::Input,
    path::{Name, Segments},
    state::AppState,
};

type Task = Segments<(Name, Name)>;

pub(super) async fn run(
    State(app): State<AppState>,
    Segments((queue, id)): Task,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    app.inspector().run(&queue, &id).await?;
    app.samples().forget().await;
    Ok(done(format!("Task {id} is pending.")))
}

pub(super) async fn archive(
    State(app): State<AppState>,
    Segments((queue, id)): Task,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    app.inspector().archive(&queue, &id).await?;
    app.samples().forget().await;
    Ok(done(format!("Task {id} is archived.")))
}

pub(super) async fn delete(
    State(app): State<AppState>,
    Segments((queue, id)): Task,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    app.inspector().delete(&queue, &id).await?;
    app.samples().forget().await;
    Ok(done(format!("Task {id} is deleted.")))
}

pub(super) async fn cancel(
    State(app): State<AppState>,
    Segments((queue, id)): Task,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Done>, Failure> {
    // A request for a task that is not there would be sent to nobody and look like a success.
    app.inspector().task(&queue, &id).await?;
    let ended = app.inspector().cancel(&id).await?;
    app.samples().forget().await;
    Ok(done(if ended.iter().any(|ended| ended.as_str() == &*queue) {
        format!("Nobody ran task {id} any more; the attempt counts as failed.")
    } else {
        format!("Whoever runs task {id} is asked to cancel it.")
    }))
}

/// The new payload: one of the two.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    /// Arguments as JSON, checked against the job's types and encoded as it encodes them. Only for a job that this program
    /// knows.
    arguments: Option<Value>,
    /// The payload as text, taken as it is.
    payload: Option<String>,
}

pub(super) async fn edit(
    State(app): State<AppState>,
    Segments((queue, id)): Task,
    Input(new): Input<New>,
) -> Result<Json<Done>, Failure> {
    let task = app.inspector().task(&queue, &id).await?;
    let payload = match new {
        New { arguments: Some(arguments), payload: None } => encoded(&app, &task, &arguments)?,
        New { arguments: None, payload: Some(payload) } => Bytes::from(payload),
        _ => return Err(Failure::bad_request("give either `arguments` or `payload`")),
    };
    app.inspector().edit_raw(&queue, &id, payload).await?;
    Ok(done(format!("Task {id} has its new arguments.")))
}

fn encoded(app: &AppState, task: &TaskInfo, arguments: &Value) -> Result<Bytes, Failure> {
    let Some(job) = app.registry().and_then(|registry| registry.get(&task.r#type)) else {
        let message = format!("this program does not know the job `{}`: give its payload as text", task.r#type);
        return Err(Failure::bad_request(message));
    };
    if job.show(&task.payload).is_ok_and(|shown| keeps_mask(&shown, arguments)) {
        return Err(Failure::bad_request("a secret is shown as ***: write it anew, or it would become ***"));
    }
    match job.prepare(arguments) {
        Ok(task) => Ok(Bytes::copy_from_slice(task.payload())),
        Err(error) => Err(Failure::bad_request(format!("the arguments do not fit: {error}"))),
    }
}

/// Whether a secret that was shown as `***` has stayed so.
fn keeps_mask(shown: &Value, given: &Value) -> bool {
    match (shown, given) {
        (Value::String(shown), Value::String(given)) => shown == "***" && given == "***",
        (Value::Array(shown), Value::Array(given)) => shown.iter().zip(given).any(|(s, g)| keeps_mask(s, g)),
        (Value::Object(shown), Value::Object(given)) => {
            shown.iter().any(|(key, s)| given.get(key).is_some_and(|g| keeps_mask(s, g)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_that_stays_is_seen_where_the_secret_was() {
        let shown = json!({ "to": "ann", "key": "***", "more": [{ "pin": "***" }] });
        for (given, expected) in [
            (json!({ "to": "bob", "key": "***" }), true),
            (json!({ "key": "new", "more": [{ "pin": "***" }] }), true),
            (json!({ "to": "***", "key": "new", "more": [{ "pin": 7 }] }), false),
            (json!({}), false),
        ] {
            assert_eq!(keeps_mask(&shown, &given), expected, "{given}");
        }
    }
}

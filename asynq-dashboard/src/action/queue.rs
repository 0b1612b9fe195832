//! Pauses, resumes and deletes queues.

use std::{future::IntoFuture as _, time::Duration};

use asynq_runtime::inspector::{Force, RemovedQueue};
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Nothing, bulk::are, done};
use crate::{
    failure::{Failure, Kind},
    input::Input,
    page::{count, counted},
    path::{Name, Segments},
    state::AppState,
};

/// How long one request deletes tasks; its answer says how many are left.
const LONGEST: Duration = Duration::from_secs(15);

/// Pauses a queue, or resumes it.
pub(super) async fn set_paused<const PAUSED: bool>(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    Input(Nothing {}): Input<Nothing>,
) -> Result<Json<Value>, Failure> {
    app.inspector.queue(&queue).await?;
    let changed = if PAUSED { app.inspector.pause(&queue).await? } else { app.inspector.resume(&queue).await? };
    app.samples.forget();
    Ok(done(match (PAUSED, changed) {
        (true, true) => format!("Queue {queue} is paused."),
        (true, false) => format!("Queue {queue} was paused already."),
        (false, true) => format!("Queue {queue} runs again."),
        (false, false) => format!("Queue {queue} was not paused."),
    }))
}

/// The options of a deletion.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Which {
    /// Whether the queue's tasks are deleted too; a queue with tasks is refused otherwise.
    force: bool,
    /// Tasks that earlier requests deleted, which the message counts too.
    before: u64,
}

/// Deletes a queue; one with very many tasks by several requests, each of which ends in time.
pub(super) async fn delete(
    State(app): State<AppState>,
    Segments(Name(queue)): Segments<Name>,
    Input(which): Input<Which>,
) -> Result<Json<Value>, Failure> {
    let inspector = &app.inspector;
    let force = if which.force { Force::Yes } else { Force::No };
    // A task of its own, which goes on when the client is gone: a deletion that is broken off leaves its queue paused.
    let removal = tokio::spawn(inspector.delete_queue(&queue, force).within(LONGEST).into_future());
    let removed = removal.await;
    app.samples.forget();
    let removed = removed.map_err(|ended| Failure::new(Kind::Internal, format!("the deletion ended: {ended}")))?;
    let RemovedQueue { tasks, more, .. } = removed?;
    let all = tasks.saturating_add(which.before);
    let message = if more {
        unfinished(all, inspector.queue(&queue).await?.size)
    } else {
        format!("Queue {queue} is deleted, and {} with it.", counted(all, "task"))
    };
    // `tasks` is how many this request deleted. If there are `more`, the client repeats the request, and the queue is paused until then.
    Ok(Json(json!({ "message": message, "tasks": tasks, "more": more })))
}

/// Returns the message of a deletion that is not at its end.
fn unfinished(deleted: u64, left: u64) -> String {
    let (tasks, are_deleted) = (counted(deleted, "task"), are(deleted));
    format!(
        "{tasks} {are_deleted} deleted, {} {} left, and the queue is paused: ask again to go on.",
        count(left),
        are(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_that_goes_on_says_that_the_queue_is_paused() {
        let message = "1,200 tasks are deleted, 1 is left, and the queue is paused: ask again to go on.";
        assert_eq!(unfinished(1_200, 1), message);
    }
}

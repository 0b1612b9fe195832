//! Routes that change something: each POST answers `{"message": …}`, some with numbers.

mod bulk;
mod login;
mod periodic;
mod queue;
mod task;

use asynq_runtime::broker::BulkAction;
use axum::{Json, http::Method, routing::post};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::route::{Access, Route};

/// Returns these routes, all of them [`Route::write`] but the login's.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/login", Access::Public, post(login::log_in)),
        // A read-only dashboard has this route as well: a logout changes only the login.
        Route::new(Method::POST, "/logout", Access::Read, post(login::log_out)),
        Route::write("/queues/{queue}/pause", post(queue::set_paused::<true>)),
        Route::write("/queues/{queue}/resume", post(queue::set_paused::<false>)),
        Route::write("/queues/{queue}/delete", post(queue::delete)),
        Route::write("/queues/{queue}/bulk", post(bulk::bulk)),
        Route::write("/queues/{queue}/tasks/{id}/run", task::change(BulkAction::Run, "pending")),
        Route::write("/queues/{queue}/tasks/{id}/archive", task::change(BulkAction::Archive, "archived")),
        Route::write("/queues/{queue}/tasks/{id}/delete", task::change(BulkAction::Delete, "deleted")),
        Route::write("/queues/{queue}/tasks/{id}/cancel", post(task::cancel)),
        Route::write("/queues/{queue}/tasks/{id}/edit", post(task::edit)),
        Route::write("/periodic/{queue}/{entry}/run", post(periodic::run)),
        Route::write("/periodic/{queue}/{entry}/pause", post(periodic::set_paused::<true>)),
        Route::write("/periodic/{queue}/{entry}/resume", post(periodic::set_paused::<false>)),
    ]
}

/// The body of a change that takes nothing but its path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Returns the answer to a change, with a sentence for people.
fn done(message: String) -> Json<Value> {
    Json(json!({ "message": message }))
}

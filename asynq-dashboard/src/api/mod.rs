//! The pages as JSON, for programs: `GET /api/…`.

pub(crate) mod json;
mod queues;
mod rest;

use axum::routing::get;

use crate::route::Route;

/// Returns the routes of the API, all of them [`Route::read`].
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::read("/api/queues", get(queues::all)),
        Route::read("/api/queues/{queue}", get(queues::one)),
        Route::read("/api/queues/{queue}/tasks", get(queues::tasks)),
        Route::read("/api/queues/{queue}/tasks/{id}", get(queues::task)),
        Route::read("/api/queues/{queue}/groups", get(queues::groups)),
        Route::read("/api/queues/{queue}/history", get(queues::history)),
        Route::read("/api/samples", get(rest::samples)),
        Route::read("/api/search", get(rest::search)),
        Route::read("/api/servers", get(rest::servers)),
        Route::read("/api/periodic", get(rest::periodic)),
        Route::read("/api/periodic/{queue}/{entry}", get(rest::entry)),
        Route::read("/api/broker", get(rest::broker)),
        Route::read("/api/broker/nodes", get(rest::nodes)),
    ]
}

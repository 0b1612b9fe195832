//! `/healthz`, `/readyz` and `/stats`: for a supervisor of the process, and for monitors that read go-workers'
//! statistics.

mod go_workers;
mod prometheus;

use std::time::Duration;

use axum::{Json, extract::State, http::StatusCode, routing::get};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    failure::{Failure, Kind},
    route::Route,
    state::AppState,
};

/// Longest time for the statistics.
const FOR_STATS: Duration = Duration::from_secs(10);

/// Its routes.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::public("/healthz", get(healthz)),
        Route::public("/readyz", get(readyz)),
        Route::read("/stats", get(stats)),
        Route::read("/metrics", get(prometheus::prometheus)),
    ]
}

/// The process lives, whatever the broker does: restarting it would repair nothing.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the broker answers. Why it does not is in the log, not in an answer that everybody may read.
async fn readyz(State(app): State<AppState>) -> (StatusCode, &'static str) {
    if app.probe().is_ready().await {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the broker does not answer\n")
    }
}

/// What goes on, as `stats --json` prints it, and beside that as go-workers' `/stats` does.
async fn stats(State(app): State<AppState>) -> Result<Json<Value>, Failure> {
    let statistics = timeout(FOR_STATS, app.inspector().statistics()).await;
    let statistics = statistics.map_err(|_| Failure::new(Kind::Slow, "reading all queues took more than 10 s"))??;
    let mut answer = statistics.to_json();
    go_workers::add(&mut answer, &statistics);
    Ok(Json(answer))
}

//! `/healthz`, `/readyz`, `/stats` and `/metrics`: for a supervisor of the process, for monitors that read go-workers'
//! statistics, and for Prometheus.

mod go_workers;

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    failure::{Failure, Kind},
    metrics,
    route::Route,
    state::AppState,
};

/// Longest time for the statistics.
const FOR_STATS: Duration = Duration::from_secs(10);
/// The content type of the text format, which every Prometheus reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the routes of health checks, statistics and metrics.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::probe("/healthz", get(healthz)),
        Route::probe("/readyz", get(readyz)),
        Route::read("/stats", get(stats)),
        Route::read("/metrics", get(scrape)),
    ]
}

/// Answers that the process lives, no matter what state the broker is in: a restart would not repair the broker.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers whether the broker answers. The cause of a failure is in the log, not in an answer that any client may read.
async fn readyz(State(app): State<AppState>) -> (StatusCode, &'static str) {
    if app.probe.is_ready().await {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the broker does not answer\n")
    }
}

/// Answers with the statistics as `stats --json` prints them, and with the keys of go-workers' `/stats`.
async fn stats(State(app): State<AppState>) -> Result<Json<Value>, Failure> {
    let statistics = timeout(FOR_STATS, app.inspector.statistics()).await;
    let statistics = statistics.map_err(|_| Failure::new(Kind::Slow, "reading all queues took more than 10 s"))??;
    let mut answer = statistics.to_json();
    go_workers::add(&mut answer, &statistics);
    Ok(Json(answer))
}

/// Answers even if the broker is away: `asynq_broker_up` says so, and this program's own metrics are there.
async fn scrape(State(app): State<AppState>) -> impl IntoResponse {
    let own = metrics::install();
    let mut text = String::new();
    if app.config.queue_metrics {
        let collected = app.collector.collect().await;
        text.push_str(&metrics::of(&collected));
    }
    if let Some(own) = own {
        text.push_str(&metrics::without_our_names(&own.render()));
    }
    ([(header::CONTENT_TYPE, TEXT)], text)
}

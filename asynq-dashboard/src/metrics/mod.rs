//! `/metrics` for Prometheus: asynq's own names, read from the broker at each scrape where it is asked for, and what this
//! program measured.

mod collector;
mod exposition;
mod recorder;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};

pub(crate) use self::{collector::Collector, recorder::install};
use crate::{route::Route, state::AppState};

/// Of the text format that every Prometheus reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Its routes.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::read("/metrics", get(metrics))]
}

/// An answer also when the broker is away: it says so in `asynq_broker_up`, and what the program measured is there.
async fn metrics(State(app): State<AppState>) -> Response {
    let own = install();
    let mut text = String::new();
    if app.config().queue_metrics {
        let collected = app.collector().collect().await;
        text.push_str(&exposition::of(&collected));
    }
    if let Some(own) = own {
        text.push_str(&exposition::without_our_names(&own.render()));
    }
    ([(header::CONTENT_TYPE, TEXT)], text).into_response()
}

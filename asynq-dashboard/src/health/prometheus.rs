//! `/metrics`.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::{metrics, state::AppState};

/// The content type of the text format, which every Prometheus reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers even if the broker is away: `asynq_broker_up` says so, and this program's own metrics are there.
pub(super) async fn prometheus(State(app): State<AppState>) -> Response {
    let own = metrics::install();
    let mut text = String::new();
    if app.config.queue_metrics {
        let collected = app.collector.collect().await;
        text.push_str(&metrics::of(&collected));
    }
    if let Some(own) = own {
        text.push_str(&metrics::without_our_names(&own.render()));
    }
    ([(header::CONTENT_TYPE, TEXT)], text).into_response()
}

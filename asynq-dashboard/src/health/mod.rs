//! `/healthz`, `/readyz` and `/stats`: for a supervisor of the process, and for monitors that read go-workers'
//! statistics.

mod go_workers;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::Broker;
use axum::{Json, extract::State, http::StatusCode, routing::get};
use serde_json::Value;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    failure::{Failure, Kind},
    route::Route,
    state::AppState,
};

/// A broker that has not answered by then is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long an answer holds, so that many who ask cost the broker nothing.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// For how long it holds that the broker is away: its coming back is to be seen soon.
const AWAY_FOR: Duration = Duration::from_millis(200);
/// Longest time for the statistics.
const FOR_STATS: Duration = Duration::from_secs(10);

/// Its routes.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::public("/healthz", get(healthz)),
        Route::public("/readyz", get(readyz)),
        Route::read("/stats", get(stats)),
    ]
}

/// The process lives, whatever the broker does: restarting it would mend nothing.
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

/// Asks the broker whether it is there, now and then.
#[derive(Debug)]
pub(crate) struct Probe {
    broker: Arc<dyn Broker>,
    /// One check at a time: a request that comes meanwhile takes its answer.
    last: Mutex<Option<Answer>>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    is_ready: bool,
    at: Instant,
}

impl Probe {
    /// Of one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, last: Mutex::default() }
    }

    /// Whether the broker answered a moment ago, or does now.
    pub(crate) async fn is_ready(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some(answer) = last.filter(|answer| answer.holds(Instant::now())) {
            return answer.is_ready;
        }
        let is_ready = match timeout(PATIENCE, self.broker.ping()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!("not ready: {error}");
                false
            }
            Err(_) => false,
        };
        *last = Some(Answer { is_ready, at: Instant::now() });
        is_ready
    }
}

impl Answer {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < if self.is_ready { GOOD_FOR } else { AWAY_FOR }
    }
}

//! Whether the broker answers, asked at most once a second.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::Broker;
use tokio::{sync::Mutex, time::timeout};

/// A broker that has not answered after this time is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer holds, so that many requests cost the broker nothing.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long a failure holds: its end is to be seen soon.
const AWAY_FOR: Duration = Duration::from_millis(200);

/// Checks whether the broker answers, at most once a second.
#[derive(Debug)]
pub(crate) struct Probe {
    broker: Arc<dyn Broker>,
    /// The lock admits one check at a time: a request that comes meanwhile takes its answer.
    last: Mutex<Option<Answer>>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    is_ready: bool,
    at: Instant,
}

impl Probe {
    /// Creates a probe for one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, last: Mutex::default() }
    }

    /// Returns whether the broker answered a moment ago, or does now.
    pub(crate) async fn is_ready(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some(answer) = last.filter(|answer| answer.holds(Instant::now())) {
            return answer.is_ready;
        }
        let is_ready = match timeout(PATIENCE, self.broker.ping()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                log!(debug, "not ready: {error}");
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

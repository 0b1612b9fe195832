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
        let failure = match timeout(PATIENCE, self.broker.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {PATIENCE:?}")),
        };
        let is_ready = failure.is_none();
        if let Some(failure) = failure.filter(|_| last.is_none_or(|before| before.is_ready)) {
            log!(warn, "not ready: {failure}");
        }
        *last = Some(Answer { is_ready, at: Instant::now() });
        is_ready
    }
}

impl Answer {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < if self.is_ready { GOOD_FOR } else { AWAY_FOR }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::broker::redis::{RedisBroker, RedisOptions};
    use asynq_test_support::{Log, Persistence, RedisServer};

    use super::*;

    #[tokio::test]
    async fn the_cause_of_a_failure_is_in_the_log_once() {
        let (log, mut redis) = (Log::keep(), RedisServer::start(Persistence::None));
        let broker = RedisBroker::connect(&redis.url(), RedisOptions::default()).await.unwrap();
        let probe = Probe::new(Arc::new(broker));
        redis.kill();
        for _ in 0..2 {
            assert!(!probe.is_ready().await);
            if let Some(answer) = &mut *probe.last.lock().await {
                answer.at -= AWAY_FOR;
            }
        }
        assert_eq!(log.with("not ready: ").len(), 1, "{log:?}");
    }
}

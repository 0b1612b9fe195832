//! Whether the broker answers, asked at most once a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use asynq_runtime::broker::Broker;

use crate::latest::Latest;

/// A broker that has not answered after this time is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer holds, so that many requests cost the broker nothing.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long a failure holds: its end is to be seen soon.
const AWAY_FOR: Duration = Duration::from_millis(200);

/// Checks whether the broker answers, at most once a second.
pub(crate) struct Probe(Latest<bool>);

impl Probe {
    /// Creates a probe for one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        let was_ready = Arc::new(AtomicBool::new(true));
        Self(Latest::new(
            |is_ready, _| if *is_ready { GOOD_FOR } else { AWAY_FOR },
            move || ping(Arc::clone(&broker), Arc::clone(&was_ready)),
        ))
    }

    /// Returns whether the broker answered a moment ago, or does now.
    pub(crate) async fn is_ready(&self) -> bool {
        self.0.fresh(PATIENCE).await.is_some_and(|report| report.value)
    }
}

/// Returns whether the broker answers in time; logs why it does not if it did before. The error that names the cause mostly comes
/// when the request is over.
async fn ping(broker: Arc<dyn Broker>, was_ready: Arc<AtomicBool>) -> bool {
    let began = Instant::now();
    let failure = match broker.ping().await {
        Err(error) => Some(error.to_string()),
        Ok(()) if began.elapsed() > PATIENCE => Some(format!("no answer within {PATIENCE:?}")),
        Ok(()) => None,
    };
    let is_ready = failure.is_none();
    let was_ready = was_ready.swap(is_ready, Relaxed);
    if let Some(failure) = failure.filter(|_| was_ready) {
        log!(warn, "not ready: {failure}");
    }
    is_ready
}

#[cfg(test)]
mod tests {
    use asynq_runtime::broker::redis::{RedisBroker, RedisOptions};
    use asynq_test_support::{Log, Persistence, RedisServer};

    use super::*;

    #[tokio::test]
    async fn the_cause_of_a_failure_is_in_the_log_once() {
        let (log, mut redis) = (Log::keep(), RedisServer::start(Persistence::None));
        let mut options = RedisOptions::default();
        // A call waits for a connection so long, and has the cause only then.
        options.call_timeout = PATIENCE + Duration::from_millis(100);
        let broker = RedisBroker::connect(&redis.url(), options).await.unwrap();
        redis.kill();
        // The first call finds the connection broken, and fails at once.
        broker.ping().await.unwrap_err();
        let probe = Probe::new(Arc::new(broker));
        for _ in 0..2 {
            assert!(!probe.is_ready().await);
            assert_eq!(probe.0.expire().await, Some(false));
        }
        let lines = log.with("not ready: ");
        assert!(lines.len() == 1 && lines[0].contains("Redis cannot be reached"), "{log:?}");
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_a_failure() {
        let (log, redis) = (Log::keep(), RedisServer::start(Persistence::None));
        let mut options = RedisOptions::default();
        options.call_timeout = 30 * PATIENCE;
        let probe = Probe::new(Arc::new(RedisBroker::connect(&redis.url(), options).await.unwrap()));
        let stopped = redis.stop();
        // The second question waits for the answer to the first, which is surely too late then.
        for _ in 0..2 {
            assert!(!probe.is_ready().await);
        }
        drop(stopped);
        assert_eq!(probe.0.expire().await, Some(false));
        assert_eq!(log.with("not ready: ").len(), 1, "{log:?}");
    }
}

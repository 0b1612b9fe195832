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
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    is_ready: bool,
    at: Instant,
}

impl Probe {
    /// Creates a probe for one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, last: Arc::default() }
    }

    /// Returns whether the broker answered a moment ago, or does now.
    pub(crate) async fn is_ready(&self) -> bool {
        timeout(PATIENCE, self.ask()).await.unwrap_or(false)
    }

    /// Asks the broker, unless an answer holds. The call is a task of its own, which goes on when the request is over: the error that
    /// names the cause mostly comes later.
    async fn ask(&self) -> bool {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(answer) = last.filter(|answer| answer.holds(Instant::now())) {
            return answer.is_ready;
        }
        let broker = Arc::clone(&self.broker);
        let asked = tokio::spawn(async move {
            let began = Instant::now();
            let failure = match broker.ping().await {
                Err(error) => Some(error.to_string()),
                Ok(()) if began.elapsed() > PATIENCE => Some(format!("no answer within {PATIENCE:?}")),
                Ok(()) => None,
            };
            let is_ready = failure.is_none();
            if let Some(failure) = failure.filter(|_| last.is_none_or(|before| before.is_ready)) {
                log!(warn, "not ready: {failure}");
            }
            *last = Some(Answer { is_ready, at: Instant::now() });
            is_ready
        });
        asked.await.unwrap_or(false)
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
            if let Some(answer) = &mut *probe.last.lock().await {
                answer.at -= AWAY_FOR;
            }
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
        let answer = *probe.last.lock().await;
        assert!(answer.is_some_and(|answer| !answer.is_ready), "{answer:?}");
        assert_eq!(log.with("not ready: ").len(), 1, "{log:?}");
    }
}

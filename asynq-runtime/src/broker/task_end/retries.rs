//! Asks a broker that is unavailable again until the time of a wait is over, and cuts requests short that last longer.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::{
    broker::{BrokerError, BrokerErrorKind, far},
    pause::{doubled, spread},
};

/// Shortest and longest pause before an unavailable broker is asked again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The time of a wait, and how its requests failed since the broker last answered.
#[derive(Debug)]
pub(crate) struct Retries {
    /// When the wait is over.
    until: Instant,
    /// When a request is cut short; `None` in a wait of no time at all, which is one request with the broker's own time-out.
    cut_at: Option<Instant>,
    /// How often requests failed, and the last error.
    failures: Option<(u32, BrokerError)>,
}

impl Retries {
    /// A shorter wait leaves the broker this time to answer: one that is busy for a moment is not away.
    pub(crate) const TIME_TO_ANSWER: Duration = Duration::from_secs(1);

    /// Begins a wait of this length.
    pub(crate) fn within(limit: Duration) -> Self {
        let now = Instant::now();
        let cut_at = (!limit.is_zero()).then(|| far(now, limit.max(Self::TIME_TO_ANSWER)));
        Self { until: far(now, limit), cut_at, failures: None }
    }

    /// Begins the last request of a wait whose time is over.
    pub(crate) fn last() -> Self {
        Self { cut_at: Some(far(Instant::now(), Self::TIME_TO_ANSWER)), ..Self::within(Duration::ZERO) }
    }

    /// Returns the time that is left of the wait.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Sends a request and cuts it short when the time is over: then it returns the last failure, or `None` if there was none.
    pub(crate) async fn ask<T>(
        &self,
        request: impl Future<Output = Result<T, BrokerError>>,
    ) -> Option<Result<T, BrokerError>> {
        let Some(cut_at) = self.cut_at else { return Some(request.await) };
        let answer = timeout(cut_at.saturating_duration_since(Instant::now()), request).await.ok();
        answer.or_else(|| self.failures.as_ref().map(|(_, error)| Err(error.clone())))
    }

    /// Returns the error of a wait whose time is over without any answer.
    pub(crate) fn no_answer() -> BrokerError {
        BrokerError::new(
            BrokerErrorKind::Timeout,
            "the broker did not answer before the time of the wait was over; wait again",
        )
    }

    /// Notes that the broker has answered.
    pub(crate) fn answered(&mut self) {
        self.failures = None;
    }

    /// Waits before the next request.
    ///
    /// # Errors
    ///
    /// The time is over, or another request would fail in the same way.
    pub(crate) async fn after(&mut self, error: BrokerError) -> Result<(), BrokerError> {
        let left = self.left();
        if !error.is_unavailable() || left.is_zero() {
            return Err(error);
        }
        let times = self.failures.take().map_or(0, |(times, _)| times);
        self.failures = Some((times.saturating_add(1), error));
        sleep(spread(doubled(AGAIN.0, times, AGAIN.1)).min(left)).await;
        Ok(())
    }
}

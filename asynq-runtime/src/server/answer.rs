//! Waits for an answer of the broker, but not for ever: brokers have shorter limits of their own, and this one holds even where a broker
//! has none.

use std::time::Duration;

use tokio::time::timeout;

use crate::broker::{Broker, BrokerError, BrokerErrorKind};

/// Shortest time for which one answer of the broker is waited for.
const SHORTEST: Duration = Duration::from_secs(15);

/// Returns how long one answer of the broker is waited for: longer than the broker's own limit, so that every call ends and no
/// call is given up that the broker still makes.
pub(super) fn longest_call(broker: &dyn Broker) -> Duration {
    SHORTEST.max(broker.call_limit().saturating_add(Duration::from_secs(1)))
}

/// Waits for the answer of the broker to a call, at most for `limit`.
pub(super) async fn answer_within<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T, BrokerError> {
    timeout(limit, call).await.map_err(|_| no_answer())
}

pub(super) fn no_answer() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "the broker gave no answer")
}

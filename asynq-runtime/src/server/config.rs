//! The checked options of a server, with every default and its reason.

use std::{fmt, num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};

use asynq_grammar::duration;

use super::{archives::Archives, queues::Entry};
use crate::broker::{BrokerError, RetryOrder};

/// Default number of blocking jobs at a time: tokio's own number of blocking threads.
pub(crate) const BLOCKING_LIMIT: usize = 512;
/// How many outcomes may wait for the broker before fetching stops; a higher concurrency allows as many as it has tasks.
/// Measured as enough to keep fetch and settle overlapping.
pub(crate) const OUTBOX_CAPACITY: usize = 512;
/// Time between beats: asynq's 5 s, half of the time after which a silent server disappears from the list.
pub(crate) const BEAT: Duration = Duration::from_secs(5);
/// Time between passes of the janitor: asynq's 8 s.
pub(crate) const JANITOR: Duration = Duration::from_secs(8);
/// How many tasks one call of housekeeping touches at most.
pub(crate) const SLICE: usize = 100;
/// Limit of every wait for a notification: a lost wake-up costs no more than this.
pub(crate) const SAFETY_NET: Duration = Duration::from_secs(10);

/// The policy of a worker for a task whose type, or whose arguments' shape, it does not know: usually during a rolling deploy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// Requeues the task for other workers: after 5 s, doubling to 10 minutes, no retry spent; archived with the reason
    /// after a day.
    #[default]
    Requeue,
    /// As [`Requeue`](Self::Requeue), but archived after this time: longer for programs that are deployed or rolled back
    /// over days.
    RequeueFor(Duration),
    /// Archives the task at once.
    Archive,
    /// Counts an attempt as failed, as Go does: the task is retried, then archived.
    Retry,
}

impl fmt::Display for OnUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requeue => f.pad("requeue"),
            Self::RequeueFor(time) => f.pad(&format!("requeue for {}", duration::format(*time))),
            Self::Archive => f.pad("archive"),
            Self::Retry => f.pad("retry"),
        }
    }
}

/// The options of a server.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Queues and patterns with weight or priority; never empty in a server that takes tasks.
    pub(crate) queues: Vec<Entry>,
    pub(crate) strict: bool,
    /// Where in their queues retry tasks go that are due.
    pub(crate) retries: RetryOrder,
    /// How many tasks run at a time at most.
    pub(crate) concurrency: usize,
    /// How long a stopping server lets running jobs go on before it requeues them.
    pub(crate) shutdown_timeout: Duration,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) archives: Archives,
    pub(crate) health_check: Option<HealthCheck>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            strict: false,
            retries: RetryOrder::default(),
            concurrency: processors(),
            // asynq's 8 s, which leaves 2 s of the 10 s that Docker and most supervisors grant.
            shutdown_timeout: Duration::from_secs(8),
            on_unknown: OnUnknown::default(),
            archives: Archives::default(),
            health_check: None,
        }
    }
}

/// Returns the default number of tasks at a time: the number of processors, as in asynq.
pub(crate) fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// The interval of the health check and its callback.
#[derive(Clone)]
pub(crate) struct HealthCheck {
    pub(crate) every: Duration,
    pub(crate) callback: Arc<dyn Fn(Result<(), BrokerError>) + Send + Sync>,
}

partial_debug!(HealthCheck { every, .. });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_for_unknown_tasks_is_printed_in_words() {
        let week = OnUnknown::RequeueFor(Duration::from_secs(7 * 86_400));
        let policies = [OnUnknown::Requeue, week, OnUnknown::Archive, OnUnknown::Retry];
        assert_eq!(policies.map(|policy| policy.to_string()), ["requeue", "requeue for 7d", "archive", "retry"]);
    }
}

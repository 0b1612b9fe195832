//! What the broker's servers or files say of themselves, asked beside the requests that show it.
//!
//! A large SQLite file is read for up to a second before it answers: no page waits for that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use asynq_runtime::broker::{Broker, BrokerError, Node};
use chrono::{DateTime, Utc};
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// For how long an answer holds at least.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// So many times longer than it took an answer holds: asking takes a small part of the broker's time only.
const REST: u32 = 30;
/// For how long a failure holds: the end of it is to be seen soon.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// Asks for the nodes where somebody looks at them.
#[derive(Debug)]
pub(crate) struct Nodes {
    broker: Arc<dyn Broker>,
    last: watch::Sender<Option<Told>>,
    /// One question at a time: who comes meanwhile takes its answer.
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What they said.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The nodes, or why they are not known.
    pub(crate) nodes: Result<Arc<[Node]>, BrokerError>,
    /// When that was, by our clock.
    pub(crate) at: DateTime<Utc>,
    until: Instant,
}

impl Nodes {
    /// Of one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, last: watch::Sender::new(None), asking: Mutex::default() }
    }

    /// What they said a moment ago, or say within `patience`; after that what they said before, if they ever did. The
    /// question goes on meanwhile.
    pub(crate) async fn told(&self, patience: Duration) -> Option<Told> {
        let mut last = self.last.subscribe();
        self.ask();
        let is_fresh = |told: &Option<Told>| told.as_ref().is_some_and(Told::is_fresh);
        // Late, or nobody asks any more: the last answer is what there is.
        let _ = timeout(patience, last.wait_for(is_fresh)).await;
        last.borrow().clone()
    }

    /// Asks, unless an answer holds still or is on its way.
    fn ask(&self) {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.last.borrow().as_ref().is_some_and(Told::is_fresh) || asking.as_ref().is_some_and(|h| !h.is_finished()) {
            return;
        }
        let (broker, last) = (Arc::clone(&self.broker), self.last.clone());
        *asking = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let began = Instant::now();
            let nodes = broker.nodes().await.map(Into::into);
            let until = Instant::now() + good_for(nodes.is_ok(), began.elapsed());
            last.send_replace(Some(Told { nodes, at: Utc::now(), until }));
        })));
    }
}

impl Told {
    /// Whether it holds still.
    pub(crate) fn is_fresh(&self) -> bool {
        Instant::now() < self.until
    }
}

/// For how long an answer holds that took so long.
fn good_for(is_answer: bool, took: Duration) -> Duration {
    if is_answer { GOOD_FOR.max(took.saturating_mul(REST)) } else { FAILED_FOR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_costly_to_ask_holds_longer() {
        for (is_answer, ms, seconds) in [(true, 2, 5), (true, 1000, 30), (false, 1000, 1)] {
            assert_eq!(good_for(is_answer, Duration::from_millis(ms)).as_secs(), seconds, "{ms} ms");
        }
    }
}

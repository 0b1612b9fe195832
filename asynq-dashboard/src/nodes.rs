//! The broker's servers or files and their facts, read beside the requests that show them.
//!
//! A large SQLite file is read for up to a second before it answers: no page waits for that read.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{Broker, BrokerError, Node, QueueSlot};
use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long an answer is fresh at least.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// An answer is fresh for this many times the span that it took: reads take only a small part of the broker's time.
const FRESH_FACTOR: u32 = 30;
/// How long a failure is fresh: its end is to be seen soon.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// Most queues whose slots are read.
const MOST_QUEUES: usize = 500;

/// An answer of the broker, or its error.
type Answer = Result<NodeList, BrokerError>;

/// The broker's nodes and slots.
#[derive(Debug, Default)]
pub(crate) struct NodeList {
    /// The broker's servers or files.
    pub(crate) nodes: Vec<Node>,
    /// The slots and nodes of the first 500 queues in a cluster; empty elsewhere.
    pub(crate) slots: Vec<QueueSlot>,
    /// How many queues beyond those are left out.
    pub(crate) left_out: usize,
}

async fn ask(broker: &dyn Broker) -> Answer {
    let nodes = broker.nodes().await?;
    let mut left_out = 0;
    let slots = match nodes.iter().any(|node| node.mode() == Some("cluster")) {
        true => {
            let mut queues = broker.queues().await?;
            queues.sort();
            left_out = queues.len().saturating_sub(MOST_QUEUES);
            queues.truncate(MOST_QUEUES);
            // A login that may not read the slots still sees the nodes.
            broker.slots(&queues).await.unwrap_or_default()
        }
        false => Vec::new(),
    };
    Ok(NodeList { nodes, slots, left_out })
}

/// Reads the nodes for requests that show them.
pub(crate) struct Nodes {
    read: Box<dyn Fn() -> BoxFuture<'static, Answer> + Send + Sync>,
    last: watch::Sender<Option<NodesReport>>,
    /// The lock admits one read at a time: a request that comes meanwhile takes its answer.
    reading: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The result of a read.
#[derive(Debug, Clone)]
pub(crate) struct NodesReport {
    /// The nodes, or the error.
    pub(crate) nodes: Result<Arc<NodeList>, BrokerError>,
    /// The time of the result, by our clock.
    pub(crate) at: DateTime<Utc>,
    until: Instant,
}

impl Nodes {
    /// Creates a reader for one broker.
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self::by(move || {
            let broker = Arc::clone(&broker);
            async move { ask(&*broker).await }
        })
    }

    fn by<F: Future<Output = Answer> + Send + 'static>(read: impl Fn() -> F + Send + Sync + 'static) -> Self {
        let read = Box::new(move || read().boxed());
        Self { read, last: watch::Sender::new(None), reading: Mutex::default() }
    }

    /// Returns a fresh result, or one that comes within `patience`; else the last result, if there is one. The read
    /// goes on meanwhile.
    pub(crate) async fn latest(&self, patience: Duration) -> Option<NodesReport> {
        let mut last = self.last.subscribe();
        self.ask();
        let is_fresh = |latest: &Option<NodesReport>| latest.as_ref().is_some_and(NodesReport::is_fresh);
        // If the read is late, or the sender is gone, the last result is the best one.
        let _ = timeout(patience, last.wait_for(is_fresh)).await;
        last.borrow().clone()
    }

    /// Starts a read, unless a result is fresh or a read is under way.
    fn ask(&self) {
        let mut reading = self.reading.lock();
        if self.last.borrow().as_ref().is_some_and(NodesReport::is_fresh)
            || reading.as_ref().is_some_and(|h| !h.is_finished())
        {
            return;
        }
        let (answer, last) = ((self.read)(), self.last.clone());
        *reading = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let began = Instant::now();
            let nodes = answer.await.map(Arc::new);
            let until = Instant::now() + good_for(nodes.is_ok(), began.elapsed());
            last.send_replace(Some(NodesReport { nodes, at: Utc::now(), until }));
        })));
    }
}

impl NodesReport {
    /// Returns whether the result is fresh.
    pub(crate) fn is_fresh(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Returns how long the result of a read that took this long is fresh.
fn good_for(is_answer: bool, took: Duration) -> Duration {
    if is_answer { GOOD_FOR.max(took.saturating_mul(FRESH_FACTOR)) } else { FAILED_FOR }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use asynq_test_support::{PATIENCE, eventually};
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn a_slow_answer_is_cached_longer() {
        for (is_answer, ms, seconds) in [(true, 2, 5), (true, 1000, 30), (false, 1000, 1)] {
            assert_eq!(good_for(is_answer, Duration::from_millis(ms)).as_secs(), seconds, "{ms} ms");
        }
    }

    #[tokio::test]
    async fn a_request_waits_no_longer_than_its_limit_and_all_share_one_answer() {
        let (let_go, reads) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let read = (Arc::clone(&let_go), Arc::clone(&reads));
        let nodes = Nodes::by(move || {
            let (let_go, reads) = read.clone();
            async move {
                reads.fetch_add(1, Relaxed);
                let_go.notified().await;
                Ok(NodeList { nodes: vec![Node::new("here", "1")], ..NodeList::default() })
            }
        });
        assert!(nodes.latest(Duration::ZERO).await.is_none());
        assert!(nodes.latest(Duration::from_millis(5)).await.is_none());
        let_go.notify_one();
        for _ in 0..3 {
            let latest = nodes.latest(PATIENCE).await.expect("an answer");
            assert_eq!(latest.nodes.as_ref().expect("an answer").nodes[0].address, "here");
            // The result is fresh for longer than a busy machine may take for the next call.
            nodes.last.send_replace(Some(NodesReport { until: Instant::now() + PATIENCE, ..latest }));
        }
        assert_eq!(reads.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn the_previous_answer_is_served_while_a_new_one_is_read() {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        let nodes = Nodes::by(move || {
            let n = count.fetch_add(1, Relaxed);
            async move { if n == 0 { Ok(NodeList::default()) } else { std::future::pending().await } }
        });
        let first = nodes.latest(PATIENCE).await.expect("an answer");
        nodes.last.send_replace(Some(NodesReport { until: Instant::now(), ..first.clone() }));
        let again = nodes.latest(Duration::ZERO).await.expect("the last answer");
        assert_eq!((again.at, again.is_fresh()), (first.at, false));
        eventually("it is asked anew", async || (reads.load(Relaxed) == 2).then_some(())).await;
    }
}

//! The broker's servers or files and their facts, read beside the requests that show them.
//!
//! A large SQLite file is read for up to a second before it answers: no page waits for that read.

use std::{sync::Arc, time::Duration};

use asynq_runtime::broker::{Broker, BrokerError, Node, QueueSlot};

use crate::latest::{Latest, Report};

/// How long an answer is fresh at least.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// An answer is fresh for this many times the span that it took: reads take only a small part of the broker's time.
const FRESH_FACTOR: u32 = 30;
/// How long a failure is fresh: its end is to be seen soon.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// Most queues whose slots are read.
const MOST_QUEUES: usize = 500;

/// An answer of the broker, or its error.
type Answer = Result<Arc<NodeList>, BrokerError>;

/// The broker's nodes and slots.
#[derive(Debug)]
pub(crate) struct NodeList {
    /// The broker's servers or files.
    pub(crate) nodes: Vec<Node>,
    /// The slots and nodes of the first 500 queues in a cluster; empty elsewhere.
    pub(crate) slots: Vec<QueueSlot>,
    /// How many queues beyond those are left out.
    pub(crate) left_out: usize,
}

async fn ask(broker: &dyn Broker) -> Result<NodeList, BrokerError> {
    let nodes = broker.nodes().await?;
    if !nodes.iter().any(|node| node.mode() == Some("cluster")) {
        return Ok(NodeList { nodes, slots: Vec::new(), left_out: 0 });
    }
    let mut queues = broker.queues().await?;
    let left_out = queues.len().saturating_sub(MOST_QUEUES);
    queues.truncate(MOST_QUEUES);
    // A login that may not read the slots still sees the nodes.
    let slots = broker.slots(&queues).await.unwrap_or_default();
    Ok(NodeList { nodes, slots, left_out })
}

/// The nodes of a broker, or its error, for requests that show them.
pub(crate) type Nodes = Latest<Answer>;

/// The result of one read of the nodes.
pub(crate) type NodesReport = Report<Answer>;

/// Creates a reader for one broker.
pub(crate) fn of(broker: Arc<dyn Broker>) -> Nodes {
    Latest::new(
        |nodes, took| good_for(nodes.is_ok(), took),
        move || {
            let broker = Arc::clone(&broker);
            async move { ask(&*broker).await.map(Arc::new) }
        },
    )
}

/// Returns how long the result of a read that took this long is fresh.
fn good_for(is_answer: bool, took: Duration) -> Duration {
    if is_answer { GOOD_FOR.max(took.saturating_mul(FRESH_FACTOR)) } else { FAILED_FOR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_cached_longer() {
        for (is_answer, ms, seconds) in [(true, 2, 5), (true, 1000, 30), (false, 1000, 1)] {
            assert_eq!(good_for(is_answer, Duration::from_millis(ms)).as_secs(), seconds, "{ms} ms");
        }
    }
}

//! Queues that do not answer, by the node of the cluster that keeps them: a node that is away may keep thousands.

use std::collections::{BTreeMap, HashMap};

use asynq_grammar::counted;
use asynq_runtime::{Inspector, task::QueueName};

/// Most queues that a finding names.
const EXAMPLES: usize = 5;

/// The queues of one node that do not answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The queues, by name.
    pub(crate) queues: Vec<QueueName>,
    /// The reason of the first one.
    pub(crate) error: String,
}

impl Unanswered {
    /// Returns how many queues there are, and some of their names.
    pub(super) fn listed(&self) -> String {
        let number = counted(self.queues.len() as u64, "queue");
        let names: Vec<&str> = self.queues.iter().take(EXAMPLES).map(QueueName::as_str).collect();
        let more = if self.queues.len() > EXAMPLES { ", …" } else { "" };
        format!("{number}: {}{more}", names.join(", "))
    }
}

/// Sorts the queues, each with the reason, by their nodes. Also returns those without a node, as where there is no cluster.
pub(super) async fn by_node(
    inspector: &Inspector,
    unanswered: Vec<(QueueName, String)>,
) -> (BTreeMap<String, Unanswered>, Vec<(QueueName, String)>) {
    let (mut by_node, mut alone) = (BTreeMap::<String, Unanswered>::new(), Vec::new());
    let queues: Vec<QueueName> = unanswered.iter().map(|(queue, _)| queue.clone()).collect();
    let slots = if queues.is_empty() { Vec::new() } else { inspector.slots(&queues).await.unwrap_or_default() };
    // The first node is the master.
    let mut masters: HashMap<QueueName, String> =
        slots.into_iter().filter_map(|slot| Some((slot.queue, slot.nodes.into_iter().next()?))).collect();
    for (queue, error) in unanswered {
        match masters.remove(&queue) {
            Some(master) => {
                let of_master = by_node.entry(master).or_insert_with(|| Unanswered { error, queues: Vec::new() });
                of_master.queues.push(queue);
            }
            None => alone.push((queue, error)),
        }
    }
    (by_node, alone)
}

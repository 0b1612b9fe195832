//! What the checks look at, gathered once.

use std::collections::BTreeMap;

use asynq_runtime::{
    Client, TaskState,
    broker::{Examination, Node, QueueStats, ServerState},
    inspector::{InspectError, Inspector},
    task::QueueName,
};
use chrono::{DateTime, Utc};

/// Failed tasks of a state that are read for errors which say that nobody knows their type.
const FAILED: usize = 500;

/// A system as it was found.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// The broker's time.
    pub(crate) now: DateTime<Utc>,
    /// Who keeps the tasks.
    pub(crate) nodes: Vec<Node>,
    /// The servers that live.
    pub(crate) servers: Vec<ServerState>,
    /// Every queue.
    pub(crate) queues: Vec<QueueEvidence>,
}

/// A queue as it was found.
#[derive(Debug)]
pub(crate) struct QueueEvidence {
    /// Its numbers.
    pub(crate) stats: QueueStats,
    /// What does not fit together in it.
    pub(crate) examination: Examination,
    /// Types of failed tasks that no worker knew, with how many of them were seen.
    pub(crate) unknown_types: BTreeMap<String, usize>,
}

/// Looks at everything, at up to `limit` tasks of each state per queue; `tell` hears of each queue that is done, and of how
/// many.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn gather(
    client: &Client,
    limit: usize,
    mut tell: impl FnMut(usize, usize),
) -> Result<Evidence, InspectError> {
    let inspector = client.inspector();
    let nodes = inspector.nodes().await?;
    let servers = inspector.servers().await?;
    let all = inspector.queues().await?;
    let (mut queues, number) = (Vec::new(), all.len());
    for stats in all {
        let name = stats.name.clone();
        let looked_at = async {
            let examination = inspector.examine(&name, limit).await?;
            let unknown_types = unknown_types(&inspector, &name).await?;
            Ok(QueueEvidence { stats, examination, unknown_types })
        };
        match looked_at.await {
            Ok(evidence) => queues.push(evidence),
            // Somebody deleted the queue meanwhile.
            Err(InspectError::QueueNotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        tell(queues.len(), number);
    }
    Ok(Evidence { now: client.broker().now(), nodes, servers, queues })
}

/// Both asynq's workers and ours say it in these words.
const UNKNOWN: &str = "handler not found for task";

async fn unknown_types(inspector: &Inspector, queue: &QueueName) -> Result<BTreeMap<String, usize>, InspectError> {
    let mut types = BTreeMap::new();
    for state in [TaskState::Retry, TaskState::Archived] {
        for task in inspector.tasks(queue, state).per_page(FAILED).await? {
            if task.last_error.is_some_and(|error| error.starts_with(UNKNOWN)) {
                *types.entry(task.r#type).or_default() += 1;
            }
        }
    }
    Ok(types)
}

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
    /// What no worker knew of the tasks that were seen, by their type.
    pub(crate) unknown: BTreeMap<(String, Stranger), Strangers>,
}

/// What of a task no worker knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stranger {
    /// Its type.
    Type,
    /// The shape of its arguments: another version of the program enqueued it.
    Shape,
}

/// How many such tasks were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Strangers {
    /// Handed back, or failed, and to be tried again.
    pub(crate) waiting: usize,
    /// Given up.
    pub(crate) archived: usize,
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
            let unknown = unknown(&inspector, &name).await?;
            Ok(QueueEvidence { stats, examination, unknown })
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

async fn unknown(
    inspector: &Inspector,
    queue: &QueueName,
) -> Result<BTreeMap<(String, Stranger), Strangers>, InspectError> {
    let mut found: BTreeMap<_, Strangers> = BTreeMap::new();
    for state in [TaskState::Retry, TaskState::Archived] {
        for task in inspector.tasks(queue, state).per_page(FAILED).await? {
            let Some(stranger) = task.last_error.as_deref().and_then(stranger) else { continue };
            let seen = found.entry((task.r#type, stranger)).or_default();
            *if state == TaskState::Retry { &mut seen.waiting } else { &mut seen.archived } += 1;
        }
    }
    Ok(found)
}

/// What was unknown of a task with this error.
fn stranger(error: &str) -> Option<Stranger> {
    // Both asynq's workers and ours say it in these words.
    if error.starts_with("handler not found for task") {
        return Some(Stranger::Type);
    }
    let (_, told) = error.strip_prefix("the arguments of `")?.split_once("` ")?;
    told.starts_with("have shape ").then_some(Stranger::Shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unknown_is_read_from_the_error() {
        for (error, expected) in [
            (r#"handler not found for task "mail""#, Some(Stranger::Type)),
            ("the arguments of `mail` have shape 01020304, but this program's `mail` takes", Some(Stranger::Shape)),
            ("the arguments of `mail` cannot be read: too short", None),
            ("the arguments of nobody", None),
            ("no handler", None),
        ] {
            assert_eq!(stranger(error), expected, "{error}");
        }
    }
}

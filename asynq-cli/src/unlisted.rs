//! Why queues, and programs that run, may be missing from their lists.

use asynq_runtime::{Client, broker::Node, inspector::InspectError};

/// The line in place of an empty list of queues.
pub(crate) const NO_QUEUE: &str =
    "no queues yet: nothing was ever enqueued here, or another tool removed their names: see `asynq doctor`";

const NO_WRITES: &str = "the broker takes no writes, so that programs which run cannot report";

/// Returns whether a node of a cluster answers nothing at all, unlike another node: a login that may ask nothing hides the facts of
/// every node.
pub(crate) fn is_away(node: &Node, all: &[Node]) -> bool {
    node.facts.is_empty() && all.iter().any(|other| !other.facts.is_empty())
}

/// Returns why the lists may miss programs that run, if they may.
pub(crate) fn reason(nodes: &[Node]) -> Option<&'static str> {
    if nodes.iter().any(|node| node.refuses_writes.is_some()) {
        Some(NO_WRITES)
    } else if nodes.iter().any(|node| is_away(node, nodes)) {
        Some("a node of the cluster does not answer, and programs may have their reports there")
    } else {
        None
    }
}

/// Asks the broker for the [`reason`] why a list is empty.
pub(crate) async fn reason_of(client: &Client) -> Result<Option<&'static str>, InspectError> {
    // The facts about a file cost a look through the whole file.
    if client.broker().kind() != "redis" {
        return Ok(client.broker().write_refusal().await?.map(|_| NO_WRITES));
    }
    Ok(reason(&client.inspector().nodes().await?))
}

/// Returns the line in place of an empty list of servers.
pub(crate) fn no_server(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("no server is listed, but {reason}: see `asynq doctor`"),
        None => "no server is running".to_owned(),
    }
}

/// Returns the line in place of an empty list of periodic entries.
pub(crate) fn no_entry(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("no periodic entry is listed, but {reason}: see `asynq doctor`"),
        None => "no periodic entries: no scheduler is running".to_owned(),
    }
}

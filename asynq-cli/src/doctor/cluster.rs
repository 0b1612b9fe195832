//! Checks whether the slots of a cluster have masters, and whether these answer.

use asynq_grammar::shell;
use asynq_runtime::broker::Node;

use super::{
    Evidence, Finding, Severity,
    broker::{host_and_port, tls},
};
use crate::unlisted::is_away;

/// The slots of a cluster.
const SLOTS: u64 = 16_384;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    evidence.nodes.iter().filter_map(slots).chain(unanswered(evidence)).collect()
}

/// Returns a finding for each node with queues that do not answer, unless the node answers nothing at all: that finding names them.
fn unanswered(evidence: &Evidence) -> Vec<Finding> {
    let away = evidence.nodes.iter().filter(|node| is_away(node, &evidence.nodes));
    let away: Vec<&str> = away.filter_map(|node| node.endpoint.as_deref()).collect();
    let mut findings = Vec::new();
    for (node, there) in evidence.unanswered.iter().filter(|(node, _)| !away.contains(&node.as_str())) {
        findings.push(Finding::new(
            node,
            Severity::Error,
            "unreadable",
            format!("this node does not answer for {}: {}", there.listed(), there.error),
            "nothing is known of these queues: neither what waits in them nor what is wrong with them",
            "repair what the error names; where a node of a cluster is down, bring it back, then ask again",
        ));
    }
    findings
}

/// Returns a finding for a node that knows slots without a master.
fn slots(node: &Node) -> Option<Finding> {
    let state = node.fact("cluster_state")?;
    // Without full coverage the state is "ok" although slots have no master.
    let failed = node.number("cluster_slots_fail").unwrap_or_default();
    let missing = SLOTS.saturating_sub(node.number("cluster_slots_assigned").unwrap_or(SLOTS)).saturating_add(failed);
    let is_whole = state == "ok" && missing == 0;
    (!is_whole).then(|| {
        let tls = tls(node);
        let place = match node.endpoint.as_deref().and_then(host_and_port) {
            Some((host, port)) => shell::quote(&format!("{host}:{port}")),
            None => "HOST:PORT".to_owned(),
        };
        Finding::new(
            &node.address,
            Severity::Error,
            "cluster",
            match missing {
                0 => format!("the state of the cluster is {state}"),
                _ => format!("the state of the cluster is {state}, and {missing} of {SLOTS} slots have no master"),
            },
            "some slots have no master: queues in them, or all of them, can neither be filled nor served",
            format!(
                "redis-cli --cluster check {place}{tls} shows which; bring the nodes back, or let their replicas take over; only where \
                 their data is gone for good: redis-cli --cluster fix {place}{tls}, which gives the slots to other nodes without their \
                 tasks"
            ),
        )
    })
}

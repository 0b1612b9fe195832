//! Checks whether the slots of a cluster have masters, and whether these answer.

use std::collections::BTreeMap;

use asynq_grammar::shell;
use asynq_runtime::broker::Node;

use super::{
    Evidence, Finding, Severity,
    broker::{host_and_port, tls},
    evidence::unreadable,
    unanswered::Unanswered,
};
use crate::unlisted::is_away;

/// The slots of a cluster.
const SLOTS: u64 = 16_384;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = unanswered(evidence);
    findings.extend(evidence.nodes.iter().filter_map(slots));
    findings
}

/// Returns a finding for each node that answers nothing at all, with its queues, and for each other one with queues that do not answer.
fn unanswered(evidence: &Evidence) -> Vec<Finding> {
    let mut by_node: BTreeMap<&str, &Unanswered> =
        evidence.unanswered.iter().map(|(node, there)| (node.as_str(), there)).collect();
    let mut findings = Vec::new();
    for node in evidence.nodes.iter().filter(|node| is_away(node, &evidence.nodes)) {
        let place = node.endpoint.as_deref().unwrap_or("one of them");
        let queues = by_node.remove(place).map_or_else(String::new, |there| format!(", with {}", there.listed()));
        let found = format!("a node of the cluster does not answer: {place}{queues}");
        let means =
            "queues in its slots can neither be filled nor served, and workers with reports there are not listed";
        let repair = "bring the node back, or let a replica of it take over, then ask again".to_owned();
        findings.push(Finding { repair, ..unreadable(&node.address, found, means) });
    }
    for (node, there) in by_node {
        let found = format!("this node does not answer for {}: {}", there.listed(), there.error);
        let means = "nothing is known of these queues: neither what waits in them nor what is wrong with them";
        findings.push(unreadable(node, found, means));
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
        Finding {
            severity: Severity::Error,
            check: "cluster",
            subject: node.address.clone(),
            found: match missing {
                0 => format!("the state of the cluster is {state}"),
                _ => format!("the state of the cluster is {state}, and {missing} of {SLOTS} slots have no master"),
            },
            means: "some slots have no master: queues in them, or all of them, can neither be filled nor served",
            repair: format!(
                "redis-cli --cluster check {place}{tls} shows which; bring the nodes back, or let their replicas take over; only where \
                 their data is gone for good: redis-cli --cluster fix {place}{tls}, which gives the slots to other nodes without their \
                 tasks"
            ),
        }
    })
}

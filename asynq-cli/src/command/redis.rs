//! The facts about Redis in `stats`, in the words of Go's tool, and the nodes of a cluster that keep each queue.

use std::time::Duration;

use asynq_runtime::{
    Inspector,
    broker::{Node, QueueSlot},
    inspector::{InspectError, Statistics},
    task::QueueName,
};
use serde_json::{Value, json};

use crate::show::{Cell, Style, Table, about, bytes, clean, number, short_name};

/// One Redis or the masters of a cluster; empty for SQLite.
#[derive(Debug, Default)]
pub(super) struct Redis {
    nodes: Vec<Node>,
    slots: Vec<QueueSlot>,
}

impl Redis {
    /// Reads the nodes, and the slots of these queues. Facts that the login may not read are missing.
    pub(super) async fn of(inspector: &Inspector, kind: &str, queues: &[QueueName]) -> Result<Self, InspectError> {
        if kind != "redis" {
            return Ok(Self::default());
        }
        let nodes = inspector.nodes().await?;
        // A login that may not read the slots still sees the nodes.
        let slots = inspector.slots(queues).await.unwrap_or_default();
        Ok(Self { nodes, slots })
    }

    /// Returns the fields `redis` and `slots` of `stats --json`.
    pub(super) fn to_json(&self) -> (Value, Value) {
        let node = |node: &Node| {
            json!({
                "address": node.address,
                "version": node.version,
                "uptime_seconds": node.number("uptime_in_seconds"),
                "connections": node.number("connected_clients"),
                "memory_bytes": node.number("used_memory"),
                "peak_memory_bytes": node.number("used_memory_peak"),
                "cluster_state": node.fact("cluster_state"),
                "cluster_known_nodes": node.number("cluster_known_nodes"),
                "cluster_size": node.number("cluster_size"),
            })
        };
        (self.nodes.iter().map(node).collect(), self.slots.iter().map(Statistics::slot_to_json).collect())
    }

    /// Returns a table of the nodes and one of the slots, each after an empty line; an empty list has no table.
    pub(super) fn to_text(&self, style: Style) -> String {
        let mut text = String::new();
        if !self.nodes.is_empty() {
            let headings = ["REDIS", "VERSION", "UPTIME", "CONNECTIONS", "MEMORY", "PEAK MEMORY"];
            let mut table = Table::new(style, &headings).right([3, 4, 5]);
            for node in &self.nodes {
                let known =
                    |name: &str, show: fn(u64) -> String| node.number(name).map_or_else(|| "-".to_owned(), show);
                table.row([
                    Cell::from(&node.address),
                    Cell::from(&node.version),
                    known("uptime_in_seconds", |seconds| about(Duration::from_secs(seconds))).into(),
                    known("connected_clients", number).into(),
                    known("used_memory", bytes).into(),
                    known("used_memory_peak", bytes).into(),
                ]);
            }
            text.push_str(&format!("\n{}", table.into_text()));
        }
        if let Some((node, state)) = self.nodes.iter().find_map(|node| Some((node, node.fact("cluster_state")?))) {
            let many = |name: &str| number(node.number(name).unwrap_or_default());
            text.push_str(&format!(
                "Cluster: state {}, {} known nodes, {} masters with slots\n",
                clean(state),
                many("cluster_known_nodes"),
                many("cluster_size")
            ));
        }
        if !self.slots.is_empty() {
            text.push_str(&format!("\n{}", slot_table(&self.slots, style)));
        }
        text
    }
}

/// Returns a table of queues with their slots and nodes, as Go's `queue ls --cluster` shows them.
pub(super) fn slot_table(slots: &[QueueSlot], style: Style) -> String {
    let mut table = Table::new(style, &["QUEUE", "SLOT", "NODES"]).right([1]).wrapped([2]);
    for QueueSlot { queue, slot, nodes } in slots {
        let nodes = if nodes.is_empty() { Cell::from("none").bad() } else { nodes.join(" ").into() };
        table.row([Cell::from(short_name(queue.as_str())), Cell::from(slot), nodes]);
    }
    table.into_text()
}

#[cfg(test)]
mod tests {
    use asynq_runtime::broker::Fact;

    use super::*;

    fn node(facts: &[(&str, &str)]) -> Node {
        let mut node = Node::new("redis://h:6379/0", "7.0.15");
        let fact =
            |(name, value): &(&str, &str)| Fact { section: "any".into(), name: (*name).into(), value: (*value).into() };
        node.facts = facts.iter().map(fact).collect();
        node
    }

    #[test]
    fn redis_info_has_the_fields_that_gos_tool_shows() {
        let facts = [
            ("uptime_in_seconds", "172800"),
            ("connected_clients", "12"),
            ("used_memory", "1250000"),
            ("used_memory_peak", "3000"),
        ];
        let redis = Redis { nodes: vec![node(&facts)], slots: Vec::new() };
        assert_eq!(
            redis.to_text(Style::default()),
            "\nREDIS             VERSION  UPTIME  CONNECTIONS  MEMORY  PEAK MEMORY\n\
             redis://h:6379/0  7.0.15   2d               12  1.2 MB       3.0 kB\n"
        );
        let (nodes, slots) = redis.to_json();
        assert_eq!((&nodes[0]["memory_bytes"], &nodes[0]["cluster_state"]), (&json!(1_250_000), &Value::Null));
        assert_eq!(slots, json!([]));
    }

    #[test]
    fn a_field_that_the_acl_forbids_is_a_dash() {
        let redis = Redis { nodes: vec![node(&[])], slots: Vec::new() };
        assert!(redis.to_text(Style::default()).contains("7.0.15   -                 -       -            -\n"));
        assert_eq!(Redis::default().to_text(Style::default()), "");
    }

    #[test]
    fn a_cluster_shows_its_state_and_the_node_of_each_queue() {
        let facts = [("cluster_state", "ok"), ("cluster_known_nodes", "6"), ("cluster_size", "3")];
        let slot = |queue: &str, slot, nodes: &[&str]| QueueSlot {
            queue: QueueName::from_wire(queue),
            slot,
            nodes: nodes.iter().map(ToString::to_string).collect(),
        };
        let slots = vec![slot("default", 2044, &["10.0.0.1:7000", "10.0.0.4:7003"]), slot("low", 16_383, &[])];
        let redis = Redis { nodes: vec![node(&facts)], slots };
        let text = redis.to_text(Style::default());
        assert!(text.contains("Cluster: state ok, 6 known nodes, 3 masters with slots\n"), "{text}");
        assert!(
            text.ends_with(
                "\nQUEUE     SLOT  NODES\n\
                 default   2044  10.0.0.1:7000 10.0.0.4:7003\n\
                 low      16383  none\n"
            ),
            "{text}"
        );
        assert_eq!(redis.to_json().1[1], json!({ "queue": "low", "slot": 16_383, "nodes": [] }));
    }
}

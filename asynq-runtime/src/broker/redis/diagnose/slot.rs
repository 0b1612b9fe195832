//! Finds where a cluster keeps a queue: the slot of its keys, and the nodes of that slot.

use redis::Value;

use super::super::{
    super::{BrokerError, QueueSlot},
    RedisBroker,
    keys::Keys,
    reply,
    script::Call,
    slots::slot,
    url::Endpoints,
};
use crate::task::QueueName;

impl RedisBroker {
    pub(super) async fn slots_of(&self, queues: &[QueueName]) -> Result<Vec<QueueSlot>, BrokerError> {
        if !matches!(self.role.target.endpoints(), Endpoints::Cluster(_)) || queues.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.looking().send_to_each(Call::plain("CLUSTER").arg("SLOTS")).await?;
        let mut last = reply::unexpected("the cluster has no nodes");
        for answer in answers {
            // One node knows all slots. If the ACL forbids the question, the caller gets that error.
            match answer.and_then(read_ranges) {
                Ok(ranges) => return Ok(queues.iter().map(|queue| place(queue, &ranges)).collect()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A range of slots, and the nodes that have it: the master first.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    nodes: Vec<String>,
}

fn read_ranges(value: Value) -> Result<Vec<Range>, BrokerError> {
    let range = |range: Value| {
        let mut parts = reply::array(range).ok()?.into_iter();
        let mut slot = || u16::try_from(reply::number(&parts.next()?)?).ok();
        let (first, last) = (slot()?, slot()?);
        Some(Range { first, last, nodes: parts.filter_map(read_node).collect() })
    };
    let ranges = reply::array(value)?.into_iter().map(range);
    ranges.collect::<Option<_>>().ok_or_else(|| reply::unexpected("no slots"))
}

/// Reads `host:port`; an empty host stands for the node that was asked.
fn read_node(node: Value) -> Option<String> {
    let mut parts = reply::array(node).ok()?.into_iter();
    let host = parts.next().and_then(reply::text).unwrap_or_default();
    Some(format!("{host}:{}", reply::number(&parts.next()?)?))
}

fn place(queue: &QueueName, ranges: &[Range]) -> QueueSlot {
    let slot = slot(Keys::new(queue).prefix().as_bytes());
    let owner = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
    QueueSlot { queue: queue.clone(), slot, nodes: owner.map(|range| range.nodes.clone()).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_where_the_slot_of_its_name_is() {
        let node = |port| Value::Array(vec![Value::BulkString(b"10.0.0.1".to_vec()), Value::Int(port)]);
        let range = |first, last, ports: &[i64]| {
            let ends = [first, last].map(Value::Int).into_iter();
            Value::Array(ends.chain(ports.iter().copied().map(node)).collect())
        };
        let queue = QueueName::from_wire("default");
        let at = i64::from(slot(b"default"));
        let ranges = [range(0, at - 1, &[7000]), range(at, at, &[7001, 7004]), range(at + 1, 16_383, &[7002])];
        let found = place(&queue, &read_ranges(Value::Array(ranges.into())).unwrap());
        assert_eq!((i64::from(found.slot), found.nodes), (at, vec!["10.0.0.1:7001".into(), "10.0.0.1:7004".into()]));
        assert!(place(&queue, &[]).nodes.is_empty());
    }

    #[test]
    fn rubbish_is_an_error() {
        for value in [Value::Okay, Value::Array(vec![Value::Array(vec![Value::Int(-1)])])] {
            assert!(read_ranges(value.clone()).is_err(), "{value:?}");
        }
    }
}

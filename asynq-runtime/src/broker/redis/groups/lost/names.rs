//! Adds the queues with waiting tasks that are missing from the set of queues.

use std::collections::BTreeMap;

use redis::Value;

use super::super::super::{RedisBroker, keys::QUEUES, queue_names::QueueNames, reply, script::Call};
use crate::{broker::BrokerError, task::QueueName};

impl RedisBroker {
    /// Adds those of the queues, each with one of its keys, that are missing from the set of queues, and whose key is still there
    /// and is one of asynq's.
    pub(super) async fn add_to_names(&self, waiting: BTreeMap<QueueName, String>) -> Result<(), BrokerError> {
        let unnamed = self.with_tasks(self.unnamed(waiting).await?).await?;
        if !unnamed.is_empty() {
            self.router.send_one(QueueNames::call(&unnamed)).await?;
            log!(warn, queues = ?unnamed, "named queues that have tasks and were missing from the set of queues");
        }
        Ok(())
    }

    /// Returns those that are missing from the set of queues.
    async fn unnamed(&self, waiting: BTreeMap<QueueName, String>) -> Result<Vec<(QueueName, String)>, BrokerError> {
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = Call::plain("SMISMEMBER").arg(QUEUES);
        waiting.keys().for_each(|queue| call.push(queue.as_str()));
        let known = reply::array(self.router.send_one(call).await?)?;
        let unnamed = waiting.into_iter().zip(known).filter(|(_, known)| *known == Value::Int(0));
        Ok(unnamed.map(|(waiting, _)| waiting).collect())
    }

    /// Returns the queues whose key is there with the type that asynq gives it.
    async fn with_tasks(&self, queues: Vec<(QueueName, String)>) -> Result<Vec<QueueName>, BrokerError> {
        let types = queues.iter().map(|(_, key)| Call::plain("TYPE").arg(key)).collect();
        let types = self.router.send(types).await?;
        let is_asynqs = |key: &str, found: Result<Value, BrokerError>| {
            let wanted = if key.ends_with("}:pending") { "list" } else { "zset" };
            found.ok().and_then(reply::text).as_deref() == Some(wanted)
        };
        let queues = queues.into_iter().zip(types);
        Ok(queues.filter_map(|((queue, key), found)| is_asynqs(&key, found).then_some(queue)).collect())
    }
}

/// Returns the queue whose waiting tasks the key holds. A name with `}:` is taken for none: ids of tasks and names of groups may
/// end as such keys do.
pub(super) fn queue_with_waiting(key: &str) -> Option<&str> {
    let (queue, place) = key.strip_prefix("asynq:{")?.split_once("}:")?;
    let is_group = place.starts_with("g:") && !place.contains("}:");
    (is_group || matches!(place, "pending" | "scheduled" | "retry")).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_waiting_tasks_is_found_and_no_id_is_taken_for_one() {
        for place in ["pending", "scheduled", "retry", "g:pending"] {
            assert_eq!(queue_with_waiting(&format!("asynq:{{q:1}}:{place}")), Some("q:1"));
        }
        for other in ["asynq:{q}:t:x}:pending", "asynq:{q}:g:x}:retry", "asynq:{q}:pe", "pending"] {
            assert_eq!(queue_with_waiting(other), None, "{other}");
        }
    }
}

//! Deletes a queue with all keys of its own.

use super::SLICE;
use crate::{
    broker::{
        BrokerError, Inspect as _, QueueDeleted,
        redis::{
            RedisBroker,
            keys::{Keys, QUEUES},
            queue_names::QueueNames,
            reply::{self, BEGIN},
            script::{CLEAR_GROUPS, Call, DELETE_KEYS, Script},
        },
    },
    task::QueueName,
};

/// Keys that one step of a walk looks at.
const PER_SCAN: usize = 1000;

impl RedisBroker {
    pub(super) async fn delete_everything(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError> {
        let keys = Keys::new(queue);
        let is_known = self.knows(queue).await?;
        // Removes names and ids without a task from groups, also from groups that are missing from the set of groups.
        // No task is touched.
        if !self.for_each_slice(&keys, "g:", &CLEAR_GROUPS).await? {
            return Ok(QueueDeleted::NotEmpty);
        }
        if !is_known {
            // A call that broke off may have left the pause of a queue whose name is gone.
            self.step(&keys, &[keys.paused()], &DELETE_KEYS).await?;
            return Ok(QueueDeleted::NotFound);
        }
        if !self.for_each_slice(&keys, "", &DELETE_KEYS).await? {
            return Ok(QueueDeleted::NotEmpty);
        }
        self.router.send_one(Call::plain("SREM").arg(QUEUES).arg(queue.as_str())).await?;
        self.producer.names().forget(queue);
        // A client that enqueued in between takes the name for known, so the name is added again.
        // The pause goes with this look, so a queue that is left stays paused.
        if !self.step(&keys, &[keys.paused()], &DELETE_KEYS).await? {
            self.router.send_one(QueueNames::call([queue])).await?;
            return Ok(QueueDeleted::NotEmpty);
        }
        Ok(QueueDeleted::Done)
    }

    /// Runs a script, which clears or deletes keys, for the queue's keys that begin with `family`, slice by slice, while the queue has no
    /// task. Returns whether it has none.
    async fn for_each_slice(&self, keys: &Keys, family: &str, script: &'static Script) -> Result<bool, BrokerError> {
        let pattern = keys.pattern(family);
        let mut cursor = Some(BEGIN.to_owned());
        while let Some(at) = cursor {
            let (mut found, next) = self.router.scan(keys.prefix(), &at, &pattern, PER_SCAN).await?;
            cursor = next;
            found.retain(|key| is_its_own(keys, key));
            for slice in found.chunks(SLICE) {
                if !self.step(keys, slice, script).await? {
                    return Ok(false);
                }
            }
        }
        self.step(keys, &[], script).await
    }

    /// Runs such a script for some keys. Returns whether the queue has no task.
    async fn step(&self, keys: &Keys, names: &[String], script: &'static Script) -> Result<bool, BrokerError> {
        let mut all = keys.containers();
        all.push(keys.sets());
        all.extend_from_slice(names);
        let call = script.on(&all).arg(keys.prefix());
        loop {
            match reply::number(&self.router.send_one(call.clone()).await?) {
                Some(2) => {}
                answer => return Ok(answer == Some(1)),
            }
        }
    }
}

/// Returns whether the key is one of asynq's or of this program's that the walk deletes. Receipts stay, which the repeat of an
/// unanswered call needs, and so do entries of schedules with their pauses, which outlive the tasks of a queue; all of them expire
/// by themselves.
fn is_its_own(keys: &Keys, key: &str) -> bool {
    const NAMES: [&str; 12] = [
        "pending",
        "active",
        "lease",
        "scheduled",
        "retry",
        "archived",
        "completed",
        "groups",
        "aggregation_sets",
        "processed",
        "failed",
        "x:orphans",
    ];
    const FAMILIES: [&str; 6] = ["t:", "g:", "unique:", "processed:", "failed:", "x:"];
    const KEPT: [&str; 6] = ["x:sent:", "x:msg:", "x:moved:", "x:set:", "x:tick:", "x:cron:"];
    let Some(name) = key.strip_prefix(keys.prefix()) else { return false };
    let is_one_of = |families: &[&str]| families.iter().any(|family| name.starts_with(family));
    (NAMES.contains(&name) || is_one_of(&FAMILIES)) && !is_one_of(&KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_keys_receipts_and_entries_of_schedules_stay() {
        let keys = Keys::new(&QueueName::from_wire("q"));
        for (key, own) in [
            ("asynq:{q}:pending", true),
            ("asynq:{q}:t:id", true),
            ("asynq:{q}:g:G:set", true),
            ("asynq:{q}:unique:type:", true),
            ("asynq:{q}:failed:2030-01-01", true),
            ("asynq:{q}:x:due", true),
            ("asynq:{q}:paused", false),
            ("asynq:{q}:x:sent:c:0:1", false),
            ("asynq:{q}:x:msg:c:0:1:7:0", false),
            ("asynq:{q}:x:moved:id", false),
            ("asynq:{q}:x:cron:e", false),
            ("asynq:{q}:x:tick:e:7", false),
            ("asynq:{q}:rs:something", false),
            ("asynq:{q}:pending:more", false),
            ("asynq:{other}:pending", false),
        ] {
            assert_eq!(is_its_own(&keys, key), own, "{key}");
        }
    }
}

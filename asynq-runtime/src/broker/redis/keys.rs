//! Names every Redis key, byte for byte as asynq does (docs/design/wire.md), and our own under `x:`.

use chrono::{DateTime, Utc};

use super::super::{EntryId, ServerName};
use crate::task::{GroupName, QueueName, TaskState};

/// Set of queue names.
pub(super) const QUEUES: &str = "asynq:queues";
/// Matches groups, sets, `pending`, `scheduled` and `retry` of all queues in a scan, and few other keys.
pub(super) const GROUPS_AND_WAITING: &str = "asynq:{*}:[gpsr][:ec]*";
/// Matches tasks and unique locks of all queues in a scan, and few other keys.
pub(super) const TASKS_AND_LOCKS: &str = "asynq:{*}:[tu][:n]*";
/// Zset of servers that live.
pub(super) const SERVERS: &str = "asynq:servers";
/// Zset of the same servers' worker lists.
pub(super) const WORKERS: &str = "asynq:workers";
/// Zset of schedulers that live.
pub(super) const SCHEDULERS: &str = "asynq:schedulers";
/// Channel of cancel requests.
pub(super) const CANCEL: &str = "asynq:cancel";

/// The keys of one queue. They share the hash tag `{queue}`, so that a Cluster keeps them on one node.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(queue: &QueueName) -> Self {
        Self { prefix: format!("asynq:{{{queue}}}:") }
    }

    /// Returns the prefix of every key of the queue.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn key(&self, name: &str) -> String {
        [self.prefix.as_str(), name].concat()
    }

    /// List or zset of the ids in `state`; tasks in groups have none (see `groups`).
    pub(super) fn state(&self, state: TaskState) -> String {
        self.key(state.as_str())
    }

    /// Returns the keys that hold the tasks of a queue: pending, active, scheduled, retry, archived, completed, and the
    /// names of its groups.
    pub(super) fn containers(&self) -> Vec<String> {
        vec![
            self.pending(),
            self.active(),
            self.scheduled(),
            self.retry(),
            self.archived(),
            self.completed(),
            self.groups(),
        ]
    }

    /// Returns the keys that `places.lua` names, in its order.
    pub(super) fn places(&self) -> Vec<String> {
        vec![
            self.pending(),
            self.active(),
            self.lease(),
            self.scheduled(),
            self.retry(),
            self.archived(),
            self.completed(),
            self.due(),
            self.groups(),
            self.sets(),
        ]
    }

    /// Returns the pattern of a scan that matches the names that begin with `family`, whatever characters the queue's
    /// name has.
    pub(super) fn pattern(&self, family: &str) -> String {
        let mut pattern = String::with_capacity(self.prefix.len() + family.len() + 1);
        for c in self.prefix.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + family + "*"
    }

    /// Zset of the tasks that wait in a group.
    pub(super) fn group(&self, name: &GroupName) -> String {
        format!("{}g:{name}", self.prefix)
    }

    /// Zset of the tasks taken out of a group together.
    pub(super) fn set(&self, group: &GroupName, id: &str) -> String {
        format!("{}g:{group}:{id}", self.prefix)
    }

    pub(super) fn task(&self, id: &str) -> String {
        format!("{}t:{id}", self.prefix)
    }

    /// Counter of the UTC day of `at`.
    pub(super) fn processed_on(&self, at: DateTime<Utc>) -> String {
        format!("{}processed:{}", self.prefix, at.format("%Y-%m-%d"))
    }

    /// Counter of the UTC day of `at`.
    pub(super) fn failed_on(&self, at: DateTime<Utc>) -> String {
        format!("{}failed:{}", self.prefix, at.format("%Y-%m-%d"))
    }

    /// Ours: the move by which the task left or reached the queue, kept for an hour; or, after `back:`, the one that was given up
    /// here, kept for a week.
    pub(super) fn moved(&self, id: &str) -> String {
        format!("{}x:moved:{id}", self.prefix)
    }

    /// Ours: the answer to the last send of one slot of one client; kept for at least a minute.
    pub(super) fn sent(&self, slot: &str) -> String {
        format!("{}x:sent:{slot}", self.prefix)
    }

    /// Ours: the hash that brings the long message of item `item` of one send beside its script; kept for a minute if
    /// the script does not fetch it.
    pub(super) fn long_message(&self, slot: &str, number: u64, item: usize) -> String {
        format!("{}x:msg:{slot}:{number}:{item}", self.prefix)
    }

    /// Ours: the receipt of a set that was ended; kept for some minutes.
    pub(super) fn ended(&self, set: &str) -> String {
        format!("{}x:set:{set}", self.prefix)
    }

    /// Ours: the progress of a periodic entry; kept for as long as its plan says.
    pub(super) fn cron(&self, entry: &EntryId) -> String {
        format!("{}x:cron:{entry}", self.prefix)
    }

    /// Ours: the marker of an entry's tick at a Unix second that was fired; kept for as long as the tick says.
    pub(super) fn fired(&self, entry: &EntryId, at: i64) -> String {
        format!("{}x:tick:{entry}:{at}", self.prefix)
    }
}

/// Declares the keys of a queue that have a fixed name behind its prefix.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $key:literal;)*) => {
        impl Keys {
            $($(#[$doc])* pub(super) fn $name(&self) -> String {
                self.key($key)
            })*
        }
    };
}

named! {
    pending = "pending";
    active = "active";
    lease = "lease";
    scheduled = "scheduled";
    retry = "retry";
    archived = "archived";
    completed = "completed";
    paused = "paused";
    groups = "groups";
    /// Prefix of the names of groups and sets.
    group_prefix = "g:";
    /// Zset of the sets of all groups, by their deadlines.
    sets = "aggregation_sets";
    /// Prefix of the names of task hashes.
    task_prefix = "t:";
    processed = "processed";
    failed = "failed";
    /// Ours: exact due times in milliseconds; members `s:<id>` and `r:<id>`.
    due = "x:due";
    /// Ours: ids that had no task; kept for a week.
    orphans = "x:orphans";
    /// Ours: a key that is never written. While a cluster moves the slot of the queue, no node runs a script that
    /// declares a missing key. A script that finds keys by itself declares this one: it cannot tell a key that is on
    /// the other node from one that does not exist.
    absent = "x:absent";
}

/// Zset of the tokens that tasks hold. The key has no hash tag and lies on a node of its own.
pub(super) fn semaphore(scope: &str) -> String {
    format!("asynq:sema:{scope}")
}

/// Key of a server's `ServerInfo`.
pub(super) fn server_info(name: &ServerName) -> String {
    format!("asynq:servers:{{{name}}}")
}

/// Key of the tasks that a server runs.
pub(super) fn workers_info(name: &ServerName) -> String {
    format!("asynq:workers:{{{name}}}")
}

/// Key of the entries that a scheduler shows.
pub(super) fn scheduler_entries(scheduler: &str) -> String {
    format!("asynq:schedulers:{{{scheduler}}}")
}

/// Ours: key of the scheduler that leads those of a program, with its revision.
pub(super) fn leader(program: &str) -> String {
    format!("asynq:x:leader:{program}")
}

/// Ours: key of the revision of a newer version of a program that would lead.
pub(super) fn leader_want(program: &str) -> String {
    format!("asynq:x:leader-want:{program}")
}

/// Ours: key of a shape of a job's arguments; in a cluster each may lie on another node. The fingerprint has eight hexadecimal
/// digits; `json` stands for no fingerprint.
pub(super) fn shape(job: &str, fingerprint: Option<u32>) -> String {
    match fingerprint {
        Some(fingerprint) => format!("asynq:x:shape:{fingerprint:08x}:{job}"),
        None => format!("asynq:x:shape:json:{job}"),
    }
}

/// Key of an entry's enqueues. The key has no hash tag and lies on a node of its own.
pub(super) fn scheduler_history(entry: &str) -> String {
    format!("asynq:scheduler_history:{entry}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_byte_equal_to_the_one_go_uses() {
        let keys = Keys::new(&QueueName::from_wire("default"));
        let name = ServerName { host: "h".into(), pid: 7, server_id: "S".into() };
        let group = GroupName::from_wire("G");
        let at: DateTime<Utc> = "2030-01-02T23:30:00-05:00".parse().unwrap();
        // vectors/pure_key_names.json
        for (ours, golden) in [
            (keys.active(), "asynq:{default}:active"),
            (keys.archived(), "asynq:{default}:archived"),
            (CANCEL.to_owned(), "asynq:cancel"),
            (keys.completed(), "asynq:{default}:completed"),
            (keys.failed_on(at), "asynq:{default}:failed:2030-01-03"),
            (keys.failed(), "asynq:{default}:failed"),
            (keys.sets(), "asynq:{default}:aggregation_sets"),
            (keys.group(&group), "asynq:{default}:g:G"),
            (keys.set(&group, "SETID"), "asynq:{default}:g:G:SETID"),
            (keys.groups(), "asynq:{default}:groups"),
            (keys.lease(), "asynq:{default}:lease"),
            (keys.paused(), "asynq:{default}:paused"),
            (keys.pending(), "asynq:{default}:pending"),
            (keys.processed_on(at), "asynq:{default}:processed:2030-01-03"),
            (keys.processed(), "asynq:{default}:processed"),
            (QUEUES.to_owned(), "asynq:queues"),
            (keys.retry(), "asynq:{default}:retry"),
            (keys.scheduled(), "asynq:{default}:scheduled"),
            (server_info(&name), "asynq:servers:{h:7:S}"),
            (SERVERS.to_owned(), "asynq:servers"),
            (keys.task("ID"), "asynq:{default}:t:ID"),
            (WORKERS.to_owned(), "asynq:workers"),
            (workers_info(&name), "asynq:workers:{h:7:S}"),
            (SCHEDULERS.to_owned(), "asynq:schedulers"),
            (scheduler_entries("SID"), "asynq:schedulers:{SID}"),
            (scheduler_history("EID"), "asynq:scheduler_history:EID"),
        ] {
            assert_eq!(ours, golden);
        }
    }

    #[test]
    fn our_own_keys_are_under_x_with_the_hash_tag_of_the_queue() {
        let keys = Keys::new(&QueueName::from_wire("a:b"));
        let entry = EntryId::from_wire("e");
        let entry = [keys.cron(&entry), keys.fired(&entry, 7)];
        let others = [
            keys.due(),
            keys.orphans(),
            keys.absent(),
            keys.sent("c:0:1"),
            keys.long_message("c:0:1", 7, 0),
            keys.ended("id"),
            keys.moved("t1"),
        ];
        for key in others.into_iter().chain(entry) {
            assert!(key.starts_with("asynq:{a:b}:x:"), "{key}");
        }
        assert_eq!(keys.task_prefix() + "id", keys.task("id"));
        assert_eq!(keys.group_prefix() + "g", keys.group(&GroupName::from_wire("g")));
        assert_eq!(keys.pattern("unique:"), "asynq:{a:b}:unique:*");
        let strange = Keys::new(&QueueName::from_wire("a*[b]?\\"));
        assert_eq!(strange.pattern("unique:"), r"asynq:{a\*\[b\]\?\\}:unique:*");
        assert_eq!(semaphore("mail"), "asynq:sema:mail");
        assert_eq!(shape("mail:send", Some(0xab)), "asynq:x:shape:000000ab:mail:send");
        assert_eq!(shape("mail:send", None), "asynq:x:shape:json:mail:send");
    }
}

//! A Go program on the same Redis, reduced to the commands that it sends.

use std::fmt;

use ::redis::{FromRedisValue, from_redis_value};
use asynq_runtime::task::TaskMessage;
use bytes::Bytes;

use crate::redis::Commands;

/// asynq's own commands on the default queue, at times that the test passes.
pub struct GoPeer<'a> {
    store: &'a dyn Commands,
}

impl fmt::Debug for GoPeer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoPeer")
    }
}

const PENDING: &str = "asynq:{default}:pending";
const ACTIVE: &str = "asynq:{default}:active";
const COMPLETED: &str = "asynq:{default}:completed";
const LEASE: &str = "asynq:{default}:lease";
const RETRY: &str = "asynq:{default}:retry";
const GROUPS: &str = "asynq:{default}:groups";
const SETS: &str = "asynq:{default}:aggregation_sets";
const SCHEDULED: &str = "asynq:{default}:scheduled";

impl<'a> GoPeer<'a> {
    pub(crate) fn new(store: &'a dyn Commands) -> Self {
        Self { store }
    }

    fn command<T: FromRedisValue>(&self, words: &[&[u8]]) -> T {
        from_redis_value(self.store.run(words)).unwrap()
    }

    fn int(&self, words: &[&str]) -> i64 {
        self.command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    fn task(id: &str) -> String {
        format!("asynq:{{default}}:t:{id}")
    }

    /// Puts a task into pending at `now_ns`.
    pub fn enqueue(&self, message: &TaskMessage, now_ns: i64) {
        let key = Self::task(&message.id);
        self.int(&["SADD", "asynq:queues", "default"]);
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &message.encode()]);
        self.int(&["HSET", &key, "state", "pending", "pending_since", &now_ns.to_string()]);
        self.int(&["LPUSH", PENDING, &message.id]);
    }

    /// Schedules a task for a whole second.
    pub fn schedule(&self, message: &TaskMessage, at: i64) {
        let key = Self::task(&message.id);
        self.int(&["SADD", "asynq:queues", "default"]);
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &message.encode(), b"state", b"scheduled"]);
        self.int(&["ZADD", SCHEDULED, &at.to_string(), &message.id]);
    }

    /// Takes the oldest task with a lease until `lease_until` and returns its id.
    pub fn dequeue(&self, lease_until: i64) -> String {
        let id: String = self.command(&[b"RPOPLPUSH", PENDING.as_bytes(), ACTIVE.as_bytes()]);
        self.int(&["HSET", &Self::task(&id), "state", "active"]);
        self.int(&["HDEL", &Self::task(&id), "pending_since"]);
        self.int(&["ZADD", LEASE, &lease_until.to_string(), &id]);
        id
    }

    /// Ends a run as done, no matter which server holds it.
    pub fn done(&self, id: &str) {
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["DEL", &Self::task(id)]);
    }

    /// Ends a run as a success that is kept until `expiry` in Unix seconds, no matter which server holds it.
    pub fn complete(&self, message: &TaskMessage, now: i64, expiry: i64) {
        let (id, key) = (&message.id, Self::task(&message.id));
        let stored = TaskMessage { completed_at: now, ..message.clone() };
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["ZADD", COMPLETED, &expiry.to_string(), id]);
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &stored.encode(), b"state", b"completed"]);
    }

    /// Requeues a run at the head of pending, no matter which server holds it.
    pub fn requeue(&self, id: &str) {
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["RPUSH", PENDING, id]);
        self.int(&["HSET", &Self::task(id), "state", "pending"]);
    }

    /// Recovers a task as Go does: the run failed because its lease expired, and the task is due again at `at`.
    pub fn recover(&self, id: &str, at: i64) {
        self.retry(id, at, "asynq: task lease expired");
    }

    /// Ends a run as a failure whose task is due again at `at`, no matter which server holds it.
    pub fn fail(&self, id: &str, at: i64) {
        self.retry(id, at, "boom");
    }

    fn retry(&self, id: &str, at: i64, error: &str) {
        let key = Self::task(id);
        let raw: Vec<u8> = self.command(&[b"HGET", key.as_bytes(), b"msg"]);
        let mut message = TaskMessage::decode(Bytes::from(raw)).expect("a readable message");
        message.retried += 1;
        message.error_msg = error.into();
        message.last_failed_at = at;
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["ZADD", RETRY, &at.to_string(), id]);
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &message.encode(), b"state", b"retry"]);
    }

    /// Forwards one task of `retry` to pending as Go does.
    pub fn forward(&self, id: &str, now_ns: i64) {
        self.int(&["LPUSH", PENDING, id]);
        assert_eq!(self.int(&["ZREM", RETRY, id]), 1);
        self.int(&["HSET", &Self::task(id), "state", "pending", "pending_since", &now_ns.to_string()]);
    }

    /// Extends a lease as Go's heartbeat does: without a check that the lease is still its own.
    pub fn extend(&self, id: &str, lease_until: i64) {
        self.int(&["ZADD", LEASE, "XX", &lease_until.to_string(), id]);
    }

    /// Puts a task into the group that its message names, at the second `at`. With `lock_seconds` the task holds the lock of
    /// its message; asynq writes no field about that lock.
    pub fn add_to_group(&self, message: &TaskMessage, at: i64, lock_seconds: Option<i64>) {
        let (key, group) = (Self::task(&message.id), message.group_key.as_str());
        self.int(&["SADD", "asynq:queues", "default"]);
        if let Some(seconds) = lock_seconds {
            let words = ["SET", &message.unique_key, &message.id, "NX", "EX", &seconds.to_string()];
            self.command::<()>(&words.map(str::as_bytes));
        }
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &message.encode()]);
        self.int(&["HSET", &key, "state", "aggregating", "group", group]);
        self.int(&["ZADD", &Self::group(group), &at.to_string(), &message.id]);
        self.int(&["SADD", GROUPS, group]);
    }

    fn group(name: &str) -> String {
        format!("asynq:{{default}}:g:{name}")
    }

    /// Takes every task that waits in a group as a set until `deadline` and returns the set's key.
    pub fn aggregation_check(&self, group: &str, deadline: i64) -> String {
        let set = format!("{}:{}", Self::group(group), "8e99094e-15f2-4d47-8e44-723a25eb3551");
        self.int(&["ZUNIONSTORE", &set, "1", &Self::group(group)]);
        self.int(&["DEL", &Self::group(group)]);
        self.int(&["ZADD", SETS, &deadline.to_string(), &set]);
        self.int(&["SREM", GROUPS, group]);
        set
    }

    /// Puts every set whose deadline has passed at the second `now` back to its group, and leaves the tasks' states as they are.
    pub fn reclaim(&self, now: i64) {
        let sets: Vec<String> = self.command(&[b"ZRANGEBYSCORE", SETS.as_bytes(), b"-inf", now.to_string().as_bytes()]);
        for set in sets {
            let (group, _) = set.rsplit_once(':').expect("a set's key ends with its id");
            self.int(&["ZUNIONSTORE", group, "2", group, &set]);
            self.int(&["DEL", &set]);
            self.int(&["ZREM", SETS, &set]);
        }
    }

    /// Deletes a set with the hashes of its tasks.
    pub fn delete_set(&self, set: &str) {
        for id in self.command::<Vec<String>>(&[b"ZRANGE", set.as_bytes(), b"0", b"-1"]) {
            self.int(&["DEL", &Self::task(&id)]);
        }
        self.int(&["DEL", set]);
        self.int(&["ZREM", SETS, set]);
    }

    /// The key of the only set.
    pub fn set(&self) -> String {
        let mut sets: Vec<String> = self.command(&[b"ZRANGE", SETS.as_bytes(), b"0", b"-1"]);
        assert_eq!(sets.len(), 1, "{sets:?}");
        sets.remove(0)
    }

    /// Deletes the deadlines of all sets, as an eviction would.
    pub fn lose_deadlines(&self) {
        self.int(&["DEL", SETS]);
    }

    /// Forwards one task of `scheduled` at the second `now` as Go does: to the group that its hash names in `group`, or else to
    /// pending.
    pub fn forward_scheduled(&self, id: &str, now: i64) {
        let key = Self::task(id);
        let group: Option<String> = self.command(&[b"HGET", key.as_bytes(), b"group"]);
        assert_eq!(self.int(&["ZREM", SCHEDULED, id]), 1);
        if let Some(group) = group {
            self.int(&["ZADD", &Self::group(&group), &now.to_string(), id]);
            self.int(&["HSET", &key, "state", "aggregating"]);
        } else {
            self.int(&["LPUSH", PENDING, id]);
            self.int(&["HSET", &key, "state", "pending", "pending_since", &format!("{now}000000000")]);
        }
    }

    /// Makes a delayed task with a group one of an earlier version of ours, which named the group in `group` from the beginning.
    pub fn name_group_early(&self, id: &str, group: &str) {
        let key = Self::task(id);
        assert_eq!(self.int(&["HDEL", &key, "joins"]), 1);
        self.int(&["HSET", &key, "group", group]);
    }

    /// Makes the count of a task's crashes one of an earlier version of ours, which did not keep `retried` beside it.
    pub fn count_crashes_early(&self, id: &str) {
        assert_eq!(self.int(&["HDEL", &Self::task(id), "crashes_retried"]), 1);
    }

    /// Asks for a token of Go's `x/rate` until the second `deadline`, as its script does.
    pub fn acquire_token(&self, scope: &str, max: i64, task: &str, now: i64, deadline: i64) -> bool {
        let key = format!("asynq:sema:{scope}");
        self.int(&["ZREMRANGEBYSCORE", &key, "-inf", &(now - 1).to_string()]);
        self.int(&["ZCARD", &key]) < max && self.int(&["ZADD", &key, &deadline.to_string(), task]) >= 0
    }

    /// Gives a token of Go's `x/rate` back and returns whether it was held.
    pub fn release_token(&self, scope: &str, task: &str) -> bool {
        self.int(&["ZREM", &format!("asynq:sema:{scope}"), task]) == 1
    }

    /// Stops half-way: removes the id from a place of the default queue (`pending`, `active`, `retry` …) and adds it to no other.
    pub fn break_off(&self, place: &str, id: &str) {
        let key = format!("asynq:{{default}}:{place}");
        let gone = if matches!(place, "pending" | "active") {
            self.int(&["LREM", &key, "0", id])
        } else {
            self.int(&["ZREM", &key, id])
        };
        assert_eq!(gone, 1, "{id} was in {place}");
    }

    /// Runs a task of `archived` or another such place as Go's tools do: its state and its place change, and nothing else of it.
    pub fn run(&self, place: &str, id: &str) {
        self.break_off(place, id);
        // A worker may take the task as soon as it is in the list. Go does all of this in one script.
        self.int(&["HSET", &Self::task(id), "state", "pending"]);
        self.int(&["LPUSH", PENDING, id]);
    }

    /// Adds a lease until the second `until` for a task that is not active.
    pub fn lease(&self, id: &str, until: i64) {
        self.int(&["ZADD", LEASE, &until.to_string(), id]);
    }

    /// Puts a text where a place of the default queue should be.
    pub fn put_text(&self, place: &str) {
        self.put_text_at(&format!("asynq:{{default}}:{place}"));
    }

    /// Puts a text where a key should hold something else.
    pub fn put_text_at(&self, key: &str) {
        self.command::<String>(&[b"SET", key.as_bytes(), b"rubbish"]);
    }

    /// Whether a key exists.
    pub fn exists(&self, key: &str) -> bool {
        self.int(&["EXISTS", key]) == 1
    }
}

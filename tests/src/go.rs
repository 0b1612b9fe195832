//! A Go program on the same Redis, as far as its commands go (PROTOCOL §5; asynq fences nothing).

use std::fmt;

use ::redis::{FromRedisValue, from_redis_value};
use asynq_runtime::task::TaskMessage;
use bytes::Bytes;

use crate::redis::Commands;

/// asynq's own way with the default queue, by its own clock.
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
const LEASE: &str = "asynq:{default}:lease";
const RETRY: &str = "asynq:{default}:retry";
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

    /// Takes the oldest task with a lease until `lease_until`; says its id.
    pub fn dequeue(&self, lease_until: i64) -> String {
        let id: String = self.command(&[b"RPOPLPUSH", PENDING.as_bytes(), ACTIVE.as_bytes()]);
        self.int(&["HSET", &Self::task(&id), "state", "active"]);
        self.int(&["HDEL", &Self::task(&id), "pending_since"]);
        self.int(&["ZADD", LEASE, &lease_until.to_string(), &id]);
        id
    }

    /// Ends a run as done, whoever's it is.
    pub fn done(&self, id: &str) {
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["DEL", &Self::task(id)]);
    }

    /// Puts a run back to the head of pending, whoever's it is.
    pub fn requeue(&self, id: &str) {
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["RPUSH", PENDING, id]);
        self.int(&["HSET", &Self::task(id), "state", "pending"]);
    }

    /// Its recoverer: the run failed because its lease expired; it is due again at `at`.
    pub fn recover(&self, id: &str, at: i64) {
        let key = Self::task(id);
        let raw: Vec<u8> = self.command(&[b"HGET", key.as_bytes(), b"msg"]);
        let mut message = TaskMessage::decode(Bytes::from(raw)).expect("a readable message");
        message.retried += 1;
        message.error_msg = "asynq: task lease expired".into();
        message.last_failed_at = at;
        assert_eq!(self.int(&["LREM", ACTIVE, "0", id]), 1);
        assert_eq!(self.int(&["ZREM", LEASE, id]), 1);
        self.int(&["ZADD", RETRY, &at.to_string(), id]);
        self.command::<i64>(&[b"HSET", key.as_bytes(), b"msg", &message.encode(), b"state", b"retry"]);
    }

    /// Its forwarder moves one task of `retry` to pending.
    pub fn forward(&self, id: &str, now_ns: i64) {
        self.int(&["LPUSH", PENDING, id]);
        assert_eq!(self.int(&["ZREM", RETRY, id]), 1);
        self.int(&["HSET", &Self::task(id), "state", "pending", "pending_since", &now_ns.to_string()]);
    }

    /// Its heartbeat extends a lease that it believes to be its own.
    pub fn extend(&self, id: &str, lease_until: i64) {
        self.int(&["ZADD", LEASE, "XX", &lease_until.to_string(), id]);
    }
}

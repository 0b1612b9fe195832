//! Private servers per fixture, and the ways around the contract into them, common to all topologies of Redis.

mod cluster;
mod pool;
mod sentinel;
mod tls;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::redis::{Commands as _, Connection, FromRedisValue, Pipeline, from_redis_value};
use asynq_runtime::{
    broker::Broker,
    clock::Clock,
    task::{QueueName, TaskId},
};
use chrono::{DateTime, Utc};

pub use self::{
    cluster::RedisCluster,
    pool::Lent,
    sentinel::SentinelServers,
    tls::{Authority, Signed, TlsServer},
};
use crate::{GoPeer, Need, Persistence, RedisServer, Store, patient};

/// The servers that together are one store, lent by a pool to one test after another.
pub trait Servers: Sized + fmt::Debug + Send + Sync + 'static {
    /// The name of the servers in the output of tests.
    const NAME: &'static str;
    /// See [`Store::GAPS`].
    const GAPS: &'static [(Need, &'static str)] = &[LIVENESS];

    /// The servers that are not lent now.
    fn pool() -> &'static Mutex<Vec<Self>>;
    /// Starts servers for one more test.
    fn start() -> Self;
    /// The URL for a program to connect to with this login.
    fn url_as(&self, login: &str) -> String;
    /// The test's connections to all servers that keep data.
    fn all(&self) -> Vec<Connection>;
    /// The connections of the test itself: one to each master.
    fn connections(&self) -> Vec<Connection> {
        self.all()
    }
    /// The index of the connection, of those that [`connections`](Self::connections) has made, whose master keeps `key`.
    fn place(&self, key: &[u8], connections: &mut [Connection]) -> usize {
        let _ = (key, connections);
        0
    }
}

/// The need that no Redis can meet.
const LIVENESS: (Need, &str) =
    (Need::LivenessLock, "only an expired lease shows that a server on another machine is dead");

/// Runs commands around the contract.
pub(crate) trait Commands {
    /// Runs one command on the master of its first key.
    fn run(&self, words: &[&[u8]]) -> ::redis::Value;
}

static POOL: Mutex<Vec<RedisServer>> = Mutex::new(Vec::new());

impl Servers for RedisServer {
    const NAME: &'static str = "redis";

    fn pool() -> &'static Mutex<Vec<Self>> {
        &POOL
    }

    fn start() -> Self {
        Self::start(Persistence::None)
    }

    fn url_as(&self, login: &str) -> String {
        format!("redis://{login}@127.0.0.1:{}/0", self.port())
    }

    fn all(&self) -> Vec<Connection> {
        vec![self.connection()]
    }
}

/// One key with all its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Dumped {
    /// The key's type, in Redis's word.
    pub kind: String,
    /// Milliseconds until the key ends by itself, -1 if it does not.
    pub pttl: i64,
    /// The Unix second at which the key ends by itself, -1 if it does not.
    pub expire_at: i64,
    /// The data as text pieces: a string's one value, a list from its head, a set's members sorted, a sorted set's members with
    /// scores, a hash's fields with values.
    pub value: Value,
}

/// The data of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list, head first.
    List(Vec<Vec<u8>>),
    /// A set.
    Set(Vec<Vec<u8>>),
    /// A sorted set, ascending.
    Zset(Vec<(Vec<u8>, String)>),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

impl Value {
    /// Reads the answer of Redis for a key of this type.
    fn read(kind: &str, answer: ::redis::Value) -> Self {
        match kind {
            "string" => Self::String(from_redis_value(answer).unwrap()),
            "list" => Self::List(from_redis_value(answer).unwrap()),
            "set" => {
                let mut members: Vec<Vec<u8>> = from_redis_value(answer).unwrap();
                members.sort();
                Self::Set(members)
            }
            "zset" => Self::Zset(from_redis_value(answer).unwrap()),
            _ => Self::Hash(from_redis_value(answer).unwrap()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let items = |items: &[Vec<u8>]| items.iter().map(|item| text(item)).collect::<Vec<_>>();
        let pieces = match self {
            Self::String(value) => vec![text(value)],
            Self::List(list) | Self::Set(list) => items(list),
            Self::Zset(members) => members.iter().map(|(member, score)| format!("{}: {score}", text(member))).collect(),
            Self::Hash(fields) => {
                fields.iter().map(|(field, value)| format!("{}: {}", text(field), text(value))).collect()
            }
        };
        f.write_str(&pieces.join(" | "))
    }
}

/// A single redis-server as a [`Store`].
pub type RedisStore = StoreOn<RedisServer>;

/// Redis as a [`Store`], in any topology.
pub struct StoreOn<S: Servers> {
    server: Lent<S>,
    connections: Mutex<Vec<Connection>>,
}

impl<S: Servers> fmt::Debug for StoreOn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOn").field("server", &self.server).finish_non_exhaustive()
    }
}

impl<S: Servers> StoreOn<S> {
    /// The servers of this store.
    pub fn server(&self) -> &S {
        &self.server
    }

    /// Runs one command around the contract.
    pub fn command<T: FromRedisValue>(&self, words: &[&[u8]]) -> T {
        from_redis_value(self.run(words)).unwrap()
    }

    /// Every key.
    pub fn keys(&self) -> BTreeMap<String, Dumped> {
        let mut keys = BTreeMap::new();
        self.each(|connection, names| keys.extend(dump_keys(connection, names)));
        keys
    }

    /// Calls `work` with every connection and the names of the keys there.
    fn each(&self, mut work: impl FnMut(&mut Connection, Vec<String>)) {
        for connection in self.lock().iter_mut() {
            let names: Vec<String> = connection.keys("*").unwrap();
            work(connection, names);
        }
    }

    fn at<T>(&self, key: &str, work: impl FnOnce(&mut Connection) -> T) -> T {
        let mut connections = self.lock();
        let place = self.server.place(key.as_bytes(), &mut connections);
        work(&mut connections[place])
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Servers> Commands for StoreOn<S> {
    fn run(&self, words: &[&[u8]]) -> ::redis::Value {
        let mut command = ::redis::cmd(std::str::from_utf8(words[0]).unwrap());
        for word in &words[1..] {
            command.arg(*word);
        }
        let mut connections = self.lock();
        let place = words.get(1).map_or(0, |key| self.server.place(key, &mut connections));
        command.query(&mut connections[place]).unwrap()
    }
}

/// The keys with their data, in two round trips: of the types and of the values.
fn dump_keys(c: &mut Connection, names: Vec<String>) -> Vec<(String, Dumped)> {
    let mut kinds = ::redis::pipe();
    for name in &names {
        kinds.cmd("TYPE").arg(name).cmd("PTTL").arg(name).cmd("EXPIRETIME").arg(name);
    }
    let kinds: Vec<(String, i64, i64)> = answers(&kinds, c);
    // A key that has ended since its name was read has the type "none".
    let kept: Vec<_> = names.into_iter().zip(kinds).filter(|(_, (kind, ..))| kind != "none").collect();
    let mut values = ::redis::pipe();
    for (name, (kind, ..)) in &kept {
        match kind.as_str() {
            "string" => values.get(name),
            "list" => values.lrange(name, 0, -1),
            "set" => values.smembers(name),
            "zset" => values.zrange_withscores(name, 0, -1),
            "hash" => values.hgetall(name),
            other => panic!("{name} has the type {other}, which no asynq program writes"),
        };
    }
    let kept =
        kept.into_iter().zip(answers::<::redis::Value>(&values, c)).map(|((name, (kind, pttl, expire_at)), value)| {
            let value = Value::read(&kind, value);
            (name, Dumped { kind, pttl, expire_at, value })
        });
    kept.collect()
}

/// The answers to all commands. The client refuses to send a pipeline without any.
fn answers<T: FromRedisValue>(commands: &Pipeline, c: &mut Connection) -> Vec<T> {
    if commands.is_empty() { Vec::new() } else { commands.query(c).unwrap() }
}

fn task_key(queue: &QueueName, id: &TaskId) -> String {
    format!("asynq:{{{queue}}}:t:{id}")
}

impl<S: Servers> Store for StoreOn<S> {
    const KIND: &'static str = "redis";
    const NAME: &'static str = S::NAME;
    const GAPS: &'static [(Need, &'static str)] = S::GAPS;

    async fn start() -> Self {
        let server = Lent::<S>::take();
        let connections = Mutex::new(server.connections());
        Self { server, connections }
    }

    fn url(&self) -> String {
        self.server.url_as(&self.server.login())
    }

    async fn connect(&self, clock: Option<Arc<dyn Clock>>) -> Arc<dyn Broker> {
        patient::broker(&self.url(), clock).await
    }

    fn dump(&self) -> String {
        let presence = ["asynq:servers", "asynq:workers"];
        // Receipts, by which a repeated call recognises its first send, are our own and end by themselves.
        let receipt = |name: &str, dumped: &Dumped| name.contains("}:x:") && dumped.pttl >= 0;
        let is_included = |(name, dumped): &(String, Dumped)| {
            !presence.iter().any(|prefix| name.starts_with(prefix)) && !receipt(name, dumped)
        };
        self.keys()
            .into_iter()
            .filter(is_included)
            .map(|(name, dumped)| format!("{name} = {}\n", dumped.value))
            .collect()
    }

    fn overwrite_message(&self, queue: &QueueName, id: &TaskId, bytes: &[u8]) {
        let key = task_key(queue, id);
        let new: i64 = self.at(&key, |connection| connection.hset(&key, "msg", bytes)).unwrap();
        assert_eq!(new, 0, "the task existed");
    }

    fn lose_message(&self, queue: &QueueName, id: &TaskId) {
        let key = task_key(queue, id);
        let lost: i64 = self.at(&key, |connection| connection.hdel(&key, "msg")).unwrap();
        assert_eq!(lost, 1, "the task existed");
    }

    fn age(&self, by: Duration, now: DateTime<Utc>) {
        let by = i64::try_from(by.as_millis()).unwrap();
        // A counter of a day ends at an instant of the calendar, which is the manual clock's, and not after a span.
        let calendar = (now - Utc::now()).num_milliseconds();
        self.each(|connection, keys| {
            let mut left = ::redis::pipe();
            for key in &keys {
                left.pttl(key);
            }
            let left: Vec<i64> = answers(&left, connection);
            let mut changes = ::redis::pipe();
            for (key, left) in keys.iter().zip(left) {
                let is_counter = key.contains(":processed:") || key.contains(":failed:");
                if left >= 0 && is_counter && left <= calendar {
                    changes.del(key);
                } else if left >= 0 && !is_counter {
                    changes.pexpire(key, (left - by).max(0));
                }
            }
            let _: Vec<i64> = answers(&changes, connection);
        });
    }

    fn locks(&self, queue: &QueueName, _: DateTime<Utc>) -> BTreeMap<String, String> {
        let prefix = format!("asynq:{{{queue}}}:unique:");
        let mut locks = BTreeMap::new();
        self.each(|connection, keys| {
            for key in keys.into_iter().filter(|key| key.starts_with(&prefix)) {
                let holder: Option<String> = connection.get(&key).unwrap();
                locks.extend(holder.map(|holder| (key, holder)));
            }
        });
        locks
    }

    fn make_ghost(&self, queue: &QueueName, id: &TaskId) {
        let key = task_key(queue, id);
        let gone: i64 = self.at(&key, |connection| connection.del(&key)).unwrap();
        assert_eq!(gone, 1, "the task existed");
    }

    fn list_as_expired(&self, queue: &QueueName, id: &TaskId) {
        let key = format!("asynq:{{{queue}}}:completed");
        let new: i64 = self.at(&key, |connection| connection.zadd(&key, id.as_str(), 0)).unwrap();
        assert_eq!(new, 1, "the task was elsewhere");
    }

    fn leave_lock(&self, _: &QueueName, key: &str, id: &TaskId, until: DateTime<Utc>) {
        let at = u64::try_from(until.timestamp()).unwrap();
        let options = ::redis::SetOptions::default().with_expiration(::redis::SetExpiry::EXAT(at));
        self.at(key, |connection| connection.set_options::<_, _, ()>(key, id.as_str(), options)).unwrap();
    }

    fn lose_lease(&self, queue: &QueueName, id: &TaskId) {
        let key = format!("asynq:{{{queue}}}:lease");
        let gone: i64 = self.at(&key, |connection| connection.zrem(&key, id.as_str())).unwrap();
        assert_eq!(gone, 1, "the task had a lease");
    }

    fn go(&self) -> Option<GoPeer<'_>> {
        Some(GoPeer::new(self))
    }
}

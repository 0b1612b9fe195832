//! The Redis broker: asynq's own keys, one script per step and queue, 64 tasks per script.

mod await_end;
mod back_off;
mod caller_driven;
mod cancel;
mod chunk;
mod clock;
#[cfg(feature = "cluster")]
mod cluster;
mod commit;
mod connection;
mod connection_manager;
mod connection_state;
mod consume;
mod dedicated;
mod dequeue_room;
mod diagnose;
mod durability;
mod effect;
mod eviction_policy;
mod evictions;
#[cfg(test)]
mod fake_server;
mod groups;
mod hold;
mod identity;
mod inspect;
mod io;
mod item;
mod jitter;
mod key_waiters;
mod keys;
mod last_look;
mod maintain;
mod missing_command;
mod name_watch;
mod open_connection;
mod pipelined;
mod presence;
mod produce;
mod quarantine;
mod queue_names;
mod repair;
mod reply;
mod role;
mod router;
mod schedule;
mod script;
mod seen;
mod semaphore;
#[cfg(feature = "sentinel")]
mod sentinel;
mod settle;
mod shapes;
#[cfg(feature = "cluster")]
mod slots;
mod socket;
mod span;
mod tls;
#[cfg(feature = "cluster")]
mod topology;
mod unanswered;
mod url;
mod waits;
mod wake;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use redis::ToRedisArgs;

pub use self::durability::Durability;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use self::url::Endpoints;
use self::{
    caller_driven::Purpose,
    clock::BrokerClock,
    dedicated::DedicatedConnection,
    dequeue_room::DequeueRoom,
    eviction_policy::EvictionPolicy,
    evictions::Evictions,
    hold::Hold,
    io::Io,
    keys::Keys,
    last_look::LastLooks,
    name_watch::NameWatch,
    produce::Producer,
    quarantine::PassedQuarantine,
    role::{At, Role},
    router::Router,
    script::{Call, Script},
    unanswered::UnansweredDequeues,
    url::Target,
    wake::Wake,
};
use super::{Broker, BrokerError, ServerName, StoredShapes, config};
use crate::{clock::Clock, task::QueueName, thread::Thread};

/// Tasks in one Redis, version 6.2 or newer, readable and writable by every asynq program at the same time.
///
/// All I/O happens on a thread of the broker, or of the server that opened the broker. No job runs on that thread. A
/// thread of the broker's own ends when the broker is dropped. There are two exceptions: a caller that enqueues task by
/// task, and a server that fetches tasks, use connections that belong to their own runtime and that their own tasks
/// drive, so that no other thread is woken.
///
/// Calls may come from any Tokio runtime with its time and I/O drivers enabled, as `#[tokio::main]` and `enable_all` have
/// them.
pub struct RedisBroker {
    /// The role of a further connection of this broker.
    role: Role,
    lease: Duration,
    clock: Arc<BrokerClock>,
    router: Router,
    /// Carries the reads of inspectors, and the list of servers, which a server with limits of archives or with a lease below 30 s
    /// reads once, too. The names of queues, groups and the entries of schedulers go by `router`: servers and schedulers read these
    /// as long as they run. A long page delays only other reads, and its time-out does not close the worker's connection.
    looking: OnceLock<Router>,
    wake: OnceLock<Wake>,
    producer: Producer,
    /// Connection on which the fetcher of a server takes tasks. A fetcher calls often, so its first call opens the
    /// connection.
    fetching: Option<DedicatedConnection>,
    waiting: Option<DedicatedConnection>,
    unanswered: UnansweredDequeues,
    room: DequeueRoom,
    passed: PassedQuarantine,
    /// Where the next sweep of each queue goes on, counted from the tails of `active` and of `pending`; none where it begins anew.
    sweeps: Mutex<HashMap<QueueName, (usize, usize)>>,
    looks: LastLooks,
    /// `None` if the options allow a Redis that may evict keys.
    eviction_policy: Option<EvictionPolicy>,
    evictions: Evictions,
    /// The cursor of the search for lost groups, by address of the Redis server; `None` where it begins anew.
    searches: Mutex<HashMap<String, Option<String>>>,
    hold: Mutex<Hold>,
    /// The stable part of the `ServerInfo` of each server of this broker, as Redis has it.
    announced: Mutex<HashMap<ServerName, Vec<u8>>>,
    /// Number of live servers at the last beat, at least 1.
    servers: AtomicUsize,
    /// Whether this endpoint stands before several servers: it has refused a script on keys of several slots.
    is_sharded: AtomicBool,
    stored_shapes: StoredShapes,
    io: Io,
}

/// Options of a Redis broker; the defaults suit production.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedisOptions {
    /// Replaces Redis's own `TIME`; for tests. Default: none.
    pub clock: Option<Arc<dyn Clock>>,
    /// Longest silence before an answer, and longest wait for a connection while there is none. Default: 3 s, as long
    /// as go-redis waits. While bytes move, the call waits up to 20 times as long, because a large task takes long on a
    /// slow connection. `?timeout=3s` in the URL takes precedence.
    pub call_timeout: Duration,
    /// Longest attempt to connect, from the lookup of the name to Redis's answer to the login; one attempt follows
    /// another. Default: 5 s. `?connect_timeout=5s` in the URL takes precedence.
    pub connect_timeout: Duration,
    /// Time for which a dequeued task belongs to its worker unless the worker extends it; whole seconds, at least 2. Up
    /// to one second is lost to rounding, because asynq stores the Unix second at which a lease ends. Default: 30 s,
    /// which Go servers on the same queues expect as well: they recover, by their own clocks, tasks whose lease ended
    /// 30 s ago. A shorter lease requeues the tasks of a dead worker sooner; [`join`](super::Presence::join) refuses it
    /// while a Go server is listed. `?lease=10s` in the URL takes precedence.
    pub lease: Duration,
    /// Whether to use a Redis that may evict keys when its memory is full (any `maxmemory-policy` but `noeviction`),
    /// which loses tasks or their locks. Default: no; a server that has connected anew warns of such a Redis and goes on.
    /// `?allow_eviction=true` in the URL takes precedence.
    pub allow_eviction: bool,
    /// How safe a task is when its enqueue returns. Default: as Redis is configured. `?durability=replicas(1)` or
    /// `?durability=fsync`, with `&durability_timeout=1s`, in the URL takes precedence.
    pub durability: Durability,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            clock: None,
            call_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            allow_eviction: false,
            durability: Durability::Async,
        }
    }
}

impl RedisOptions {
    /// Returns the default options with another clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { clock: Some(Arc::new(clock)), ..Self::default() }
    }

    /// Returns whether a lease may last this long: asynq stores leases in whole seconds, and rounding would leave nothing of a single
    /// one.
    fn is_lease(lease: Duration) -> bool {
        (2..=3600).contains(&lease.as_secs()) && lease.subsec_nanos() == 0
    }

    /// Checks that all of the options can be used.
    fn check(&self) -> Result<(), BrokerError> {
        if !self.call_timeout.is_zero() && !self.connect_timeout.is_zero() && Self::is_lease(self.lease) {
            return Ok(());
        }
        Err(config("call_timeout and connect_timeout must be more than zero and lease whole seconds, 2 s to 1 h"))
    }
}

impl RedisBroker {
    /// Connects to a Redis, a Redis Cluster or the master that sentinels name:
    ///
    /// - `redis://[[user]:password@]host[:port][/db]`, `redis+unix:///path?db=&user=&pass=`
    /// - `redis-cluster://[user:password@]host[:port],…` (feature `cluster`): some nodes; they know the others
    /// - `redis-sentinel://[user:password@]host[:26379],…[/db]?master=name` (feature `sentinel`), with `sentinel_user=` and
    ///   `sentinel_pass=` where the sentinels want a login of their own
    /// - `rediss://`, `rediss-cluster://`, `rediss-sentinel://` (feature `tls`): the same with TLS, trusting the system's
    ///   authorities or those of `ca=/path.pem`, with a client certificate from `cert=` and `key=`; the three files are
    ///   PEM and are read again for each connection. `tls_name=` is the name in the certificates of the servers where that is not
    ///   the host
    ///
    /// each with an optional `timeout=3s`, `connect_timeout=5s`, `lease=10s`, `allow_eviction=true`,
    /// `durability=replicas(1)` (see [`RedisOptions`]).
    ///
    /// A lost connection is opened again automatically, with a back-off of 20 ms doubling to 1 s, less a random part. Each attempt goes to
    /// the master that the sentinels name; the nodes of a cluster are asked when a slot has moved.
    ///
    /// # Errors
    ///
    /// [`Config`](super::BrokerErrorKind::Config): the URL or an option cannot be used, Redis is older than 6.2 or may evict
    /// keys, or cannot give the durability. [`Denied`](super::BrokerErrorKind::Denied): the login was refused, a permission is
    /// missing, or one side refuses the other's certificate.
    /// [`Unavailable`](super::BrokerErrorKind::Unavailable) or [`Timeout`](super::BrokerErrorKind::Timeout): not
    /// reachable now.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self, BrokerError> {
        Self::connect_on(Io::start_thread()?, url, options).await
    }

    /// Connects as [`connect`](Self::connect) does, with all I/O on `thread`.
    pub(crate) async fn connect_on(thread: Thread, url: &str, options: RedisOptions) -> Result<Self, BrokerError> {
        let io = Io::on(thread);
        let (target, options) = Target::parse(url, options)?;
        options.check()?;
        let RedisOptions { clock, call_timeout, connect_timeout, lease, allow_eviction, durability } = options;
        let clock = Arc::new(BrokerClock::new(clock));
        let role = Role {
            target: target.clone(),
            at: At::Target(NameWatch::new()),
            timeout: call_timeout,
            connect_timeout,
            clock: Arc::clone(&clock),
            greeting: Vec::new(),
            on_event: None,
        };
        #[cfg(any(feature = "cluster", feature = "sentinel"))]
        let role = match &target.endpoints {
            #[cfg(feature = "cluster")]
            Endpoints::Cluster(_) => Role { at: At::Cluster(cluster::open_topology(&io.tasks, role.clone())), ..role },
            #[cfg(feature = "sentinel")]
            Endpoints::Sentinel(sentinels) => {
                let watched = sentinel::MasterWatch::start(&io.tasks, &target, sentinels, connect_timeout);
                Role { at: At::Master(watched), ..role }
            }
            _ => role,
        };
        let router = Router::open(&io, role.clone());
        let mut role = role;
        if let Some(name) = role.at.name() {
            name.follow();
        }
        router.first_attempt().await.map_err(|error| located(&target, error))?;
        let eviction_policy = if allow_eviction { None } else { Some(EvictionPolicy::check(&router).await?) };
        let produces = match durability.probe() {
            None => router.clone(),
            Some(probe) => {
                for answer in router.send_to_reachable(probe).await? {
                    durability.check(answer).map_err(|error| located(&target, error))?;
                }
                // A connection of its own: a call that waits for replicas delays all calls behind it.
                Router::open(&io, Role { timeout: call_timeout.saturating_add(durability.patience()), ..role.clone() })
            }
        };
        let fetching = DedicatedConnection::beside(&router, &role, Purpose::Calls, 1);
        let waiting = DedicatedConnection::beside(&router, &role, Purpose::Tracking, 1);
        let producer = Producer::start(&io, produces, role.clone(), durability);
        Ok(Self {
            role,
            lease,
            clock,
            router,
            looking: OnceLock::new(),
            wake: OnceLock::new(),
            producer,
            fetching,
            waiting,
            unanswered: UnansweredDequeues::default(),
            room: DequeueRoom::new(call_timeout),
            passed: PassedQuarantine::default(),
            sweeps: Mutex::default(),
            looks: LastLooks::default(),
            eviction_policy,
            evictions: Evictions::default(),
            searches: Mutex::default(),
            hold: Mutex::new(Hold::new(lease)),
            announced: Mutex::default(),
            servers: AtomicUsize::new(1),
            is_sharded: AtomicBool::new(false),
            stored_shapes: StoredShapes::default(),
            io,
        })
    }

    /// Returns the connection for inspector reads; the first read opens it.
    fn looking(&self) -> &Router {
        self.looking.get_or_init(|| Router::open(&self.io, self.role.clone()))
    }

    /// Returns whether the keys of two queues may lie on different servers: on those of a cluster, or on several behind one endpoint.
    fn is_spread(&self) -> bool {
        self.router.has_parts() || self.is_sharded.load(Ordering::Relaxed)
    }

    /// Begins a call of a script that begins with `places.lua`, on the places of a queue and `more` keys.
    fn on_places(&self, script: &'static Script, keys: &Keys, more: impl IntoIterator<Item = String>) -> Call {
        let mut names = keys.places();
        names.extend(more);
        self.timed(script, &names).arg(keys.prefix())
    }

    /// Begins a call of a script whose first argument is the time: empty, so that the script asks Redis, unless a test gave a clock.
    fn timed(&self, script: &'static Script, keys: &[impl ToRedisArgs]) -> Call {
        script.on(keys).arg(self.clock.argument())
    }

    /// Returns the tracking connection. The first wait opens it, so that a producer has none.
    fn wake(&self) -> &Wake {
        self.wake.get_or_init(|| Wake::open(&self.io, self.role.clone()))
    }
}

impl crate::broker::Sealed for RedisBroker {}

#[async_trait::async_trait]
impl Broker for RedisBroker {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn location(&self) -> String {
        self.role.target.to_string()
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn call_limit(&self) -> Duration {
        // The sum of the waits for a connection, for the answer, and for the answer to a script that Redis did not
        // know.
        socket::longest(self.role.timeout).saturating_add(self.role.timeout.saturating_mul(2))
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.router.send_one(Call::plain("PING")).await.map(|_| ())
    }

    async fn close(&self) {
        self.producer.close();
        self.io.tasks.end();
        self.fetching.iter().chain(&self.waiting).for_each(DedicatedConnection::close);
        self.router.ended().await;
        if let Some(looking) = self.looking.get() {
            looking.ended().await;
        }
    }
}

impl fmt::Debug for RedisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBroker").field("location", &self.location()).finish_non_exhaustive()
    }
}

/// Returns `error` with the place of the Redis in its message.
fn located(target: &Target, error: BrokerError) -> BrokerError {
    let message = format!("{error} at {target}");
    BrokerError::with_source(error.kind(), message, error)
}

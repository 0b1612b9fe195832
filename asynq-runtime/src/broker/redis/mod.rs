//! The Redis broker: asynq's own keys, one script per step and queue, 64 tasks per script.

mod cancel;
mod clock;
mod commit;
mod connection;
mod consume;
mod groups;
mod inspect;
mod io;
mod keeper;
mod keys;
mod maintain;
mod presence;
mod produce;
mod repair;
mod reply;
mod schedule;
mod script;
mod semaphore;
mod settle;
mod url;
mod wake;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use chrono::{DateTime, Utc};

use self::{
    clock::BrokerClock,
    connection::Link,
    consume::UnansweredDequeues,
    io::Io,
    keeper::{News, Role},
    maintain::Sweeps,
    produce::Producer,
    script::Call,
    url::Target,
    wake::Wake,
};
use super::{Broker, BrokerError, BrokerErrorKind};
use crate::clock::Clock;

/// Tasks in one Redis, version 6.2 or newer, readable and writable by every asynq program at the same time.
///
/// All I/O happens on a thread of the broker's own, which ends when the broker is closed or dropped. Calls may come from
/// any Tokio runtime that has its time driver enabled.
pub struct RedisBroker {
    target: Target,
    call_timeout: Duration,
    lease: Duration,
    clock: Arc<BrokerClock>,
    link: Link,
    wake: OnceLock<Wake>,
    producer: Producer,
    unanswered: UnansweredDequeues,
    sweeps: Sweeps,
    io: Io,
}

/// How to use a Redis; the default is right for production.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedisOptions {
    /// Replaces Redis's own `TIME`; for tests. Default: none.
    pub clock: Option<Arc<dyn Clock>>,
    /// Longest wait for a connection, and again for an answer. Default: 500 ms.
    pub call_timeout: Duration,
    /// How long a dequeued task is ours without being extended; whole seconds, at least 2, because up to one is lost to
    /// rounding: asynq writes the second when it ends. Default: 30 s, which is also
    /// what Go servers on the same queues expect: they take over anything that lapsed 30 s ago. A shorter one brings the
    /// tasks of a dead worker back sooner; [`join`](super::Presence::join) refuses it while a Go server is listed, which
    /// would call such a lease lapsed. `?lease=10s` in the URL comes first.
    pub lease: Duration,
    /// Whether to use a Redis that may evict any key when its memory is full, which loses tasks. Default: no.
    pub allow_eviction: bool,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            clock: None,
            call_timeout: Duration::from_millis(500),
            lease: Duration::from_secs(30),
            allow_eviction: false,
        }
    }
}

impl RedisOptions {
    /// The defaults with another clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { clock: Some(Arc::new(clock)), ..Self::default() }
    }
}

impl RedisBroker {
    /// Connects to `redis://[user[:password]@]host[:port][/db]` or `redis+unix:///path?db=&user=&pass=`, each with an
    /// optional `lease=10s` (see [`RedisOptions::lease`]).
    ///
    /// Afterwards a lost connection is made again by itself, with a back-off of 20 ms doubling to 1 s.
    ///
    /// # Errors
    ///
    /// [`Config`](BrokerErrorKind::Config): the URL or an option cannot be used, Redis is older than 6.2 or may evict
    /// keys. [`Denied`](BrokerErrorKind::Denied): the login was refused.
    /// [`Unavailable`](BrokerErrorKind::Unavailable) or [`Timeout`](BrokerErrorKind::Timeout): not reachable now.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self, BrokerError> {
        let target = Target::parse(url)?;
        let RedisOptions { clock, call_timeout, lease, allow_eviction } = options;
        let lease = target.lease().unwrap_or(lease);
        if call_timeout.is_zero() || lease < Duration::from_secs(2) || lease.subsec_nanos() > 0 {
            return Err(BrokerError::new(
                BrokerErrorKind::Config,
                "call_timeout must be more than zero and lease whole seconds, at least 2",
            ));
        }
        let clock = Arc::new(BrokerClock::new(clock));
        let io = Io::start()?;
        let role = Role {
            target: target.clone(),
            timeout: call_timeout,
            clock: Arc::clone(&clock),
            greeting: Vec::new(),
            news: None,
        };
        let link = Link::open(&io, role);
        link.first_attempt().await.map_err(|error| at(&target, error))?;
        check_eviction(&link, allow_eviction).await?;
        let producer = Producer::start(&io, link.clone(), Arc::clone(&clock), call_timeout);
        let (wake, unanswered, sweeps) = (OnceLock::new(), UnansweredDequeues::default(), Sweeps::default());
        Ok(Self { target, call_timeout, lease, clock, link, wake, producer, unanswered, sweeps, io })
    }

    /// What a further connection of this broker needs.
    fn role(&self, greeting: Vec<redis::Cmd>, news: Option<Arc<dyn Fn(News) + Send + Sync>>) -> Role {
        let (target, clock) = (self.target.clone(), Arc::clone(&self.clock));
        Role { target, timeout: self.call_timeout, clock, greeting, news }
    }

    /// The tracking connection; opened by the first who waits, so that a producer has none.
    fn wake(&self) -> &Wake {
        self.wake.get_or_init(|| Wake::open(&self.io, self.role(Vec::new(), None)))
    }
}

#[async_trait::async_trait]
impl Broker for RedisBroker {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn location(&self) -> String {
        self.target.to_string()
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.link.send_one(Call::plain("PING")).await.map(|_| ())
    }

    async fn close(&self) {
        self.io.stop();
        self.link.ended().await;
    }
}

impl fmt::Debug for RedisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBroker").field("location", &self.location()).finish_non_exhaustive()
    }
}

/// The error with the place it is about.
fn at(target: &Target, error: BrokerError) -> BrokerError {
    let message = format!("{error} at {target}");
    BrokerError::with_source(error.kind(), message, error)
}

/// A Redis that evicts any key loses tasks without a word (RELIABILITY F11).
async fn check_eviction(link: &Link, allowed: bool) -> Result<(), BrokerError> {
    // Who may not ask is believed.
    let Ok(info) = link.send_one(Call::plain("INFO").arg("memory")).await else { return Ok(()) };
    let info = reply::text(info).unwrap_or_default();
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).unwrap_or_default().trim();
    if !policy.starts_with("allkeys") || allowed {
        return Ok(());
    }
    Err(BrokerError::new(
        BrokerErrorKind::Config,
        format!(
            "this Redis may evict tasks when its memory is full (maxmemory-policy {policy}): \
             set it to noeviction, or allow_eviction in the options"
        ),
    ))
}

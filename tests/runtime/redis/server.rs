//! A private redis-server with brokers on its Unix socket, and a proxy before it that can lose answers.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    ops::{Deref, DerefMut},
    os::unix::net::UnixStream,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use asynq_runtime::broker::redis::{RedisBroker, RedisOptions};
use asynq_test_support::{PATIENCE, RedisServer, eventually};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};

/// A redis-server that ends with the test and keeps nothing; programs connect to its Unix socket.
pub(crate) struct Server(RedisServer);

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        Self(RedisServer::with_options(options))
    }

    /// Starts a server, with a broker and a connection of another program.
    pub(crate) async fn with_broker() -> (Self, RedisBroker, MultiplexedConnection) {
        let server = Self::start(&[]);
        let redis = server.foreign().await;
        let broker = server.broker().await;
        (server, broker, redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub(crate) async fn broker(&self) -> RedisBroker {
        self.broker_with(patient()).await
    }

    pub(crate) async fn broker_with(&self, options: RedisOptions) -> RedisBroker {
        RedisBroker::connect(&self.url(), options).await.unwrap()
    }

    /// Returns a connection of another program.
    pub(crate) async fn foreign(&self) -> MultiplexedConnection {
        self.foreign_with("").await
    }

    /// Returns a connection of another program by a URL with a query, such as `?user=worker`.
    pub(crate) async fn foreign_with(&self, query: &str) -> MultiplexedConnection {
        let client = redis::Client::open(format!("unix://{}{query}", self.socket().display())).unwrap();
        // By default a command fails after half a second, which a busy machine needs now and then.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    /// Polls `call` once. Redis stands still meanwhile, because its answer could be there at once.
    pub(crate) fn send<F: Future>(&self, call: Pin<&mut F>) {
        let stopped = self.stop();
        let polled = call.poll(&mut Context::from_waker(Waker::noop()));
        drop(stopped);
        assert!(polled.is_pending(), "it was answered before it was sent");
    }
}

impl Deref for Server {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.0
    }
}

/// Returns options for a busy machine: only cases about time-outs may run into one.
pub(crate) fn patient() -> RedisOptions {
    in_time(PATIENCE)
}

/// The time-out of calls where a test waits for one: calls that are answered take a fraction of it, also on a machine that stands
/// still for some seconds. No test waits for more than two time-outs.
pub(crate) const BRIEF: Duration = Duration::from_secs(12);

/// Redis keeps the facts of a server for ten seconds: a look at them counts if it came so soon after they were written.
pub(crate) const FRESH: Duration = Duration::from_secs(8);

/// Ends calls after this time.
pub(crate) fn in_time(call_timeout: Duration) -> RedisOptions {
    let mut options = RedisOptions::default();
    options.call_timeout = call_timeout;
    options
}

/// Passes everything on; on request it cuts the connection in place of the next answer to a script, or with the messages that it
/// left.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    lose: Arc<Lose>,
    late: Arc<Late>,
}

/// The answers that do not arrive.
#[derive(Default)]
struct Lose {
    next: AtomicUsize,
    every: AtomicUsize,
    answers: AtomicUsize,
    /// Whether the third version of the protocol is refused.
    resp3: AtomicBool,
}

/// A write that arrives late.
#[derive(Default)]
struct Late {
    /// How many writes that hold a script come until that one is passed on late, itself included; 0 for none.
    left: AtomicUsize,
    released: AtomicBool,
    over: AtomicBool,
}

impl Late {
    fn hold(&self) {
        let take = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) == Ok(1) {
            // A test that fails releases no write, and this thread ends with the process.
            while !self.released.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Proxy {
    pub(crate) fn before(server: &Server) -> Self {
        Self::far_before(server, Duration::ZERO)
    }

    /// Starts a proxy by which every answer takes `distance` longer.
    pub(crate) fn far_before(server: &Server, distance: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let lose = Arc::new(Lose::default());
        let late = Arc::new(Late::default());
        let (socket, losing, holding) = (server.socket(), Arc::clone(&lose), Arc::clone(&late));
        // The thread ends with the test's process; its connections end with either side.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(redis) = UnixStream::connect(&socket) {
                    pass(client, redis, &losing, &holding, distance);
                }
            }
        });
        Self { port, lose, late }
    }

    /// Starts a proxy by which `HELLO 3` asks for a version of the protocol that Redis does not know.
    pub(crate) fn without_resp3(server: &Server) -> Self {
        let proxy = Self::before(server);
        proxy.lose.resp3.store(true, Ordering::SeqCst);
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Loses the answers to the next `n` writes that hold a script.
    pub(crate) fn lose_answers(&self, n: usize) {
        self.lose.next.store(n, Ordering::SeqCst);
    }

    /// Loses every `n`th answer to a script from now on; 0 ends it.
    pub(crate) fn lose_every(&self, n: usize) {
        self.lose.every.store(n, Ordering::SeqCst);
    }

    /// Keeps the next write that holds a script back until [`release`](Self::release).
    pub(crate) fn hold_back(&self) {
        self.hold_back_nth(1);
    }

    /// Keeps the `n`th write that holds a script back from now on, until it is released.
    pub(crate) fn hold_back_nth(&self, n: usize) {
        self.late.left.store(n, Ordering::SeqCst);
    }

    /// Lets the write that was held back go on.
    pub(crate) fn let_go(&self) {
        self.late.released.store(true, Ordering::SeqCst);
    }

    /// Lets the write that was held back go on, and returns when it was written or could not be.
    pub(crate) async fn release(&self) {
        self.let_go();
        let is_over = async || self.late.over.load(Ordering::SeqCst).then_some(());
        eventually("the held write has been passed on", is_over).await;
    }

    pub(crate) fn still_to_lose(&self) -> usize {
        self.lose.next.load(Ordering::SeqCst)
    }
}

fn pass(client: TcpStream, redis: UnixStream, lose: &Arc<Lose>, late: &Arc<Late>, distance: Duration) {
    let (scripted, ahead) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (seen, seen_ahead, refused) = (Arc::clone(&scripted), Arc::clone(&ahead), Arc::clone(lose));
    let (lose, late) = (Arc::clone(lose), Arc::clone(late));
    let (mut from_client, mut to_redis) = (client.try_clone().unwrap(), redis.try_clone().unwrap());
    let (mut to_client, mut from_redis) = (client, redis);
    thread::spawn(move || {
        copy(&mut from_client, &mut to_redis, |bytes| {
            const HELLO: &[u8] = b"HELLO\r\n$1\r\n3";
            if refused.resp3.load(Ordering::SeqCst)
                && let Some(at) = bytes.windows(HELLO.len()).position(|words| words == HELLO)
            {
                bytes[at + HELLO.len() - 1] = b'4';
            }
            if bytes.windows(7).any(|word| word == b":x:msg:") {
                seen_ahead.store(true, Ordering::SeqCst);
            }
            if bytes.windows(4).any(|word| word == b"EVAL" || word == b"HGET") {
                seen.store(true, Ordering::SeqCst);
                late.hold();
            }
            true
        });
        late.over.store(late.released.load(Ordering::SeqCst), Ordering::SeqCst);
        let _ = to_redis.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        copy(&mut from_redis, &mut to_client, |bytes| {
            thread::sleep(distance);
            // HSET and EXPIRE, which send long messages ahead of their script, answer with integers; these may arrive before
            // Redis has read the script, which answers with an array.
            let are_integers = || bytes.split(|byte| *byte == b'\n').all(|line| line.is_empty() || line[0] == b':');
            if ahead.load(Ordering::SeqCst) && are_integers() {
                return true;
            }
            ahead.store(false, Ordering::SeqCst);
            let is_answer = scripted.swap(false, Ordering::SeqCst);
            let take = |left: usize| left.checked_sub(1);
            let every = lose.every.load(Ordering::SeqCst);
            let unlucky = is_answer && every > 0 && lose.answers.fetch_add(1, Ordering::SeqCst) % every == every - 1;
            !(unlucky || is_answer && lose.next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok())
        });
        let _ = to_client.shutdown(Shutdown::Both);
    });
}

fn copy(from: &mut impl Read, to: &mut impl Write, pass: impl Fn(&mut [u8]) -> bool) {
    let mut buffer = vec![0; 65536];
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 || !pass(&mut buffer[..n]) || to.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

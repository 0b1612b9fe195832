//! Opens the sockets of all connections, and waits for answers on them for as long as bytes come or go.
//!
//! A time-out is about silence and not about length: a large answer on a slow connection takes long and is not a reason
//! to give up, while a peer that is gone sends nothing at all.

use std::{
    future::Future,
    io, mem,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use redis::{Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    sync::{Semaphore, oneshot},
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    super::{BrokerError, far, timeouts},
    reply,
    tls::Tls,
    url::Address,
};

/// Longest wait for one answer while bytes come and go, as a multiple of the time-out.
pub(super) const LONGEST: u32 = 20;
/// Most bytes that the system keeps unsent before a write has to wait. Only the end of such a wait shows that the peer
/// takes bytes, so this much of a write goes out without noting progress.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 64 << 10;
/// Look-ups of host names at a time; further ones wait. A resolver that does not answer keeps the thread of each for minutes, while
/// connections are tried again every second.
static LOOK_UPS: Semaphore = Semaphore::const_new(64);
/// Idle time before the system probes a connection, and the interval of the probes. Firewalls and address translators drop
/// connections that are idle for minutes without a word to either end, and the next call would wait for its time-out.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15));

/// A socket to one server that notes when bytes go through it.
pub(super) struct Socket {
    stream: Box<dyn Stream>,
    progress: Progress,
    /// Whether the last write had to wait.
    is_blocked: bool,
}

/// Bytes in both directions: over TCP, in plain text or with TLS, or over a unix socket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Socket {
    /// Connects to `address`, with TLS if `tls` is given. The attempt has no time-out of its own.
    ///
    /// # Errors
    ///
    /// No server listens there, or one side refuses the other's certificate.
    pub(super) async fn open(address: &Address, tls: Option<&Tls>) -> Result<Self, BrokerError> {
        let stream: Box<dyn Stream> = match address {
            Address::Tcp { host, port } => {
                let stream = connect(host, *port).await.map_err(unreachable)?;
                match tls {
                    Some(tls) => Box::new(tls.encrypted(stream, host, unreachable).await?),
                    None => Box::new(stream),
                }
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(unreachable)?),
        };
        Ok(Self { stream, progress: Progress::new(), is_blocked: false })
    }

    /// Returns the record of the last byte that went through the socket.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Notes progress if the system takes bytes again after it took none: the peer has acknowledged some. Bytes that
    /// the system takes without a wait say nothing of the peer, which may be gone.
    fn note_sent<T>(&mut self, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &sent {
            Poll::Pending => self.is_blocked = true,
            Poll::Ready(Ok(_)) if mem::take(&mut self.is_blocked) => self.progress.note(),
            Poll::Ready(_) => {}
        }
        sent
    }
}

fn unreachable(error: io::Error) -> BrokerError {
    reply::failed(error.into())
}

/// Tries all addresses of `host` at once and takes the first that answers, so that one that does not answer costs nothing.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = look_up(host, port, thread::Builder::new().name("asynq-lookup".to_owned())).await?;
    let mut attempts: JoinSet<io::Result<TcpStream>> = addresses.into_iter().map(TcpStream::connect).collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name of the host has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other).flatten() {
            Ok(stream) => {
                // A pipeline is one write: waiting for more to send would only cost time.
                stream.set_nodelay(true)?;
                keep_alive(&stream);
                // Some sandboxes do not have this option. Without it, more of a write goes out without noting progress.
                #[cfg(any(target_os = "linux", target_os = "android"))]
                let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns the addresses of `host`; a name is looked up on a new `thread`. tokio's look-up panics where the system does not give
/// it a thread. Here that is an error, after which the next attempt to connect follows.
async fn look_up(host: &str, port: u16, thread: thread::Builder) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let host = host.to_owned();
    on_thread(thread, &LOOK_UPS, move || (host, port).to_socket_addrs().map(Iterator::collect)).await
}

/// Returns the result of `look_up` on a new `thread`, which holds a permit of `room` until it ends, also where its caller has
/// stopped waiting.
async fn on_thread<T: Send + 'static>(
    thread: thread::Builder,
    room: &'static Semaphore,
    look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let permit = room.acquire().await.map_err(io::Error::other)?;
    let (sender, found) = oneshot::channel();
    thread.spawn(move || {
        let result = look_up();
        drop(permit);
        sender.send(result)
    })?;
    found.await.map_err(io::Error::other)?
}

/// Has the system probe the connection while it is idle. A system that cannot do so is accepted.
fn keep_alive(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE.0);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    let keepalive = keepalive.with_interval(KEEPALIVE.1);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.progress.note();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_sent(written)
    }

    // With TLS this sends the bytes that earlier writes have encrypted.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.note_sent(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// When bytes last went through a connection, in either direction.
#[derive(Debug, Clone)]
pub(super) struct Progress(Arc<Noted>);

#[derive(Debug)]
struct Noted {
    opened: Instant,
    /// Milliseconds from `opened` to the latest byte.
    last: AtomicU64,
}

impl Progress {
    fn new() -> Self {
        Self(Arc::new(Noted { opened: Instant::now(), last: AtomicU64::new(0) }))
    }

    fn note(&self) {
        let ms = u64::try_from(self.0.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(ms, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.0.opened + Duration::from_millis(self.0.last.load(Ordering::Relaxed))
    }

    /// Returns the time since the latest byte.
    pub(super) fn silent_for(&self) -> Duration {
        self.last().elapsed()
    }

    /// Returns the time until which a call that was made at `began` waits at least for its answer: `idle_timeout` after
    /// the latest byte or the call, and no longer than [`LONGEST`] times that in all. `None` if that time has passed.
    pub(super) fn wait_until(&self, began: Instant, idle_timeout: Duration) -> Option<Instant> {
        let end = end_of_wait(began, self.last(), idle_timeout);
        (end > Instant::now()).then_some(end)
    }

    /// Returns the outcome of `call`, which was made on this connection, or a time-out.
    async fn answered<T>(&self, idle_timeout: Duration, call: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let began = Instant::now();
        let mut call = pin!(call);
        while let Some(end) = self.wait_until(began, idle_timeout) {
            if let Some(answer) = timeouts::before(end, call.as_mut()).await {
                return answer;
            }
        }
        Err(timed_out())
    }
}

/// Returns the time at which a call that was made at `began` is given up if no byte goes through its connection after
/// `last`.
fn end_of_wait(began: Instant, last: Instant, idle_timeout: Duration) -> Instant {
    far(last.max(began), idle_timeout).min(far(began, longest(idle_timeout)))
}

/// Returns the longest time of a call whose answer comes byte by byte.
pub(super) fn longest(idle_timeout: Duration) -> Duration {
    idle_timeout.saturating_mul(LONGEST)
}

pub(super) fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// A connection whose driver is a task of its own, which ends with the last clone.
#[derive(Debug, Clone)]
pub(super) struct OpenConnection {
    redis: MultiplexedConnection,
    progress: Progress,
    idle_timeout: Duration,
    driver: Arc<Driver>,
}

#[derive(Debug)]
struct Driver {
    task: AbortHandle,
    was_of_use: AtomicBool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OpenConnection {
    /// Spawns the driver of `redis` on the current runtime. A call is given up after `idle_timeout` without a byte.
    pub(super) fn start(
        redis: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        progress: Progress,
        idle_timeout: Duration,
    ) -> Self {
        let task = tokio::spawn(driver).abort_handle();
        let driver = Arc::new(Driver { task, was_of_use: AtomicBool::new(false) });
        Self { redis, progress, idle_timeout, driver }
    }

    /// Notes that a call was answered by a server that is the right one.
    pub(super) fn note_use(&self) {
        self.driver.was_of_use.store(true, Ordering::Relaxed);
    }

    /// Returns whether a call was answered by a server that is the right one.
    pub(super) fn was_of_use(&self) -> bool {
        self.driver.was_of_use.load(Ordering::Relaxed)
    }

    /// Sends `pipeline` in one write and returns the answers, errors of Redis among them.
    ///
    /// # Errors
    ///
    /// The connection failed, or was silent for too long. Whether any of it took effect is then unknown.
    pub(super) async fn exchange(&self, pipeline: &Pipeline) -> Result<Vec<Value>, BrokerError> {
        // The clone is cheap: the connection is the sender of a channel.
        let mut redis = self.redis.clone();
        let answers = redis.send_packed_commands(pipeline, 0, pipeline.len());
        self.progress.answered(self.idle_timeout, answers).await.map_err(reply::failed)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{Read as _, Write as _},
        task::Waker,
    };

    use tokio::task::coop::unconstrained;

    use super::{super::super::FAR, *};

    async fn write(socket: &mut Socket, bytes: &[u8]) -> usize {
        unconstrained(poll_fn(|context| Pin::new(&mut *socket).poll_write(context, bytes))).await.unwrap()
    }

    #[tokio::test]
    async fn bytes_in_the_send_buffer_are_not_progress_unless_the_writer_had_to_wait() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let mut socket = Socket::open(&address, None).await.unwrap();
        let mut peer = listener.accept().unwrap().0;
        let (progress, opened) = (socket.progress(), socket.progress().last());
        // Progress that is noted from here on is noted at another millisecond.
        tokio::time::sleep_until(opened + Duration::from_millis(2)).await;
        let (block, mut sent) = (vec![0; 64 << 10], 0);
        // Until the system takes no more.
        while let Poll::Ready(taken) = pin!(write(&mut socket, &block)).poll(&mut Context::from_waker(Waker::noop())) {
            sent += taken;
        }
        assert_eq!(progress.last(), opened, "the peer has read none of the {sent} bytes");
        peer.read_exact(&mut vec![0; sent]).unwrap();
        write(&mut socket, &block).await;
        let noted = progress.last();
        assert!(noted > opened, "the peer has read");
        tokio::time::sleep_until(noted + Duration::from_millis(2)).await;
        peer.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        poll_fn(|context| Pin::new(&mut socket).poll_read(context, &mut ReadBuf::new(&mut answer))).await.unwrap();
        assert!(progress.last() > noted, "an answer is always progress");
    }

    #[test]
    fn a_host_name_is_looked_up_where_the_runtime_gets_no_further_thread() {
        // The runtime cannot start a thread, as under a limit of processes.
        let stack = crate::thread::stack_without_room();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().thread_stack_size(stack).build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp { host: "localhost".into(), port: listener.local_addr().unwrap().port() };
        runtime.block_on(Socket::open(&address, None)).unwrap();
        let lacking = thread::Builder::new().stack_size(stack);
        let error = runtime.block_on(look_up("localhost", 1, lacking)).unwrap_err();
        assert!(reply::failed(error.into()).is_unavailable(), "the next attempt may find a thread");
    }

    #[tokio::test]
    async fn a_look_up_that_does_not_return_keeps_its_room_after_its_attempt() {
        static ROOM: Semaphore = Semaphore::const_new(1);
        let mut context = Context::from_waker(Waker::noop());
        let ((begins, begun), (ends, end)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let mut stuck = Box::pin(on_thread(thread::Builder::new(), &ROOM, move || {
            begins.send(()).unwrap();
            end.recv().map_err(io::Error::other)
        }));
        assert!(stuck.as_mut().poll(&mut context).is_pending());
        begun.recv_timeout(asynq_test_support::PATIENCE).unwrap();
        // The attempt to connect has timed out.
        drop(stuck);
        assert_eq!(ROOM.available_permits(), 0);
        let mut next = Box::pin(on_thread(thread::Builder::new(), &ROOM, || Ok(7)));
        assert!(next.as_mut().poll(&mut context).is_pending());
        ends.send(()).unwrap();
        assert_eq!(asynq_test_support::soon(next).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn an_idle_connection_is_probed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(SockRef::from(&stream).keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(SockRef::from(&stream).tcp_keepalive_time().unwrap(), KEEPALIVE.0);
    }

    #[test]
    fn a_call_ends_after_its_idle_time_out_and_not_because_its_answer_is_long() {
        const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        // Seconds after the call: when the latest byte came, and when the call is given up if no other comes.
        for (last, end) in [(0, 3), (1, 4), (20, 23), (56, 59), (57, 60), (59, 60)] {
            assert_eq!(end_of_wait(began, at(last), IDLE_TIMEOUT), at(end), "{last}");
        }
        // Bytes before the call do not count.
        assert_eq!(end_of_wait(at(10), at(1), IDLE_TIMEOUT), at(13));
        assert_eq!(end_of_wait(began, began, Duration::MAX), began + FAR);
    }
}

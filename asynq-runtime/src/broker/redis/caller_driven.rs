//! A connection without a background task: the calling task does its I/O.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use redis::{Pipeline, ProtocolVersion, PushInfo, Value, aio::MultiplexedConnection};
use tokio::{
    runtime::{self, Handle},
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    super::{BrokerError, unavailable},
    identity::Identity,
    open_connection::config,
    pipelined::Pipelined,
    reply::{self, answer, is_demoted},
    script::Call,
    seen::{Change, SharedSeen},
    socket::{Progress, Socket, timed_out},
    url::{Address, Target, authenticated},
};

/// A connection to one Redis process, on the runtime that opened it.
pub(super) struct CallerDrivenConnection {
    connection: MultiplexedConnection,
    /// Reads and writes the socket when polled; ends with the connection.
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// One timer for all calls, which each call resets: creating a timer takes longer than a write to a socket.
    deadline: Pin<Box<Sleep>>,
    /// Longest silence before an answer.
    timeout: Duration,
    pub(super) progress: Progress,
    has_ended: bool,
    /// The runtime whose I/O driver the connection needs.
    pub(super) runtime: runtime::Id,
    /// The identity of the connection to end if a call got no answer.
    pub(super) identity: Arc<Identity>,
    /// The answers read on this connection that no announced change made unknown.
    pub(super) seen: SharedSeen,
}

/// The use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Scripts.
    Calls,
    /// Reads, and notifications when a key that was read changes. No script may run on the connection (see `wake.rs`).
    Tracking,
}

/// The outcome of a call.
pub(super) enum Sent {
    /// Nothing was sent: the connection had ended before.
    Not,
    /// Redis answered.
    Answered(Vec<Result<Value, BrokerError>>),
    /// Redis may have run the call, or may still run it until the connection of this identity is ended.
    Unanswered(Arc<Identity>),
}

impl CallerDrivenConnection {
    /// Connects on the runtime of the caller to the process that `wanted` names, at `address`. The attempt has no time-out of its own;
    /// `timeout` is that of a call.
    ///
    /// # Errors
    ///
    /// The process does not answer at `address`, or the login may not run `CLIENT KILL`, without which a
    /// repeat is not safe.
    pub(super) async fn open(
        target: &Target,
        address: &Address,
        wanted: &Identity,
        purpose: Purpose,
        timeout: Duration,
    ) -> Result<Self, BrokerError> {
        // Every server and proxy knows RESP2; only RESP3 sends notifications.
        let protocol = match purpose {
            Purpose::Calls => ProtocolVersion::RESP2,
            Purpose::Tracking => ProtocolVersion::RESP3,
        };
        let seen = SharedSeen::default();
        let seen_by_listener = Arc::clone(&seen);
        let listener = move |push: PushInfo| {
            if let Some(change) = Change::read(push) {
                seen_by_listener.lock().changed(&change);
            }
        };
        let config = config((purpose == Purpose::Tracking).then_some(listener));
        let socket = Socket::open(address, target.tls.as_ref()).await?;
        let progress = socket.progress();
        let opened = MultiplexedConnection::new_with_config(&target.login.at(protocol), socket, config).await;
        let (connection, driver) = opened.map_err(reply::failed)?;
        let mut driven = Self {
            connection,
            driver: Box::pin(driver),
            deadline: Box::pin(sleep_until(Instant::now())),
            timeout,
            progress,
            has_ended: false,
            runtime: Handle::current().id(),
            identity: Arc::new(wanted.clone()),
            seen,
        };
        if let Some(auth) = target.login.auth(protocol) {
            authenticated(driven.exchange(&auth).await?)?;
        }
        driven.greet(target, wanted, purpose).await?;
        Ok(driven)
    }

    /// Checks that the process is `wanted`, and that the login may end connections: it tries `CLIENT KILL` on this
    /// connection with `SKIPME`, which ends nothing. Turns tracking on for the purpose that needs it.
    async fn greet(&mut self, target: &Target, wanted: &Identity, purpose: Purpose) -> Result<(), BrokerError> {
        let mut identify = redis::pipe();
        target.introduce(&mut identify);
        identify.cmd("CLIENT").arg("ID").cmd("INFO").arg("server");
        let mut values = self.exchange(&identify).await?.into_iter();
        target.introduced(&mut values)?;
        let client = answer(values.next().unwrap_or_default())?;
        let info = reply::text(answer(values.next().unwrap_or_default())?).unwrap_or_default();
        let Some(identity) = Identity::read(&client, &info).filter(|own| own.run_id == wanted.run_id) else {
            return Err(unavailable("another Redis answers at the same place"));
        };
        let mut kill = identity.kill();
        kill.arg("SKIPME").arg("yes");
        let mut check = Pipeline::new();
        check.add_command(kill);
        if purpose == Purpose::Tracking {
            check.cmd("CLIENT").arg("TRACKING").arg("ON");
        }
        self.identity = Arc::new(identity);
        let values = self.exchange(&check).await?;
        values.into_iter().try_for_each(|value| answer(value).map(drop))
    }

    /// Sends `calls` in one write. Returns the outcome, and whether the connection can be used afterwards: not if it
    /// failed, nor if Redis is a replica now. A script that Redis does not know is sent again with its text; nothing
    /// else is ever sent twice.
    pub(super) async fn send(&mut self, calls: Vec<Call>) -> (Sent, bool) {
        if self.is_gone() {
            return (Sent::Not, false);
        }
        let sent = Pipelined::new(calls);
        match self.exchange_scripts(&sent).await {
            Ok(values) if values.len() == sent.pipeline.len() => {
                let is_of_use = !self.has_ended && !values.iter().any(is_demoted);
                (Sent::Answered(values.into_iter().map(answer).collect()), is_of_use)
            }
            _ => (Sent::Unanswered(Arc::clone(&self.identity)), false),
        }
    }

    /// Waits until `has_changed`, which is asked at once and whenever bytes have come; `false` if `end` came before, or the connection has ended.
    pub(super) async fn receive(&mut self, has_changed: impl Fn() -> bool, end: Instant) -> bool {
        let Self { driver, deadline, has_ended, .. } = self;
        deadline.as_mut().reset(end);
        poll_fn(|context| {
            *has_ended = *has_ended || driver.as_mut().poll(context).is_ready();
            if *has_ended {
                return Poll::Ready(false);
            }
            if has_changed() {
                return Poll::Ready(true);
            }
            deadline.as_mut().poll(context).map(|()| false)
        })
        .await
    }

    async fn exchange_scripts(&mut self, sent: &Pipelined) -> Result<Vec<Value>, BrokerError> {
        let mut values = self.exchange(&sent.pipeline).await?;
        if let Some(forgotten) = sent.forgotten(&values) {
            let by = self.exchange(&forgotten.pipeline).await?;
            forgotten.replace(&mut values, by);
        }
        Ok(values)
    }

    /// Polls the driver once, which reads the announcements that have arrived. Returns whether the connection has ended.
    pub(super) fn is_gone(&mut self) -> bool {
        // A driver that has ended must not be polled again.
        self.has_ended = self.has_ended || self.driver.as_mut().poll(&mut quiet()).is_ready();
        self.has_ended
    }

    async fn exchange(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, BrokerError> {
        let answer = self.answer(pipeline).await;
        // Drops the waker: data that arrives between calls must not wake this task.
        self.is_gone();
        answer.map_err(reply::failed)
    }

    async fn answer(&mut self, pipeline: &Pipeline) -> redis::RedisResult<Vec<Value>> {
        let Self { connection, driver, deadline, timeout, progress, has_ended, .. } = self;
        let cut = || redis::RedisError::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        if *has_ended {
            return Err(cut());
        }
        let began = Instant::now();
        deadline.as_mut().reset(progress.wait_until(began, *timeout).unwrap_or(began));
        // Only the driver, polled below, makes the request ready. So the request needs no waker, and no share of the
        // task's cooperative budget.
        let mut request = pin!(unconstrained(connection.send_packed_commands(pipeline, 0, pipeline.len())));
        poll_fn(|context| {
            // Passes the bytes to the driver, which sends them and completes the request with the answer.
            if let Poll::Ready(answer) = request.as_mut().poll(&mut quiet()) {
                return Poll::Ready(answer);
            }
            *has_ended = driver.as_mut().poll(context).is_ready();
            if let Poll::Ready(answer) = request.as_mut().poll(&mut quiet()) {
                return Poll::Ready(answer);
            }
            if *has_ended {
                return Poll::Ready(Err(cut()));
            }
            while deadline.as_mut().poll(context).is_ready() {
                match progress.wait_until(began, *timeout) {
                    Some(later) => deadline.as_mut().reset(later),
                    None => return Poll::Ready(Err(timed_out())),
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

//! A connection to one server, opened again whenever it is lost, and calls on it, none of which is ever repeated here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Pipeline, Value};
use tokio::{sync::watch, time::timeout};

use super::{
    super::{BrokerError, BrokerErrorKind, CALL_BYTES},
    connection_manager::{ConnectionManager, late},
    connection_state::{State, Up, report_lost},
    durability::Durability,
    identity::Identity,
    pipelined::Pipelined,
    reply::{self, answer, closed, is_demoted, is_noscript},
    role::Role,
    script::Call,
    url::Address,
};
use crate::thread::Tasks;

/// Most bytes in one write, so that a batch of large tasks does not run into the time-out of a single answer.
pub(super) const WRITE: usize = CALL_BYTES;

/// A connection of the broker, and the task that keeps it up.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    state: watch::Receiver<State>,
    lost: watch::Sender<u64>,
    timeout: Duration,
}

/// Drops the connection when the broker is closed: a clone of the connection that outlives the broker must not keep it open.
struct Ends(watch::Sender<State>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.send_replace(State::Down { error: closed(), since: Instant::now() });
    }
}

/// The reply to one call, as Redis sent it, errors included.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) value: Result<Value, BrokerError>,
    /// Why the durability that was asked for was not reached.
    pub(super) doubt: Option<BrokerError>,
}

/// Says how calls end that go to a node of a cluster which has been away for longer than calls wait for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// They fail at once, so that the queues of other nodes do not wait for it.
    Fails,
    /// They fail at once, also where it is not known for how long the node has been away: its last attempt to connect has failed.
    FailsAtOnce,
    /// They wait again.
    IsWaitedFor,
}

impl Connection {
    /// Begins to connect, and keeps the connection up until the broker's thread ends or the connection is dropped.
    pub(super) fn open(io: &Tasks, role: Role) -> Self {
        let (state, watched) = watch::channel(State::Opening);
        let (lost, reports) = watch::channel(0);
        let connection = Self { state: watched, lost: lost.clone(), timeout: role.timeout };
        let manager = ConnectionManager::new(role, state.clone(), lost);
        let ends = Ends(state);
        io.spawn(async move {
            tokio::select! {
                () = manager.run(reports) => {}
                // The last clone of the connection was dropped.
                () = ends.0.closed() => {}
            }
        });
        connection
    }

    /// Waits for the outcome of the first attempt to connect.
    pub(super) async fn first_attempt(&self) -> Result<(), BrokerError> {
        let mut state = self.state.clone();
        let state = state.wait_for(|state| !matches!(state, State::Opening)).await.map_err(|_| closed())?;
        match &*state {
            State::Down { error, .. } => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Returns why the server is away, if no attempt to connect has succeeded for as long as a call waits for a connection.
    pub(super) fn away(&self) -> Option<BrokerError> {
        match &*self.state.borrow() {
            State::Down { error, since } if since.elapsed() >= self.timeout => Some(error.clone().unsent()),
            _ => None,
        }
    }

    /// Returns why the server cannot be reached, if the last attempt to connect has failed. Waits for one that is under way, at most as
    /// long as a call waits for a connection.
    #[cfg(feature = "cluster")]
    pub(super) async fn unreachable(&self) -> Option<BrokerError> {
        let attempt = timeout(self.timeout, self.first_attempt()).await;
        attempt.unwrap_or_else(|_| Err(late())).err().map(BrokerError::unsent)
    }

    /// Returns the number of the current connection, counted from 1; 0 while there is none. A new number means that
    /// Redis may be another or have restarted.
    pub(super) fn generation(&self) -> u64 {
        self.current().map_or(0, |up| up.generation)
    }

    /// Returns a number that is another one once a connection leads to another process of Redis, or to one that does not say which it
    /// is; 0 while there is none.
    pub(super) fn process(&self) -> u64 {
        self.current().map_or(0, |up| up.process)
    }

    /// Waits until `connection` is not the one in use any more. Waits for ever if the broker is closed, which
    /// [`ended`](Self::ended) reports.
    pub(super) async fn leaves(&self, connection: u64) {
        let is_other = |state: &State| match state {
            State::Up(up) => up.generation != connection,
            State::Down { error, .. } => error.kind() != BrokerErrorKind::Closed,
            State::Opening => true,
        };
        if self.state.clone().wait_for(is_other).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the server of the current connection, and the identity of that connection; `None` while there is none,
    /// or if Redis hides the identity.
    pub(super) fn present(&self) -> Option<(Address, Arc<Identity>)> {
        let up = self.current()?;
        Some((up.to.clone(), up.identity.clone()?))
    }

    /// Ends another connection of this broker, so that Redis runs no call of it from now on. If Redis is another
    /// process by now, no call is left to run.
    pub(super) async fn end_abandoned(&self, other: &Identity) -> Result<(), BrokerError> {
        let up = self.up().await?;
        if up.identity.as_ref().is_none_or(|own| own.run_id != other.run_id) {
            return Ok(());
        }
        let mut kill = Pipeline::new();
        kill.add_command(other.kill());
        // An error that Redis answers is accepted: the connection may be gone, or the ACL may forbid the command. Only
        // a missing answer is a failure.
        self.exchange_on(up, &kill).await.map(|_| ())
    }

    /// Returns the server of the current connection.
    pub(super) fn connected_to(&self) -> Option<Address> {
        self.current().map(|up| up.to.clone())
    }

    fn current(&self) -> Option<Arc<Up>> {
        match &*self.state.borrow() {
            State::Up(up) => Some(Arc::clone(up)),
            _ => None,
        }
    }

    /// Drops the connection; the next one may lead to another server.
    #[cfg(feature = "cluster")]
    pub(super) fn reconnect(&self) {
        report_lost(&self.lost, self.generation());
    }

    /// Sends `calls` in one write, or in several where they are large, each followed by the wait that `durability` asks
    /// for, and returns one reply each. Behind a write that was not answered, nothing is sent. A script that Redis does not know is sent
    /// again with its text, alone; nothing else is ever sent twice.
    ///
    /// # Errors
    ///
    /// No call was answered. Whether any of them took effect is then unknown, unless the error [`is_unsent`](BrokerError::is_unsent).
    pub(super) async fn send(&self, calls: Vec<Call>, durability: Durability) -> Result<Vec<Reply>, BrokerError> {
        let size = calls.len();
        let mut replies = Vec::with_capacity(size);
        for write in writes(calls) {
            let lost = match self.write(write, durability).await {
                Ok(some) => {
                    let lost = some.iter().find_map(|reply| reply.value.as_ref().err().cloned());
                    replies.extend(some);
                    lost
                }
                Err(error) if replies.is_empty() => return Err(error),
                Err(error) => Some(error),
            };
            if let Some(error) = lost {
                // Later calls would wait as long for a connection, and would overtake these.
                replies.resize(size, Reply { value: Err(error), doubt: None });
                break;
            }
        }
        Ok(replies)
    }

    async fn write(&self, calls: Vec<Call>, durability: Durability) -> Result<Vec<Reply>, BrokerError> {
        let mut sent = Pipelined::new(calls);
        let (mut values, mut doubt) = self.exchange_and_wait(&mut sent.pipeline, durability).await?;
        let mut failure = None;
        if let Some(mut forgotten) = sent.forgotten(&values) {
            // The other calls were answered, and their answers count even if this exchange fails.
            match self.exchange_and_wait(&mut forgotten.pipeline, durability).await {
                Ok((by, later)) => {
                    doubt = doubt.or(later);
                    forgotten.replace(&mut values, by);
                }
                Err(error) => failure = Some(error),
            }
        }
        let value = |value: Value| match &failure {
            Some(error) if is_noscript(&value) => Err(error.clone()),
            _ => Ok(value),
        };
        let values = sent.without_asking(values).into_iter().map(value);
        Ok(values.map(|value| Reply { value, doubt: doubt.clone() }).collect())
    }

    /// Sends `pipeline` and the wait of `durability`. Returns the answers, and the reason if the durability was not
    /// reached.
    async fn exchange_and_wait(
        &self,
        pipeline: &mut Pipeline,
        durability: Durability,
    ) -> Result<(Vec<Value>, Option<BrokerError>), BrokerError> {
        let Some(wait) = durability.wait() else { return Ok((self.exchange(pipeline).await?, None)) };
        let (_, _, command) = wait.into_parts();
        pipeline.add_command(command);
        let mut values = self.exchange(pipeline).await?;
        let last = values.pop().unwrap_or_default();
        Ok((values, durability.confirmed(answer(last)).err()))
    }

    async fn exchange(&self, pipeline: &Pipeline) -> Result<Vec<Value>, BrokerError> {
        self.exchange_on(self.up().await.map_err(BrokerError::unsent)?, pipeline).await
    }

    async fn exchange_on(&self, up: Arc<Up>, pipeline: &Pipeline) -> Result<Vec<Value>, BrokerError> {
        let Up { connection, generation, .. } = &*up;
        match connection.exchange(pipeline).await {
            Ok(values) if values.len() == pipeline.len() => {
                if values.iter().any(is_demoted) {
                    report_lost(&self.lost, *generation);
                } else {
                    connection.note_use();
                }
                Ok(values)
            }
            Ok(_) => {
                report_lost(&self.lost, *generation);
                Err(reply::unexpected("a wrong number of answers"))
            }
            Err(error) => {
                // A connection that does not answer may never do so again, so it is replaced.
                report_lost(&self.lost, *generation);
                if self.state.has_changed().is_err() { Err(closed()) } else { Err(error) }
            }
        }
    }

    /// Returns the connection; waits for one until the time-out.
    async fn up(&self) -> Result<Arc<Up>, BrokerError> {
        let usable = |state: &State| match state {
            // A caller has reported this connection as lost, and the manager has not taken it away yet.
            State::Up(up) if up.generation <= *self.lost.borrow() => None,
            State::Up(up) => Some(Ok(Arc::clone(up))),
            // Waiting does not change these errors.
            State::Down { error, .. } if !error.is_unavailable() => Some(Err(error.clone())),
            State::Down { .. } | State::Opening => None,
        };
        if self.state.has_changed().is_err() {
            return Err(closed());
        }
        if let Some(found) = usable(&self.state.borrow()) {
            return found;
        }
        // Keeps the state that ended the wait: by a second look, another caller may have reported that connection as
        // lost.
        let (mut state, mut found) = (self.state.clone(), None);
        let is_usable = |state: &State| {
            found = usable(state);
            found.is_some()
        };
        let ended = timeout(self.timeout, state.wait_for(is_usable)).await.map(drop);
        match ended {
            Ok(()) => found.unwrap_or_else(|| Err(closed())),
            Err(_) => match &*self.state.borrow() {
                State::Down { error, .. } => Err(error.clone()),
                _ => Err(late()),
            },
        }
    }

    /// Waits until the broker is closed, and returns the error that says so.
    pub(super) async fn ended(&self) -> BrokerError {
        let mut state = self.state.clone();
        while state.changed().await.is_ok() {}
        closed()
    }
}

/// Splits `calls` into writes of at most [`WRITE`] bytes. Only a single call, with those that must go along, may be
/// longer.
fn writes(calls: Vec<Call>) -> Vec<Vec<Call>> {
    let mut writes = vec![Vec::new()];
    let (mut bytes, mut is_together) = (0, false);
    for call in calls {
        let (size, with_next) = (call.bytes(), call.with_next);
        bytes += size;
        match writes.last_mut() {
            Some(write) if write.is_empty() || is_together || bytes <= WRITE => write.push(call),
            _ => {
                bytes = size;
                writes.push(vec![call]);
            }
        }
        is_together = with_next;
    }
    writes.retain(|write| !write.is_empty());
    writes
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{
        super::{
            fake_server::{Reaction, holds, role_to, serve},
            script::ENQUEUE_ONE,
        },
        *,
    };
    use crate::thread::Thread;

    #[tokio::test]
    async fn a_write_that_is_not_answered_is_the_last_of_its_batch() {
        for answered in [0, 1] {
            let thread = Thread::start("t").unwrap();
            let read = AtomicUsize::new(0);
            // The first connection is closed in place of the next answer; those after it work.
            let url = serve(move |connection, bytes| {
                let commands = bytes.iter().filter(|byte| **byte == b'!').count();
                let before = read.fetch_add(commands, Ordering::SeqCst);
                let is_lost = connection == 0 && commands > 0 && before == answered;
                if is_lost { Reaction::Close } else { Reaction::Answer }
            });
            let connection = Connection::open(&thread.tasks(), role_to(&url));
            connection.first_attempt().await.unwrap();
            let calls = (0..4).map(|_| Call::plain("!").arg(vec![0_u8; WRITE])).collect();
            let are_answered: Vec<bool> = match connection.send(calls, Durability::Async).await {
                Ok(replies) => replies.into_iter().map(|reply| reply.value.is_ok()).collect(),
                Err(error) => {
                    assert!(error.is_unavailable() && !error.is_unsent(), "{error:?}");
                    vec![false; 4]
                }
            };
            assert_eq!(are_answered, [answered == 1, false, false, false]);
        }
    }

    #[tokio::test]
    async fn a_call_without_a_connection_says_that_it_was_not_sent() {
        let thread = Thread::start("t").unwrap();
        let role = Role { timeout: Duration::ZERO, ..role_to("redis://127.0.0.1:1") };
        let connection = Connection::open(&thread.tasks(), role);
        let unsent = async || {
            let error = connection.send(vec![Call::plain("!")], Durability::Async).await.unwrap_err();
            assert!(error.is_unavailable() && error.is_unsent(), "{error:?}");
        };
        unsent().await;
        connection.first_attempt().await.unwrap_err();
        unsent().await;
        assert!(connection.away().unwrap().is_unsent());
    }

    #[tokio::test]
    async fn nothing_is_sent_behind_a_script_whose_repeat_was_lost() {
        let thread = Thread::start("t").unwrap();
        let later = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&later);
        let url = serve(move |_, bytes| {
            seen.fetch_add(bytes.iter().filter(|byte| **byte == b'!').count(), Ordering::SeqCst);
            if holds(bytes, "EVALSHA\r\n") {
                return Reaction::Forget;
            }
            if holds(bytes, "EVAL\r\n") { Reaction::Close } else { Reaction::Answer }
        });
        let connection = Connection::open(&thread.tasks(), role_to(&url));
        connection.first_attempt().await.unwrap();
        let calls = vec![ENQUEUE_ONE.on(&["key"]), Call::plain("!").arg(vec![0_u8; WRITE])];
        let replies = connection.send(calls, Durability::Async).await.unwrap();
        let errors: Vec<_> = replies.into_iter().map(|reply| reply.value.unwrap_err()).collect();
        assert!(errors.len() == 2 && errors.iter().all(BrokerError::is_unavailable), "{errors:?}");
        assert_eq!(later.load(Ordering::SeqCst), 0, "the call behind would overtake the script");
    }

    #[test]
    fn large_calls_are_sent_in_several_writes_and_small_ones_in_one() {
        let call = |bytes: usize| Call::plain("SET").arg(vec![0_u8; bytes]);
        let sizes = |calls: &[usize]| -> Vec<usize> {
            writes(calls.iter().map(|&bytes| call(bytes)).collect()).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[]), [] as [usize; 0]);
        assert_eq!(sizes(&[10; 500]), [500]);
        assert_eq!(sizes(&[WRITE * 2, 1, WRITE - 100, 1000, 1]), [1, 2, 2]);
        let unit = || [call(1).with_next(), call(WRITE).with_next(), call(1)];
        let together = writes(unit().into_iter().chain(unit()).collect());
        assert_eq!(together.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3], "a write each");
    }
}

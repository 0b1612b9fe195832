//! A connection for a lone caller: the calling task drives it, so that no other thread is woken.
//!
//! Two callers are alone: a producer that awaits each enqueue before the next, and the fetcher of a server. No other
//! caller ever waits for the dedicated connection: a caller that is held up, or dropped, takes it along and harms only
//! itself. The connection is opened in the background once callers of one runtime have come one by one for a while. It
//! is used only while the broker's own connection leads to the same Redis process. The broker's own connection learns
//! of failovers, and it ends the dedicated one (`CLIENT KILL`) before an unanswered call is repeated there, or its
//! tasks are looked for.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::{self, Handle},
    task::AbortHandle,
    time::timeout,
};

pub(super) use super::caller_driven::Sent;
use super::{
    super::{BrokerError, far},
    back_off::{Life, after_failure, after_loss},
    caller_driven::{CallerDrivenConnection, Purpose},
    connection::Connection,
    connection_manager::late,
    identity::Identity,
    role::Role,
    router::Router,
    script::Call,
    seen::SharedSeen,
    socket::Progress,
};

/// Number of lone calls in a row after which a producer opens a connection, or another runtime takes its place.
pub(super) const OFTEN: u32 = 8;
/// Longest time between two lone calls of one runtime that are in a row.
const SOON: Duration = Duration::from_secs(1);

/// A slot for the connection, and the conditions for opening one.
pub(super) struct DedicatedConnection {
    connection: Connection,
    role: Role,
    purpose: Purpose,
    often: u32,
    slot: Arc<Mutex<Slot>>,
}

#[derive(Default)]
struct Slot {
    state: SlotState,
    streak: Option<Streak>,
    failures: u32,
    /// The earliest time of the next attempt to open a connection.
    not_before: Option<Instant>,
    /// Numbers the connections.
    opened: u64,
    opening: Option<AbortHandle>,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Nothing,
    Opening,
    Free(Box<Own>),
    /// A caller has taken the connection.
    Taken,
    /// The broker was closed.
    Closed,
}

/// Calls that came one by one.
#[derive(Debug, Clone, Copy)]
struct Streak {
    runtime: runtime::Id,
    calls: u32,
    last: Instant,
}

struct Own {
    driven: CallerDrivenConnection,
    /// The generation of the broker's own connection when this one was opened.
    generation: u64,
    since: Instant,
    /// The number in the names of its receipts. It differs for each connection, because receipts of an earlier one may
    /// still be looked for.
    number: u64,
    sends: u64,
    /// Whether a call was answered on it, and not refused as by a replica.
    was_of_use: bool,
}

impl DedicatedConnection {
    /// Creates the slot of a connection beside the broker's own one, which is opened after `often` lone calls of one
    /// runtime in a row. `None` in a cluster.
    pub(super) fn beside(router: &Router, role: &Role, purpose: Purpose, often: u32) -> Option<Self> {
        match router {
            Router::One(connection) => {
                Some(Self { connection: connection.clone(), role: role.clone(), purpose, often, slot: Arc::default() })
            }
            #[cfg(feature = "cluster")]
            Router::Many(_) => None,
        }
    }

    /// Takes the connection for a call of a lone caller, if it is open and can be used. Otherwise it may begin to open
    /// one.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let runtime = Handle::try_current().ok()?;
        let (now, generation) = (Instant::now(), self.connection.generation());
        // Dropped after the lock is released.
        let _stale;
        let mut slot = self.slot.lock();
        let calls = slot.count(runtime.id(), now);
        match mem::take(&mut slot.state) {
            SlotState::Free(own) if own.generation == generation && own.driven.runtime == runtime.id() => {
                slot.state = SlotState::Taken;
                return Some(Taken { dedicated: self, own: Some(own), in_call: false });
            }
            // The connection belongs to another runtime, which may still need it.
            SlotState::Free(own) if own.generation == generation && calls < OFTEN => {
                slot.state = SlotState::Free(own);
                return None;
            }
            SlotState::Free(own) => _stale = own,
            SlotState::Nothing => {}
            other => {
                slot.state = other;
                return None;
            }
        }
        if calls >= self.often && slot.not_before.is_none_or(|at| at <= now) && generation > 0 {
            slot.state = SlotState::Opening;
            slot.opened += 1;
            let opening = self.open(generation, slot.opened);
            // Without the lock: a runtime that shuts down drops the task at once, and its `Drop` locks the slot.
            drop(slot);
            let task = runtime.spawn(opening).abort_handle();
            let mut slot = self.slot.lock();
            match slot.state {
                SlotState::Opening => slot.opening = Some(task),
                _ => task.abort(),
            }
        }
        None
    }

    /// Closes the connection and opens no other.
    pub(super) fn close(&self) {
        let mut slot = self.slot.lock();
        let state = mem::replace(&mut slot.state, SlotState::Closed);
        let opening = slot.opening.take();
        drop(slot);
        drop(state);
        if let Some(opening) = opening {
            opening.abort();
        }
    }

    /// Opens the connection. The future runs on the caller's runtime, to which the connection then belongs.
    fn open(&self, generation: u64, number: u64) -> impl Future<Output = ()> + Send + 'static {
        let opening = Opening { slot: Arc::clone(&self.slot), outcome: None };
        let (present, role, purpose) = (self.connection.present(), self.role.clone(), self.purpose);
        async move {
            let Some((address, identity)) = present else { return };
            let connecting = CallerDrivenConnection::open(&role.target, &address, &identity, purpose, role.timeout);
            let opened = timeout(role.timeout, connecting).await.unwrap_or_else(|_| Err(late()));
            let own = |driven| {
                Box::new(Own { driven, generation, since: Instant::now(), number, sends: 0, was_of_use: false })
            };
            opening.done(opened.map(own));
        }
    }
}

impl Drop for DedicatedConnection {
    fn drop(&mut self) {
        self.close();
    }
}

partial_debug!(DedicatedConnection { .. });

impl Slot {
    /// Counts a lone call; returns how many there were in a row.
    fn count(&mut self, runtime: runtime::Id, now: Instant) -> u32 {
        let calls = match self.streak {
            Some(streak) if streak.runtime == runtime && now.duration_since(streak.last) <= SOON => {
                streak.calls.saturating_add(1)
            }
            _ => 1,
        };
        self.streak = Some(Streak { runtime, calls, last: now });
        calls
    }

    /// Notes that the connection was lost, and sets the pause before the next attempt to open one.
    fn lost(&mut self, now: Instant, life: Life) {
        self.failures = life.failures(self.failures);
        self.not_before = Some(now + after_loss(self.failures));
    }

    /// Notes that no connection could be opened, and sets the pause before the next attempt: calls go over the broker's
    /// own connection meanwhile.
    fn failed(&mut self, now: Instant, error: &BrokerError) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + after_failure(error, false, self.failures));
    }

    fn put(&mut self, state: SlotState) {
        if !matches!(self.state, SlotState::Closed) {
            self.state = state;
        }
    }
}

/// Reports the outcome of an attempt to the slot, even if the runtime ends before the attempt does.
struct Opening {
    slot: Arc<Mutex<Slot>>,
    /// `None` if the attempt did not end.
    outcome: Option<Result<Box<Own>, BrokerError>>,
}

impl Opening {
    fn done(mut self, outcome: Result<Box<Own>, BrokerError>) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        slot.opening = None;
        match self.outcome.take() {
            Some(Ok(own)) => return slot.put(SlotState::Free(own)),
            Some(Err(error)) => slot.failed(Instant::now(), &error),
            None => slot.lost(Instant::now(), Life { lasted: Duration::ZERO, was_of_use: false }),
        }
        slot.put(SlotState::Nothing);
    }
}

/// The connection while one caller uses it. Dropping it leaves the connection to the next caller, unless an answer is
/// outstanding.
pub(super) struct Taken<'d> {
    dedicated: &'d DedicatedConnection,
    own: Option<Box<Own>>,
    in_call: bool,
}

impl Taken<'_> {
    /// Returns the generation of the broker's own connection, which leads to the same process.
    pub(super) fn generation(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.generation)
    }

    /// Returns a name for receipts and the number of the next one. No two calls have the same.
    pub(super) fn next_receipt(&mut self) -> (String, u64) {
        let Some(own) = &mut self.own else { return (String::new(), 0) };
        own.sends += 1;
        (format!("d{}", own.number), own.sends)
    }

    /// Returns the identity of the connection to end if a call gets no answer, and the record of the last byte that went through it.
    pub(super) fn sent_on(&self) -> Option<(Arc<Identity>, Progress)> {
        self.own.as_ref().map(|own| (Arc::clone(&own.driven.identity), own.driven.progress.clone()))
    }

    /// Sends `calls` in one write. A script that Redis does not know is sent again with its text; nothing else is ever
    /// sent twice here.
    pub(super) async fn exchange(&mut self, calls: Vec<Call>) -> Sent {
        let Some(own) = &mut self.own else { return Sent::Not };
        self.in_call = true;
        let (sent, is_of_use) = own.driven.send(calls).await;
        self.in_call = false;
        own.was_of_use |= is_of_use;
        if !is_of_use {
            self.lose();
        }
        sent
    }

    /// Returns the answers read on this connection that no announced change made unknown.
    pub(super) fn seen(&self) -> SharedSeen {
        self.own.as_ref().map(|own| Arc::clone(&own.driven.seen)).unwrap_or_default()
    }

    /// Reads the announcements that have arrived; `false` if the connection has ended.
    pub(super) fn catch_up(&mut self) -> bool {
        let is_there = self.own.as_mut().is_some_and(|own| !own.driven.is_gone());
        if !is_there {
            self.lose();
        }
        is_there
    }

    /// Waits until an announcement on this connection after which `has_changed`. `false` after `limit`, or if this connection or the
    /// broker's own has ended, so that changes are not announced any more.
    pub(super) async fn receive(&mut self, has_changed: impl Fn() -> bool, limit: Duration) -> bool {
        let generation = self.generation();
        let Some(own) = &mut self.own else { return false };
        let end = far(tokio::time::Instant::now(), limit);
        let received = tokio::select! {
            received = own.driven.receive(has_changed, end) => received,
            () = self.dedicated.connection.leaves(generation) => false,
        };
        if !received {
            self.catch_up();
        }
        received
    }

    /// Gives the connection up: the next caller opens another.
    pub(super) fn lose(&mut self) {
        if let Some(own) = self.own.take() {
            let now = Instant::now();
            let mut slot = self.dedicated.slot.lock();
            slot.lost(now, Life { lasted: now.duration_since(own.since), was_of_use: own.was_of_use });
            slot.put(SlotState::Nothing);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.in_call {
            return self.lose();
        }
        if let Some(own) = self.own.take() {
            self.dedicated.slot.lock().put(SlotState::Free(own));
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::PATIENCE;

    use super::{
        super::{
            super::BrokerErrorKind,
            fake_server::{Reaction, holds, identity, role_to, serve},
            url::Endpoints,
        },
        *,
    };
    use crate::thread::Thread;

    #[tokio::test]
    async fn calls_are_in_a_row_while_they_come_soon_and_from_one_runtime() {
        let here = Handle::current().id();
        let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let there = other.handle().id();
        let (mut slot, began) = (Slot::default(), Instant::now());
        let cases = [(here, 0, 1), (here, 10, 2), (here, 1010, 3), (here, 2011, 1), (there, 2012, 1), (here, 2013, 1)];
        for (runtime, ms, expected) in cases {
            assert_eq!(slot.count(runtime, began + Duration::from_millis(ms)), expected, "at {ms} ms");
        }
        other.shutdown_background();
    }

    #[test]
    fn a_connection_that_does_not_last_is_opened_again_later_and_later() {
        let (mut slot, now) = (Slot::default(), Instant::now());
        let brief = Life { lasted: Duration::ZERO, was_of_use: false };
        let mut pause = |life| {
            slot.lost(now, life);
            slot.not_before.map(|at| at - now)
        };
        let brief_of_use = Life { was_of_use: true, ..brief };
        for (life, longest) in [(brief, 20), (brief, 40), (brief, 80), (brief_of_use, 20)] {
            let longest = Duration::from_millis(longest);
            let drawn = pause(life).unwrap();
            assert!((longest / 2..=longest).contains(&drawn), "{drawn:?}, at most {longest:?}");
        }
        let lasted = Life { lasted: Duration::from_secs(1), ..brief };
        assert_eq!(pause(lasted), Some(Duration::ZERO), "it lasted: the next one may be opened at once");
        slot.put(SlotState::Closed);
        slot.put(SlotState::Nothing);
        assert!(matches!(slot.state, SlotState::Closed), "closed is closed");
    }

    #[tokio::test]
    async fn a_connection_on_which_a_replica_refuses_each_call_is_opened_again_later_and_later() {
        let thread = Thread::start("t").unwrap();
        let url = serve(|_, bytes| if holds(bytes, "!") { Reaction::Refuse } else { Reaction::Introduce });
        let (role, often, slot) = (role_to(&url), OFTEN, Arc::default());
        let Endpoints::One(address) = &role.target.endpoints else { panic!("the URL names one server") };
        let connection = Connection::open(&thread.tasks(), role.clone());
        let dedicated = DedicatedConnection { connection, role: role.clone(), purpose: Purpose::Calls, often, slot };
        for number in 1..=2_u32 {
            let opened =
                CallerDrivenConnection::open(&role.target, address, &identity(), Purpose::Calls, role.timeout).await;
            // However slow the machine is, the connection does not last.
            let since = Instant::now() + PATIENCE;
            let own = Own {
                driven: opened.unwrap(),
                generation: 1,
                since,
                number: number.into(),
                sends: 0,
                was_of_use: false,
            };
            let mut taken = Taken { dedicated: &dedicated, own: Some(Box::new(own)), in_call: false };
            assert!(matches!(taken.exchange(vec![Call::plain("!")]).await, Sent::Answered(_)));
            assert_eq!(dedicated.slot.lock().failures, number);
        }
    }

    #[test]
    fn a_connection_that_redis_refuses_is_asked_for_once_a_minute() {
        let began = Instant::now();
        for (kind, is_refusal) in [(BrokerErrorKind::Timeout, false), (BrokerErrorKind::Denied, true)] {
            let slot = Arc::new(Mutex::new(Slot::default()));
            let opening = Opening { slot: Arc::clone(&slot), outcome: None };
            opening.done(Err(BrokerError::new(kind, "refused")));
            let pause = slot.lock().not_before.unwrap() - began;
            assert_eq!(pause >= Duration::from_secs(60), is_refusal, "{kind:?}: {pause:?}");
        }
    }
}

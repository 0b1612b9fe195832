//! One call to a thread: a closure, the channel for its answer, and a flag that decides whether the thread began the call or
//! the caller gave it up first.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::broker::BrokerError;

use super::{
    shared_state::SharedState,
    tx::{Tx, View},
};

/// The order of the steps in one commit: a task that is inserted can be claimed in the same commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// Leases and beats, which keep tasks with the worker that runs them.
    Lease,
    /// New tasks; the first to be refused when the disk is full.
    Insert,
    /// Outcomes, and everything small.
    Settle,
    /// Tasks that become pending, and other maintenance.
    Forward,
    /// Claims of pending tasks.
    Claim,
}

/// A call as the writer sees it.
pub(super) struct Command {
    pub(super) priority: Priority,
    /// How many tasks the call is about.
    pub(super) items: usize,
    /// Whether a power cut may undo the call.
    pub(super) may_be_lost: bool,
    /// Says when the call has something to do; `None` for a call that does not wait for that.
    pub(super) ready: Option<IsReady>,
    pub(super) call: Box<dyn Call>,
}

partial_debug!(Command { priority, items, .. });

impl Command {
    /// Returns when the call will have something to do.
    pub(super) fn ready(&self, view: &View<'_>) -> Ready {
        // The transaction meets the error again and reports it.
        self.ready.as_ref().and_then(|ready| ready(view).ok()).unwrap_or(Ready::Now)
    }

    /// Sends the answer, as [`Call::finish`] does; all that the command holds is dropped before.
    pub(super) fn finish(self, error: Option<BrokerError>) {
        let Self { ready, call, .. } = self;
        drop(ready);
        call.finish(error);
    }
}

/// The steps of a call, whatever its result.
pub(super) trait Call: Send {
    /// Begins the call, unless its caller has given up; returns whether the call is begun.
    fn begin(&self) -> bool;

    /// Returns whether the caller of the call is gone.
    fn is_given_up(&self) -> bool;

    /// Returns whether [`look`](Self::look) can find an answer.
    fn can_look(&self) -> bool;

    /// Tries to find the answer without a write transaction, but in a read transaction; returns whether it succeeded.
    fn look(&mut self, view: &View<'_>) -> bool;

    /// Runs the call in a transaction. May be called again after a rollback.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;

    /// Sends the answer: the result of the last run or look, or `error`.
    fn finish(self: Box<Self>, error: Option<BrokerError>);
}

/// Says whether a call was begun or given up, whichever came first.
#[derive(Debug, Default)]
pub(super) struct CancelFlag(AtomicU8);

const FRESH: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl CancelFlag {
    /// Begins the call; `false` if its caller has given up.
    pub(super) fn begin(&self) -> bool {
        match self.0.compare_exchange(FRESH, BEGUN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == BEGUN,
        }
    }

    fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == GIVEN_UP
    }

    /// Gives the call up; `true` if it has not been begun and never will be.
    pub(super) fn give_up(&self) -> bool {
        match self.0.compare_exchange(FRESH, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == GIVEN_UP,
        }
    }
}

/// The caller of a call, as the thread that does the call sees it.
pub(super) struct Caller<T> {
    pub(super) cancel_flag: Arc<CancelFlag>,
    pub(super) reply: oneshot::Sender<Result<T, BrokerError>>,
    pub(super) _room: OwnedSemaphorePermit,
}

impl<T> Caller<T> {
    /// Begins the call, unless its caller has given up or is gone: a caller that is dropped does not set the flag. A call that was begun
    /// stays begun.
    fn begin(&self) -> bool {
        if self.reply.is_closed() {
            self.cancel_flag.give_up();
        }
        self.cancel_flag.begin()
    }

    fn is_gone(&self) -> bool {
        self.cancel_flag.is_given_up() || self.reply.is_closed()
    }
}

/// When a call that waits has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    /// At once.
    Now,
    /// At this time, in Unix milliseconds.
    At(i64),
    /// At the next write of any program.
    AfterNotification,
}

pub(super) type IsReady = Box<dyn Fn(&View<'_>) -> rusqlite::Result<Ready> + Send>;
type Look<T> = Box<dyn Fn(&View<'_>) -> rusqlite::Result<Option<T>> + Send>;
type Run<T> = Box<dyn FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send>;
type AfterCommit<T> = Box<dyn FnOnce(&T) + Send>;

/// The work that a call gives to the writer.
pub(super) struct WriteCommand<T> {
    pub(super) priority: Priority,
    items: usize,
    may_be_lost: bool,
    ready: Option<IsReady>,
    look: Option<Look<T>>,
    run: Run<T>,
    after_commit: Option<AfterCommit<T>>,
}

impl<T: Send + 'static> WriteCommand<T> {
    /// Runs `run` in a write transaction.
    pub(super) fn new(
        priority: Priority,
        items: usize,
        run: impl FnMut(&mut Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Self {
        Self { priority, items, may_be_lost: false, ready: None, look: None, run: Box::new(run), after_commit: None }
    }

    /// Lets the writer answer the command before it is durable: claims of tasks and of sets, leases and forwards are redone after
    /// a power cut. The worker ended with the power, a due time comes again, and tokens are drawn from the clock, so that no token
    /// is given twice. A set whose claim is lost was not finished, because to finish it would have made the claim durable: its
    /// tasks are in their group. The only loss is that the end of the worker counts as a crash. The next command that waits for
    /// the disk, a heartbeat at the latest, makes the commit durable.
    pub(super) fn may_be_lost(self) -> Self {
        Self { may_be_lost: true, ..self }
    }

    /// Has the command wait until `ready` says that there is something to do. The writer asks `ready` again after each write of
    /// any program.
    pub(super) fn once(self, ready: impl Fn(&View<'_>) -> rusqlite::Result<Ready> + Send + 'static) -> Self {
        Self { ready: Some(Box::new(ready)), ..self }
    }

    /// Tries `look` first, which spares the write lock when it finds the answer.
    pub(super) fn unless(self, look: impl Fn(&View<'_>) -> rusqlite::Result<Option<T>> + Send + 'static) -> Self {
        Self { look: Some(Box::new(look)), ..self }
    }

    /// Calls `then` with the result before the caller is answered, also if the caller has gone since the command was begun. A
    /// command that [`unless`](Self::unless) answers calls it, too, without a commit; no command has both.
    pub(super) fn after_commit(self, then: impl FnOnce(&T) + Send + 'static) -> Self {
        Self { after_commit: Some(Box::new(then)), ..self }
    }

    /// Returns the command as the writer takes it.
    pub(super) fn called_by(mut self, caller: Caller<T>) -> Command {
        Command {
            priority: self.priority,
            items: self.items,
            may_be_lost: self.may_be_lost,
            ready: self.ready.take(),
            call: Box::new(SentCommand { command: self, caller, outcome: None }),
        }
    }
}

/// A command with its caller.
struct SentCommand<T> {
    command: WriteCommand<T>,
    caller: Caller<T>,
    outcome: Option<T>,
}

impl<T: Send> Call for SentCommand<T> {
    fn begin(&self) -> bool {
        self.caller.begin()
    }

    fn is_given_up(&self) -> bool {
        self.caller.is_gone()
    }

    fn can_look(&self) -> bool {
        self.command.look.is_some()
    }

    fn look(&mut self, view: &View<'_>) -> bool {
        // The transaction meets the error again and reports it.
        self.outcome = self.command.look.as_ref().and_then(|look| look(view).ok().flatten());
        self.outcome.is_some()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.outcome = None;
        self.outcome = Some((self.command.run)(tx)?);
        Ok(())
    }

    fn finish(self: Box<Self>, error: Option<BrokerError>) {
        let Self { mut command, caller, outcome } = *self;
        if let (None, Some(outcome), Some(then)) = (&error, &outcome, command.after_commit.take()) {
            then(outcome);
        }
        // Resources of the command, file locks for instance, are free again before its caller goes on.
        drop(command);
        let answer = match (error, outcome) {
            (Some(error), _) => Err(error),
            (None, Some(outcome)) => Ok(outcome),
            // Dropping the sender tells the caller that nothing was done.
            (None, None) => return,
        };
        let _ = caller.reply.send(answer);
    }
}

/// A read as a reader sees it.
pub(super) trait ReadRequest: Send {
    fn begin(&self) -> bool;
    fn run(self: Box<Self>, view: Result<View<'_>, BrokerError>, common: &SharedState);
}

/// A read with its caller.
pub(super) struct ReadCall<T, F> {
    pub(super) read: F,
    pub(super) caller: Caller<T>,
}

impl<T: Send, F: FnOnce(&View<'_>) -> rusqlite::Result<T> + Send> ReadRequest for ReadCall<T, F> {
    fn begin(&self) -> bool {
        self.caller.begin()
    }

    fn run(self: Box<Self>, view: Result<View<'_>, BrokerError>, common: &SharedState) {
        let Self { read, caller } = *self;
        // The end of the broker stops a query as one that is too slow is stopped.
        let explain = |error| if common.is_closed() { common.closed_error() } else { common.explain(error) };
        let answer = view.and_then(|view| view.at_one_moment(read).map_err(explain));
        let _ = caller.reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    impl<T> Caller<T> {
        /// Returns a caller, and the end of the channel at which it waits.
        pub(in super::super) fn of_a_test() -> (Self, oneshot::Receiver<Result<T, BrokerError>>) {
            let (reply, answer) = oneshot::channel();
            let _room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            (Self { cancel_flag: Arc::default(), reply, _room }, answer)
        }
    }

    #[test]
    fn a_call_is_either_begun_or_given_up_never_both() {
        let cancel_flag = CancelFlag::default();
        assert!(cancel_flag.begin());
        assert!(cancel_flag.begin(), "a call that waits for the next commit is begun again");
        assert!(!cancel_flag.give_up());
        let cancel_flag = CancelFlag::default();
        assert!(cancel_flag.give_up());
        assert!(cancel_flag.give_up());
        assert!(!cancel_flag.begin());
    }

    #[test]
    fn a_call_whose_caller_is_gone_is_not_begun_but_one_that_was_begun_goes_on() {
        let [(begun, answer), (fresh, other)] = [(); 2].map(|()| Caller::<()>::of_a_test());
        assert!(begun.begin());
        drop((answer, other));
        assert!(begun.begin());
        assert!(!fresh.begin() && fresh.cancel_flag.is_given_up());
    }
}

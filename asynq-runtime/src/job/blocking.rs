//! Blocking jobs run on threads of their own, never on the async ones, up to a limit of their own.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeFlavor},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
};

use super::error::{JobError, JobResult};
use crate::{panics, propagation, until::until};

/// The pause after a thread could not be started.
const AFTER_NO_THREAD: Duration = Duration::from_secs(1);

/// The limit of blocking jobs that run at the same time.
///
/// A blocking job keeps its permit until its thread returns, even after its attempt has timed out: a thread cannot be
/// stopped, and starting another would exceed the limit.
///
/// The threads do not belong to the jobs' runtime, whose drop would wait for each of them for ever. Jobs of a current-thread
/// runtime use its own threads: its clock may be paused, and would advance while a thread of another runtime works.
#[derive(Debug, Clone)]
pub struct BlockingPool {
    permits: Arc<Semaphore>,
    busy: Arc<RunningThreads>,
    threads: Arc<Threads>,
}

/// The threads, started when needed. Dropping this value waits for none of them.
#[derive(Debug)]
struct Threads {
    limit: usize,
    /// The runtime of the threads, made with the first of them.
    runtime: OnceLock<Option<Runtime>>,
}

impl Threads {
    /// Returns the runtime whose threads run the blocking jobs of the runtime `jobs`.
    fn handle<'a>(&'a self, jobs: &'a Handle) -> &'a Handle {
        if jobs.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return jobs;
        }
        // A runtime without I/O and timers asks for nothing that the operating system could refuse.
        let build = || {
            let mut builder = Builder::new_current_thread();
            builder.thread_name("asynq-blocking").max_blocking_threads(self.limit).build().ok()
        };
        self.runtime.get_or_init(build).as_ref().map_or(jobs, Runtime::handle)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// The threads that were started through one handle and its clones.
#[derive(Default)]
struct RunningThreads {
    threads: AtomicUsize,
    /// Notified when the last thread has returned, and when the last result was taken or dropped.
    none: Notify,
    /// Dropped when the last thread returns.
    guards: Mutex<Vec<Box<dyn Any + Send>>>,
    /// How many bodies wait for a thread that is free.
    waiting: AtomicUsize,
    /// How many results were neither taken nor dropped since their threads were started.
    results: AtomicUsize,
    queued: Mutex<Queued>,
}

/// The bodies that are on their way to a thread: the operating system may refuse the thread, and what was sent stays in the queue
/// for any later one. A body runs only if its thread finds its entry here; an attempt that gives it up takes the entry away.
#[derive(Default)]
struct Queued {
    /// Whether no further body is let in.
    is_closed: bool,
    next: u64,
    entries: HashMap<u64, (ThreadPermit, OwedResult)>,
}

partial_debug!(RunningThreads { threads, .. });

impl RunningThreads {
    /// Enters a body that is sent to a thread, and returns its number; `None` after the handle gave up its bodies.
    fn enter_queue(&self, permit: ThreadPermit, owed: OwedResult) -> Option<u64> {
        let mut queued = self.queued.lock();
        if queued.is_closed {
            // To give them back may run code that asks for the lock.
            drop(queued);
            return None;
        }
        let number = queued.next;
        queued.next += 1;
        queued.entries.insert(number, (permit, owed));
        Some(number)
    }

    /// Takes the entry of a body, unless that was taken before.
    fn leave_queue(&self, number: u64) -> Option<(ThreadPermit, OwedResult)> {
        self.queued.lock().entries.remove(&number)
    }

    fn release_guards(&self) {
        let guards = std::mem::take(&mut *self.guards.lock());
        drop(guards);
    }
}

impl BlockingPool {
    /// Returns a pool for at most `limit` jobs at a time; at least one.
    pub fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(limit)),
            busy: Arc::default(),
            threads: Arc::new(Threads { limit, runtime: OnceLock::new() }),
        }
    }

    /// Returns a handle for one attempt, which shares the permits and counts its own threads.
    pub(crate) fn for_attempt(&self) -> Self {
        Self { permits: Arc::clone(&self.permits), busy: Arc::default(), threads: Arc::clone(&self.threads) }
    }

    /// Drops `guard` when no thread of this handle is left, at once if there is none.
    pub(crate) fn keep_until_idle(&self, guard: Box<dyn Any + Send>) {
        self.busy.guards.lock().push(guard);
        if self.busy() == 0 {
            self.busy.release_guards();
        }
    }

    /// Returns how many threads of this handle have not returned yet.
    pub(crate) fn busy(&self) -> usize {
        self.busy.threads.load(Ordering::Acquire)
    }

    /// Returns whether a thread of this handle may still deliver a result: the thread may have returned already if its result
    /// was not taken.
    pub(crate) fn owes_a_result(&self) -> bool {
        self.busy.results.load(Ordering::Acquire) > 0
    }

    /// Waits until no result is owed any more.
    pub(crate) async fn owes_nothing(&self) {
        until(&self.busy.none, || (!self.owes_a_result()).then_some(())).await;
    }

    /// Waits until all threads of this handle have returned.
    pub(crate) async fn idle(&self) {
        until(&self.busy.none, || (self.busy() == 0).then_some(())).await;
    }

    /// Returns whether this handle waits for a thread, and has none: what it waits for has not begun.
    pub(crate) fn waits_for_a_thread(&self) -> bool {
        let queued = self.busy.queued.lock().entries.len();
        (queued > 0 || self.busy.waiting.load(Ordering::Acquire) > 0) && self.busy() == queued
    }

    /// Gives up the bodies that no thread has begun, and those that are still to come, as from a layer that repeats its job: none of
    /// them will run.
    pub(crate) fn give_up_queued(&self) {
        let mut queued = self.busy.queued.lock();
        queued.is_closed = true;
        let given_up = std::mem::take(&mut queued.entries);
        // Giving a permit back may run code that asks for the lock.
        drop(queued);
        drop(given_up);
    }

    async fn enter(&self) -> Option<ThreadPermit> {
        let _waiting = Waiting::new(&self.busy);
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        self.busy.threads.fetch_add(1, Ordering::AcqRel);
        Some(ThreadPermit { _permit: permit, busy: Arc::clone(&self.busy) })
    }

    /// Runs `body` on a thread that may block, as soon as one is free. A body that no thread has begun when the answer is dropped
    /// does not run.
    ///
    /// # Errors
    ///
    /// The error of the body, [`NoThread`], or that the runtime is ending.
    ///
    /// # Panics
    ///
    /// Resumes a panic of the body, so that it is reported like a panic of any other job.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        body: impl FnOnce() -> JobResult<R> + Send + 'static,
    ) -> JobResult<R> {
        let (jobs, threads) = (Handle::current(), Arc::clone(&self.threads));
        self.run_by(move |work| drop(threads.handle(&jobs).spawn_blocking(work)), body).await
    }

    /// Runs `body` as [`run`](Self::run) does. `spawn` sends the work to a thread; it may panic, and the work run nevertheless.
    pub(crate) async fn run_by<R: Send + 'static>(
        &self,
        spawn: impl FnOnce(Work),
        body: impl FnOnce() -> JobResult<R> + Send + 'static,
    ) -> JobResult<R> {
        let Some(permit) = self.enter().await else {
            return Err(JobError::fail("the blocking pool is closed"));
        };
        let (span, carried) = (tracing::Span::current(), propagation::carried());
        let entered = Handle::current();
        let (ends, ended) = oneshot::channel();
        let Some(number) = self.busy.enter_queue(permit, OwedResult::new(&self.busy)) else {
            return Err(JobError::fail("the attempt has ended"));
        };
        let queued = InQueue { busy: &self.busy, number };
        let busy = Arc::clone(&self.busy);
        let work = Box::new(move || {
            let Some((permit, owed)) = busy.leave_queue(number) else { return };
            let _runtime = entered.enter();
            let run = || span.in_scope(|| propagation::carrying_along(carried, body));
            let result = panics::catch_with_place(run);
            // The permit is released first, so that a caller that has the result sees no running thread. The send fails if the
            // attempt was given up.
            drop(permit);
            drop(ends.send((result, owed)));
        });
        // tokio panics after it has put the work into its queue. Another thread may have begun it since.
        if let Err(panic) = panics::catch(|| spawn(work))
            && queued.leave()
        {
            // Its slot waits: a server that can start no thread would else defer all tasks of its queues at once, which
            // other servers could run.
            let _waiting = Waiting::new(&self.busy);
            tokio::time::sleep(AFTER_NO_THREAD).await;
            // The lines behind the first are a backtrace, which tells nothing of the job.
            let why = panic.lines().next().unwrap_or_default();
            return Err(JobError::fail(NoThread(why.to_owned())));
        }
        match ended.await {
            Ok((Ok(result), _owed)) => result,
            Ok((Err(panic), _owed)) => std::panic::resume_unwind(panic),
            Err(_) => Err(JobError::fail("the runtime ended before the job started")),
        }
    }
}

/// The work that a thread is asked to do.
type Work = Box<dyn FnOnce() + Send>;

/// The operating system did not let this program start a thread, and the body of the job did not begin.
#[derive(Debug, thiserror::Error)]
#[error("no blocking thread could be started: {0}")]
pub(crate) struct NoThread(String);

/// Gives up the body of a number when it is dropped, unless a thread has begun it.
struct InQueue<'a> {
    busy: &'a RunningThreads,
    number: u64,
}

impl InQueue<'_> {
    /// Returns whether no thread has begun the body; none will.
    fn leave(&self) -> bool {
        self.busy.leave_queue(self.number).is_some()
    }
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Default for BlockingPool {
    /// Returns a pool of 512 threads, tokio's own number of blocking threads.
    fn default() -> Self {
        Self::new(512)
    }
}

/// The permit of one thread, released when the thread returns.
struct ThreadPermit {
    _permit: OwnedSemaphorePermit,
    busy: Arc<RunningThreads>,
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        if self.busy.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.busy.release_guards();
            self.busy.none.notify_waiters();
        }
    }
}

/// Counts as waiting for a thread until it is dropped.
struct Waiting<'a>(&'a RunningThreads);

impl<'a> Waiting<'a> {
    fn new(busy: &'a RunningThreads) -> Self {
        busy.waiting.fetch_add(1, Ordering::AcqRel);
        Self(busy)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts as a result of its handle until it is dropped.
struct OwedResult(Arc<RunningThreads>);

impl OwedResult {
    fn new(busy: &Arc<RunningThreads>) -> Self {
        busy.results.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(busy))
    }
}

impl Drop for OwedResult {
    fn drop(&mut self) {
        if self.0.results.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

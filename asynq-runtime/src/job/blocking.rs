//! Where jobs run that block: threads of their own, never the async ones, with a limit of their own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{
    context::JobContext,
    error::{JobError, JobResult},
    panics,
};
use crate::propagation;

/// The limit of blocking jobs that run at the same time.
///
/// A blocking job keeps its place until its thread returns, even after its attempt has timed out (RELIABILITY F29):
/// there is no way to stop a thread, and starting another would exceed what the machine was asked to carry.
#[derive(Debug, Clone)]
pub struct BlockingPool {
    places: Arc<Semaphore>,
    busy: Arc<Busy>,
}

/// The threads that were started through one handle and its clones.
#[derive(Debug, Default)]
struct Busy {
    threads: AtomicUsize,
    /// The last one has returned.
    none: Notify,
}

impl BlockingPool {
    /// At most `limit` jobs at a time; at least one.
    pub fn new(limit: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))), busy: Arc::default() }
    }

    /// A handle for one attempt: it shares the places and counts its own threads.
    pub(crate) fn for_attempt(&self) -> Self {
        Self { places: Arc::clone(&self.places), busy: Arc::default() }
    }

    /// How many threads of this handle have not returned yet.
    pub(crate) fn busy(&self) -> usize {
        self.busy.threads.load(Ordering::Acquire)
    }

    /// Waits until all threads of this handle have returned.
    pub(crate) async fn idle(&self) {
        loop {
            let none = self.busy.none.notified();
            if self.busy() == 0 {
                return;
            }
            none.await;
        }
    }

    async fn enter(&self) -> Option<Place> {
        let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
        self.busy.threads.fetch_add(1, Ordering::AcqRel);
        Some(Place { _permit: permit, busy: Arc::clone(&self.busy) })
    }

    /// How many more could start now.
    pub fn available(&self) -> usize {
        self.places.available_permits()
    }
}

impl Default for BlockingPool {
    /// 512, tokio's own number of blocking threads.
    fn default() -> Self {
        Self::new(512)
    }
}

/// One thread's right to run, given back when the thread returns.
struct Place {
    _permit: OwnedSemaphorePermit,
    busy: Arc<Busy>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.busy.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.busy.none.notify_waiters();
        }
    }
}

/// Runs the body of a blocking job on a thread that may block.
///
/// # Errors
///
/// What the body returned, or that the runtime is ending.
///
/// # Panics
///
/// Goes on with a panic of the body, so that it is told like a panic of any other job.
pub async fn run_blocking<R: Send + 'static>(
    ctx: &JobContext,
    body: impl FnOnce(&JobContext) -> JobResult<R> + Send + 'static,
) -> JobResult<R> {
    let Some(place) = ctx.blocking_pool().enter().await else {
        return Err(JobError::fail("the blocking pool is closed"));
    };
    let ctx = ctx.clone();
    let (span, carried) = (tracing::Span::current(), propagation::carried());
    let thread = tokio::task::spawn_blocking(move || {
        let _place = place;
        panics::with_place(|| span.in_scope(|| propagation::carrying_along(carried, || body(&ctx))))
    });
    match thread.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(JobError::fail("the runtime ended before the job started")),
        },
    }
}

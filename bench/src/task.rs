//! The task of every workload: about 100 bytes of JSON, a handler that only counts, and a queue that is looked into.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use asynq_runtime::{broker::QueueStats, inspector::Force, prelude::*};
use tokio::{sync::Notify, time::timeout};

/// The queue that everything runs in.
pub(crate) const QUEUE: &str = "bench";
/// Nothing may stand still for this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How many tasks are put there in one call before a measurement.
const FILL: u64 = 1_000;

/// Counts that its task was here.
#[job(queue = "bench", codec = "json")]
pub(crate) async fn note(seen: State<Seen>, number: u64, to: String, subject: String, body: String) -> JobResult {
    let _ = (to, subject, body);
    seen.mark(number);
    Ok(())
}

/// Task `number`, whose JSON has `bytes` bytes, or as few as there can be.
pub(crate) fn task(number: u64, bytes: usize) -> note {
    let mut task = note { number, to: "ann@example.com".into(), subject: "Hi".into(), body: String::new() };
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let frame = r#"{"number":,"to":"ann@example.com","subject":"Hi","body":""}"#.len() + digits;
    task.body = "x".repeat(bytes.saturating_sub(frame));
    task
}

/// Which tasks have run. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Seen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bits: Vec<AtomicU64>,
    missing: AtomicU64,
    twice: AtomicU64,
    all: Notify,
}

impl Seen {
    /// None of `n` tasks yet.
    pub(crate) fn none_of(n: u64) -> Self {
        let bits = (0..n.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bits, missing: AtomicU64::new(n), twice: AtomicU64::new(0), all: Notify::new() }))
    }

    fn mark(&self, number: u64) {
        let bit = 1 << (number % 64);
        let word = usize::try_from(number / 64).ok().and_then(|at| self.0.bits.get(at));
        match word.map(|word| word.fetch_or(bit, Ordering::Relaxed) & bit) {
            Some(0) if self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 => self.0.all.notify_one(),
            Some(0) => {}
            _ => drop(self.0.twice.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits until each task has run.
    ///
    /// # Errors
    ///
    /// They did not within [`PATIENCE`] since the last one did.
    pub(crate) async fn all(&self) -> Result<(), BoxError> {
        loop {
            let before = self.0.missing.load(Ordering::Acquire);
            if before == 0 {
                return Ok(());
            }
            if timeout(PATIENCE, self.0.all.notified()).await.is_err()
                && self.0.missing.load(Ordering::Acquire) == before
            {
                return Err(format!("{before} tasks have not run").into());
            }
        }
    }

    /// Whether each task has run once and only once.
    ///
    /// # Errors
    ///
    /// It says how many have not.
    pub(crate) fn exactly_once(&self) -> Result<(), BoxError> {
        match (self.0.missing.load(Ordering::Acquire), self.0.twice.load(Ordering::Relaxed)) {
            (0, 0) => Ok(()),
            (missing, twice) => Err(format!("{missing} tasks have not run, {twice} ran again").into()),
        }
    }
}

/// Puts `n` tasks in the queue.
///
/// # Errors
///
/// One was refused.
pub(crate) async fn fill(client: &Client, n: u64, payload_bytes: usize) -> Result<(), BoxError> {
    for first in (0..n).step_by(FILL as usize) {
        let tasks = (first..n.min(first + FILL)).map(|number| task(number, payload_bytes));
        for outcome in client.enqueue_many(tasks).await? {
            outcome?;
        }
    }
    Ok(())
}

/// What the queue holds.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn stats(client: &Client) -> Result<QueueStats, BoxError> {
    Ok(client.broker().queue_stats(&QUEUE.parse()?).await?)
}

/// Waits until nothing waits and nothing is unacknowledged, with a look every 200 µs.
///
/// # Errors
///
/// That is not so after [`PATIENCE`].
pub(crate) async fn acknowledged(client: &Client) -> Result<(), BoxError> {
    let look = async {
        while stats(client).await?.size > 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    };
    timeout(PATIENCE, look).await.map_err(|_| "the last tasks were not acknowledged")?
}

/// Whether the queue holds `pending` waiting tasks and nothing else.
///
/// # Errors
///
/// It says what it holds.
pub(crate) async fn expect_pending(client: &Client, pending: u64) -> Result<(), BoxError> {
    let stats = stats(client).await?;
    if (stats.pending, stats.size, stats.failed_total) == (pending, pending, 0) {
        return Ok(());
    }
    Err(format!("{pending} waiting tasks were expected, and nothing else: {stats:?}").into())
}

/// Takes the queue away with all that is in it.
///
/// # Errors
///
/// The broker failed.
pub(crate) async fn forget(client: &Client) -> Result<(), BoxError> {
    client.inspector().delete_queue(QUEUE, Force::Yes).await?;
    Ok(())
}

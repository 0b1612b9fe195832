//! The set of tasks that have run, in our program and in those of other libraries in Rust.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

/// A workload without progress for this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The set of tasks that have run. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Seen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bits: Vec<AtomicU64>,
    /// Tasks that are waited for; below zero if more have run.
    missing: AtomicI64,
    again: AtomicU64,
    all: Notify,
}

impl Seen {
    /// Returns an empty set of `n` tasks, or `among` if these are more, that waits for any `n` of them.
    pub(crate) fn first(n: u64, among: u64) -> Self {
        let bits = (0..among.max(n).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let missing = AtomicI64::new(n.cast_signed());
        Self(Arc::new(Inner { bits, missing, again: AtomicU64::new(0), all: Notify::new() }))
    }

    /// Notes a run of task `number`.
    pub(crate) fn mark(&self, number: u64) {
        let bit = 1 << (number % 64);
        let word = usize::try_from(number / 64).ok().and_then(|at| self.0.bits.get(at));
        match word.map(|word| word.fetch_or(bit, Ordering::Relaxed) & bit) {
            Some(0) if self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 => self.0.all.notify_one(),
            Some(0) => {}
            _ => drop(self.0.again.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits until each task has run.
    ///
    /// # Errors
    ///
    /// No task ran within [`PATIENCE`], and some have not run.
    pub(crate) async fn all(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        loop {
            let before = self.missing();
            if before == 0 {
                return Ok(());
            }
            if timeout(PATIENCE, self.0.all.notified()).await.is_err() && self.missing() == before {
                return Err(format!("{before} tasks have not run").into());
            }
        }
    }

    /// Returns how many tasks are waited for.
    pub(crate) fn missing(&self) -> u64 {
        self.0.missing.load(Ordering::Acquire).max(0).cast_unsigned()
    }

    /// Returns how many runs repeated a task that had run.
    pub(crate) fn again(&self) -> u64 {
        self.0.again.load(Ordering::Relaxed)
    }
}

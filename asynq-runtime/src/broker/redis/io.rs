//! One OS thread that reads and writes every socket of a broker.
//!
//! A connection lives on the runtime that opened it. On the caller's runtime a job that blocks would stop the very calls
//! that keep its lease; here nothing but the broker runs (DECISIONS §5 "Own thread for the heart").

use std::{future::Future, thread};

use tokio::{runtime, sync::watch};

use super::super::{BrokerError, BrokerErrorKind};

/// The thread; dropping it ends every task that was spawned on it.
#[derive(Debug)]
pub(super) struct Io {
    handle: runtime::Handle,
    stop: watch::Sender<bool>,
}

/// Starts tasks on the thread without keeping it alive.
#[derive(Debug, Clone)]
pub(super) struct Spawner(runtime::Handle);

impl Spawner {
    /// Runs `task` until it ends or the thread does; after that, not at all.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}

impl Io {
    pub(super) fn start() -> Result<Self, BrokerError> {
        let failed = |source| {
            BrokerError::with_source(
                BrokerErrorKind::Unavailable,
                "cannot start the thread of the Redis broker",
                source,
            )
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(false);
        thread::Builder::new()
            .name("asynq-redis".into())
            .spawn(move || {
                // An error means that the broker was dropped, which is the same.
                runtime.block_on(async { stopped.wait_for(|stop| *stop).await.map(|_| ()).unwrap_or_default() });
                // A name look-up that hangs must not hold up the end.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        Ok(Self { handle, stop })
    }

    /// Runs `task` until it ends or the thread does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// What starts further tasks on the thread, for as long as it runs.
    pub(super) fn spawner(&self) -> Spawner {
        Spawner(self.handle.clone())
    }

    /// Ends the thread and every task on it.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

//! The server's own thread: outcomes, leases and beats run here, on a runtime that no job can block.
//!
//! A job that burns the processor or blocks every thread of its runtime cannot cost a lease: no component that keeps leases
//! runs where jobs run (docs/design/recovery.md#the-heartbeat-runtime).

use std::{io, sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{error::ServerError, server_context::ServerContext};
use crate::{
    panics,
    thread::{Tasks, Thread},
};

/// Pause before a component that panicked is started again.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// The components on the thread; dropping it ends them.
#[derive(Debug)]
pub(crate) struct HeartbeatRuntime {
    /// The thread, also for the connections of the server's broker.
    pub(super) thread: Thread,
    /// The tasks on the thread.
    pub(super) tasks: Tasks,
}

impl HeartbeatRuntime {
    /// Starts the thread with a current-thread runtime of its own.
    pub(crate) fn spawn() -> io::Result<Self> {
        let thread = Thread::start("asynq-heartbeat")?;
        Ok(Self { tasks: thread.tasks(), thread })
    }

    /// Runs `future` on the thread and returns its output. Dropping the returned future drops `future`.
    ///
    /// # Errors
    ///
    /// The runtime was dropped.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ServerError> {
        let running = AbortOnDropHandle::new(self.tasks.runtime().spawn(future));
        running.await.map_err(|_| ServerError::Gone)
    }
}

/// Runs a component as one of `tasks` until `until`, and starts it again when it panics.
pub(crate) fn tend<F, R>(
    tasks: &Tasks,
    name: &'static str,
    context: &Arc<ServerContext>,
    until: &CancellationToken,
    run: F,
) where
    F: Fn(Arc<ServerContext>) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (context, until) = (Arc::clone(context), until.clone());
    tasks.spawn(async move {
        loop {
            let ended = tokio::select! {
                // `until` comes first: another step of the component would only find that the broker has closed meanwhile.
                biased;
                () = until.cancelled() => return,
                ended = panics::Caught::new(run(Arc::clone(&context))) => ended,
            };
            let Err(panic) = ended else { return };
            log!(error, component = name, "a component panicked and is started again: {panic}");
            tokio::time::sleep(AFTER_PANIC).await;
        }
    });
}

impl Drop for HeartbeatRuntime {
    fn drop(&mut self) {
        self.tasks.end();
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{PATIENCE, soon};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_heartbeat_runtime_works_while_every_thread_of_the_jobs_is_blocked() {
        let heartbeat_runtime = HeartbeatRuntime::spawn().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        heartbeat_runtime.tasks.spawn(async move {
            for tick in 0..3 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                sender.send(tick).unwrap();
            }
        });
        // This blocks the only thread of the test's runtime.
        for tick in 0..3 {
            assert_eq!(receiver.recv_timeout(PATIENCE), Ok(tick));
        }
        assert_eq!(soon(heartbeat_runtime.call(async { 7 })).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn dropping_the_owner_ends_its_tasks() {
        let heartbeat_runtime = HeartbeatRuntime::spawn().unwrap();
        let (sender, receiver) = oneshot::channel::<()>();
        heartbeat_runtime.tasks.spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(heartbeat_runtime);
        assert!(soon(receiver).await.is_err());
    }
}

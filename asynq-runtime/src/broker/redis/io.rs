//! The OS thread that reads and writes every socket of a broker.
//!
//! A connection lives on the runtime that opened it. On the caller's runtime a job that blocks would stop the very calls
//! that keep its lease; here nothing runs but the broker and, where a server opened it, the server's
//! heartbeat (docs/design/recovery.md#the-heartbeat-runtime).

use super::super::{BrokerError, BrokerErrorKind};
use crate::thread::{Tasks, Thread};

/// The broker's handle of the thread and of its own tasks there. Dropping it ends the tasks.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) tasks: Tasks,
    /// Keeps the thread for as long as the broker may be used.
    _thread: Thread,
}

impl Io {
    /// Starts a thread of the broker's own.
    pub(super) fn start_thread() -> Result<Thread, BrokerError> {
        Thread::start("asynq-redis").map_err(|source| {
            BrokerError::with_source(
                BrokerErrorKind::Unavailable,
                "cannot start the thread of the Redis broker",
                source,
            )
        })
    }

    /// Uses a thread that is running.
    pub(super) fn on(thread: Thread) -> Self {
        Self { tasks: thread.tasks(), _thread: thread }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        self.tasks.end();
    }
}

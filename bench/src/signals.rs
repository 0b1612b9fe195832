//! Ends a run at SIGINT and SIGTERM by dropping its future, so that its servers, files and processes end with it.

use asynq_runtime::prelude::BoxError;
use tokio::signal::unix::{SignalKind, signal};

/// Awaits the work, or drops it at a signal.
///
/// # Errors
///
/// The work failed, or a signal has ended it.
pub(crate) async fn unless_stopped<T>(work: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err("ended by SIGINT".into()),
        _ = terminate.recv() => Err("ended by SIGTERM".into()),
    }
}

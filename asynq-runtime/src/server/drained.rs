//! Waits until nothing is left in the queues of a server.

use std::time::Duration;

use super::{error::ServerError, running::Running, server_context::ServerContext};
use crate::broker::BrokerError;

/// How long one call waits at most, before the queues of patterns are looked up again.
const LIMIT: Duration = Duration::from_secs(60);
/// Pause before an unreachable broker is asked again.
const AGAIN: Duration = Duration::from_millis(200);

impl Running {
    /// Waits until nothing is left to do in the queues that this server serves: at one and the same moment no task is
    /// pending, active, scheduled for later, waiting for its next attempt or waiting in a group, whichever client
    /// enqueued it and whichever server runs it. Archived and completed tasks are not left to do. Queues that match a
    /// pattern of the server count from when they exist.
    ///
    /// The wait has no limit: a task that is due tomorrow makes it last until tomorrow, and a paused queue that has tasks, or an
    /// earlier [`quiet`](Self::quiet), for ever. [`tokio::time::timeout`] sets a limit. Nothing is polled, and an outage of the
    /// broker is waited out.
    ///
    /// ```standalone_crate
    /// use asynq_runtime::prelude::*;
    ///
    /// #[job]
    /// async fn print(line: String) {
    ///     println!("{line}");
    /// }
    ///
    /// # fn main() -> Result<(), BoxError> {
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let running = Server::builder("sqlite::memory:").build().await?.start().await?;
    /// for line in ["one", "two"] {
    ///     print::enqueue(&running.client(), line).await?;
    /// }
    /// running.drained().await?;
    /// running.shutdown().await?;
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The server cannot go on, as [`failed`](Self::failed) says. Or the broker refused the question, for example because the login may
    /// not ask it.
    pub async fn drained(&self) -> Result<(), ServerError> {
        tokio::select! {
            biased;
            drained = until_drained(&self.context) => Ok(drained?),
            failure = self.failure() => failure,
        }
    }
}

async fn until_drained(context: &ServerContext) -> Result<(), BrokerError> {
    loop {
        match is_drained(context).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.is_unavailable() => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    }
}

/// Waits for up to [`LIMIT`] until no task is left. Returns whether none is left.
async fn is_drained(context: &ServerContext) -> Result<bool, BrokerError> {
    let served = context.queues.now();
    let is_idle = context.broker.wait_until_idle(served.names(), LIMIT).await?;
    if !is_idle || !context.queues.has_patterns() {
        return Ok(is_idle);
    }
    // A queue that is new since the names were looked up may have tasks.
    context.queues.learn(&context.broker.queues().await?);
    Ok(context.queues.now().names() == served.names())
}

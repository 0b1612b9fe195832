//! A running server: its owner inspects it, quiets it, shuts it down, or drops it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    error::ServerError, heartbeat_runtime::HeartbeatRuntime, hooks::LifecycleHooks, os_signals::OsRequests,
    server_context::ServerContext, service::Services, shutdown, signals::Signals,
};
use crate::{broker::Broker, client::Client};

/// A running server. Dropping it ends everything at once, as a crash does: tasks that were running run again, with one crash more.
/// [`shutdown`](Self::shutdown) leaves in order instead.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn greet(name: String) {}
///
/// # async fn serve(stopped: impl Future<Output = ()>) -> Result<(), BoxError> {
/// let running = Server::builder("sqlite://asynq.db").build().await?.start().await?;
/// greet::enqueue(&running.client(), "ann").await?;
/// tokio::select! {
///     () = stopped => {}
///     () = running.failed() => {} // `shutdown` returns the reason
/// }
/// running.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Running {
    pub(super) context: Arc<ServerContext>,
    pub(super) services: Services,
    /// Cancelled when the runtime of the jobs has ended.
    pub(super) runtime_ended: CancellationToken,
    pub(super) lifecycle_hooks: Mutex<LifecycleHooks>,
    pub(super) closes_broker: bool,
    pub(super) heartbeat_runtime: HeartbeatRuntime,
}

impl Running {
    /// Returns a client of the server's broker.
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.context.broker))
    }

    /// Returns the broker.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.context.broker
    }

    /// Stops fetching, as TSTP does. Running jobs go on.
    pub fn quiet(&self) {
        self.context.quiet.cancel();
    }

    /// Returns how many tasks run at the moment.
    pub fn running(&self) -> usize {
        self.context.runs.running()
    }

    /// Returns the named moments of the server, for tests to await.
    pub fn signals(&self) -> &Signals {
        &self.context.signals
    }

    /// Waits until there is a reason to shut down: a service has failed, the broker is broken for good, the runtime that called
    /// [`start`](super::Server::start) has ended, or as many blocking jobs as run at a time were given up (`kill_after`). Waits for
    /// ever if there is no such reason. A program that awaits its own signals awaits this as well: [`shutdown`](Self::shutdown)
    /// returns the reason, and without it the process would live on without a worker.
    pub async fn failed(&self) {
        let _ = self.failure().await;
    }

    /// Waits as [`failed`](Self::failed) does, and returns the reason.
    pub(super) async fn failure(&self) -> Result<(), ServerError> {
        let broken = tokio::select! {
            () = self.services.failed() => Ok(()),
            () = self.context.executor.given_up.worn_out() => Ok(()),
            () = self.runtime_ended.cancelled() => Ok(()),
            error = self.context.broker.broken() => Err(error.into()),
        };
        self.reason(broken)
    }

    /// Leaves in order: fetches nothing more, lets running jobs end within the shutdown timeout, requeues the rest at
    /// the heads of their queues without spending a retry, and takes the server off the list. Returns at most a
    /// second after the timeout, even if the broker is dead or a blocking job does not return: the thread of such a job holds
    /// neither this call nor the end of a multi-thread runtime. A current-thread runtime waits for the thread when it is dropped.
    ///
    /// A future that is dropped ends the server at once, as dropping the value does.
    ///
    /// # Errors
    ///
    /// A service had failed, the broker was broken for good before the call, too many blocking jobs were given up, the runtime that
    /// called [`start`](super::Server::start) has ended ([`ServerError::RuntimeEnded`]), or the broker has not taken all outcomes in
    /// time ([`ServerError::Unsettled`]).
    pub async fn shutdown(mut self) -> Result<(), ServerError> {
        // `now_or_never` would miss a failure where the caller's task has used up its budget of tokio.
        let failure = tokio::select! {
            biased;
            failure = self.failure() => failure,
            () = std::future::ready(()) => Ok(()),
        };
        let lifecycle_hooks = self.take_lifecycle_hooks();
        self.heartbeat_runtime
            .call(shutdown::drain(Arc::clone(&self.context), lifecycle_hooks, self.closes_broker))
            .await?;
        self.outcome(failure)
    }

    /// Serves until `requests` receives a request to leave or there is a reason to shut down, as in [`failed`](Self::failed).
    /// Then leaves in order.
    ///
    /// The heartbeat runtime receives from `requests`, so that a job which blocks the caller's thread delays no signal.
    ///
    /// # Errors
    ///
    /// As of [`shutdown`](Self::shutdown).
    pub(super) async fn handle_requests(mut self, requests: OsRequests) -> Result<(), ServerError> {
        let (lifecycle_hooks, leave) = (self.take_lifecycle_hooks(), CancellationToken::new());
        let drain = shutdown::drain(Arc::clone(&self.context), lifecycle_hooks, self.closes_broker);
        let drained = self.heartbeat_runtime.call(shutdown::handle_requests(
            requests,
            Arc::clone(&self.context),
            leave.clone(),
            drain,
        ));
        tokio::pin!(drained);
        let failure = tokio::select! {
            ended = &mut drained => return ended.and(self.outcome(Ok(()))),
            failure = self.failure() => failure,
        };
        leave.cancel();
        drained.await?;
        self.outcome(failure)
    }

    /// Returns the first reason why the server has not left in order: that of [`failed`](Self::failed), or one of the outbox.
    fn outcome(&self, failure: Result<(), ServerError>) -> Result<(), ServerError> {
        self.reason(failure).and(self.context.outbox.outcome())
    }

    /// Returns the first reason why the server cannot go on, of a service, a thread, the runtime and the broker.
    fn reason(&self, broken: Result<(), ServerError>) -> Result<(), ServerError> {
        let runtime = if self.runtime_ended.is_cancelled() { Err(ServerError::RuntimeEnded) } else { Ok(()) };
        self.services.outcome().and(self.context.executor.given_up.outcome()).and(runtime).and(broken)
    }

    fn take_lifecycle_hooks(&mut self) -> LifecycleHooks {
        std::mem::take(self.lifecycle_hooks.get_mut())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.context.quiet.cancel();
        self.context.closing.cancel();
        self.context.leaving.cancel();
        self.context.runs.abandon();
    }
}

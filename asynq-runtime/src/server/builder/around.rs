//! Options around the jobs of a server: layers, handlers, hooks, a health check.

use std::sync::Arc;

use tower_layer::Layer;
use tower_service::Service;

use super::{
    super::{
        config::HealthCheck,
        error::ServerError,
        handlers,
        hooks::{self, FailedTask},
        layer_stack::{JobRequest, JobResponse, JobService},
    },
    ServerBuilder, checks,
};
use crate::{
    broker::BrokerError,
    client::{Client, Typed},
    job::{BoxError, IntoJobResult, IntoSpan, JobError, RawTask},
};

impl ServerBuilder {
    /// Puts a tower layer around every attempt: it may count, time, limit, refuse, or pass a value on to the attempt
    /// ([`JobContext::insert`](crate::JobContext::insert)). The layer that was added first is the outermost.
    ///
    /// Layers also see tasks that no job here knows, as asynq's middleware does: the wrapped service returns an error for
    /// such a task, and the policy for it is applied outside of the layers. They do not see tasks that must not start:
    /// expired, past their deadline, undecodable. An error of a layer fails the attempt, with the policy that
    /// [`JobError::into_error`] gives it. A snooze and a revoke come through the layers as errors, too: the
    /// [`policy`](JobError::policy) of `JobError::from(error)` tells them from failures. Timeout, cancellation and panics of an
    /// attempt include its layers. A layer that gives up a blocking job asks it to stop, but a thread cannot be stopped: slot and
    /// lease last until it returns.
    ///
    /// A server has one such service, which need not be `Clone`. While a layer is not ready nothing is fetched, so that tasks
    /// stay in their queues. For that a server with layers takes one task per call of the broker at first. Once the layers
    /// were ready at once for 64 starts in a row it takes batches, each up to twice as large. Tasks of a batch that the layers
    /// do not take at once are requeued at the head of their queue, and the next ones are taken one by one again. Layers are
    /// built when the server starts, on the jobs' runtime.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// # use std::time::Duration;
    /// let server = Server::builder("sqlite::memory:")
    ///     .layer(tower::limit::RateLimitLayer::new(100, Duration::from_secs(1)))
    ///     .layer(tower::timeout::TimeoutLayer::new(Duration::from_secs(20)));
    /// ```
    #[doc(alias("middleware"))]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService> + Send + 'static,
        L::Service: Service<JobRequest, Response = JobResponse> + Send + 'static,
        <L::Service as Service<JobRequest>>::Error: Into<BoxError>,
        <L::Service as Service<JobRequest>>::Future: Send + 'static,
    {
        self.layers.wraps.push(Box::new(move |inner| JobService(Box::new(Typed(layer.layer(inner))))));
        self
    }

    /// Runs tasks that no Rust type stands for: those of type `pattern`, and those whose type begins with it, unless a
    /// longer pattern matches too (the rule of Go's mux, which has no rule about separators). A job that is registered answers to
    /// exactly its name, before any handler.
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// let server = Server::builder("sqlite::memory:").handle("image:", |task: RawTask| async move {
    ///     println!("{}: {} bytes", task.name(), task.payload().len());
    ///     task.context().write_result_raw("done").await?;
    ///     JobResult::Ok(())
    /// });
    /// ```
    pub fn handle<F, R>(self, pattern: impl Into<String>, run: F) -> Self
    where
        F: Fn(RawTask) -> R + Send + Sync + 'static,
        R: Future + Send + 'static,
        R::Output: IntoJobResult<Value = ()>,
    {
        self.set(|server| handlers::add(&mut server.handlers, pattern.into(), handlers::handler(run)))
    }

    /// Calls `hook` before the server starts, in the order given. If the hook fails, the server does not start. It has no time
    /// limit: the start waits.
    pub fn before_start<F, R>(mut self, hook: F) -> Self
    where
        F: FnOnce(Client) -> R + Send + 'static,
        R: Future + Send + 'static,
        R::Output: IntoJobResult<Value = ()>,
    {
        self.lifecycle_hooks.before_start.push(Box::new(move |client| {
            Box::pin(async move { hook(client).await.into_job_result().map_err(JobError::into_error) })
        }));
        self
    }

    /// Calls `hook` when the server begins to drain, while running jobs end. The hook is dropped when the shutdown timeout is
    /// over.
    pub fn on_drain<F, R>(mut self, hook: F) -> Self
    where
        F: FnOnce(Client) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.lifecycle_hooks.on_drain.push(Box::new(move |client| Box::pin(async move { hook(client).await })));
        self
    }

    /// Calls `hook` with every failed attempt, before the broker learns of the failure: asynq's error handler. Tasks that are
    /// archived without a start count as failed; revoked, snoozed and requeued ones do not.
    ///
    /// The task keeps its slot meanwhile, so a slow hook slows the server down; it is dropped after 5 s, and when the
    /// shutdown timeout is over: hooks after it are then not called. Hooks of one attempt are called one after the other, in the
    /// order given. One that panics or is dropped is in the log. The hook is also called for an attempt whose outcome comes too late,
    /// where this worker does not know yet that another one has the task; it is not called for one that was stopped because of that, nor
    /// for a task that a person archives or cancels without its worker.
    pub fn on_error<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(FailedTask) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_error.push(hooks::task_hook(hook));
        self
    }

    /// Calls `hook` as [`on_error`](Self::on_error) does, but only for tasks that are given up: they are about to be archived. Where the
    /// worker dies before the broker is told, the hook is called again for the same task by the next one; where two have died so, no hook
    /// is called, and a line of the log says so.
    pub fn on_archive<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(FailedTask) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_archive.push(hooks::task_hook(hook));
        self
    }

    /// Decides which errors are failures: the others are treated as [`JobError::not_a_failure`]. The function is called only for
    /// errors that the job or a layer returned, without a policy of their own; unlike in asynq a panic, a timeout and a
    /// cancellation are always failures. Where the function panics, the attempt has failed.
    pub fn is_failure(mut self, is_failure: impl Fn(&JobError) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.is_failure = Some(Arc::new(is_failure));
        self
    }

    /// Pings the broker every `interval` and calls `callback` with the answer; asynq's interval is
    /// [`Server::HEALTH_CHECK`](crate::Server::HEALTH_CHECK). The function is called on a thread that may block.
    pub fn health_check(
        self,
        interval: impl IntoSpan,
        callback: impl Fn(Result<(), BrokerError>) + Send + Sync + 'static,
    ) -> Self {
        self.set(|server| {
            let every = checks::span("health_check", interval)?;
            if every.is_zero() {
                return Err(ServerError::option("health_check", "its interval must be longer than zero"));
            }
            server.config.health_check = Some(HealthCheck { every, callback: Arc::new(callback) });
            Ok(())
        })
    }
}

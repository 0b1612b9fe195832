//! What a program may put around its jobs: layers, handlers, hooks, a health check.

use std::{future::Future, sync::Arc, time::Duration};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    super::{
        error::ServerError,
        handlers::handler,
        health::HealthCheck,
        hooks::{self, FailedTask},
        layer_stack::{JobRequest, JobResponse, JobService},
    },
    ServerBuilder,
};
use crate::{
    broker::BrokerError,
    client::Client,
    job::{BoxError, IntoJobResult, IntoSpan, JobError, RawTask},
};

impl ServerBuilder {
    /// Puts a tower layer around every attempt: it may count, time, limit, refuse, or put something beside the attempt
    /// ([`JobContext::insert`](crate::JobContext::insert)). The layer that was added first is the outermost.
    ///
    /// Layers also see tasks that no job here knows, as asynq's middleware does: there the service they wrap answers with
    /// an error, and what becomes of the task is decided outside of them. They do not see tasks that must not start:
    /// expired, past their deadline, undecodable. An error of a layer fails the attempt, with the policy that
    /// [`JobError::into_error`] gives it. Timeout, cancellation and panics of an attempt include its layers. A layer that
    /// gives up a blocking job tells it to stop, but a thread cannot be stopped: slot and lease last until it returns.
    ///
    /// The service is one for the server and need not be `Clone`. A layer that is not ready holds tasks in their queues:
    /// while it is not, nothing is fetched. For that a server with layers takes one task per call of the broker at first;
    /// once they were ready at once for 64 starts in a row it takes batches, each up to twice as large. What they do not
    /// take at once of a batch goes back to the head of its queue, and it is one by one again. Layers are built when the
    /// server starts, on the jobs' runtime.
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
        self.layers.push(layer);
        self
    }

    /// Runs tasks that no Rust type stands for: those of type `pattern`, and those whose type begins with it, unless a
    /// longer pattern does too (the rule of Go's mux; there is none about separators). A job that is registered answers to
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
    pub fn handle<F, R>(mut self, pattern: impl Into<String>, run: F) -> Self
    where
        F: Fn(RawTask) -> R + Send + Sync + 'static,
        R: Future + Send + 'static,
        R::Output: IntoJobResult<Value = ()>,
    {
        self.handlers.push((pattern.into(), handler(run)));
        self
    }

    /// Calls `hook` before the server starts, in the order given; if it fails, the server does not start. It has no time
    /// limit: the start waits.
    pub fn before_start<F, R>(mut self, hook: F) -> Self
    where
        F: FnOnce(Client) -> R + Send + 'static,
        R: Future + Send + 'static,
        R::Output: IntoJobResult<Value = ()>,
    {
        self.lifecycle_hooks.before_start.push(hooks::starting(hook));
        self
    }

    /// Calls `hook` when the server begins to drain, while running jobs end; it is dropped when the shutdown timeout is
    /// over.
    pub fn on_drain<F, R>(mut self, hook: F) -> Self
    where
        F: FnOnce(Client) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.lifecycle_hooks.on_drain.push(hooks::draining(hook));
        self
    }

    /// Calls `hook` with every failed attempt, before the broker is told of it: asynq's error handler. Also with tasks
    /// that are archived without a start. Not with what is not a failure: revoked, snoozed, requeued.
    ///
    /// The task keeps its slot meanwhile, so a slow hook slows the server down; after 5 s it is dropped, and when the
    /// shutdown timeout is over. Hooks of one attempt are called one after the other, in the order given; a panic is told
    /// in the log. An attempt whose outcome comes too late, because another worker has the task, was told all the same.
    pub fn on_error<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(FailedTask) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_error.push(hooks::told(hook));
        self
    }

    /// The same, but only for tasks that are given up: they are about to be archived.
    pub fn on_archive<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(FailedTask) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_archive.push(hooks::told(hook));
        self
    }

    /// Says which errors are failures: the others are treated as [`JobError::not_a_failure`]. Asked only about errors
    /// that the job or a layer returned, without a policy of their own; unlike in asynq a panic, a timeout and a
    /// cancellation are always failures. Where it panics, the attempt has failed.
    pub fn is_failure(mut self, is_failure: impl Fn(&JobError) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.is_failure = Some(Arc::new(is_failure));
        self
    }

    /// Asks the broker for a sign of life every `interval` and calls `told` with what it got; asynq's interval is
    /// [`Server::HEALTH_CHECK`](crate::Server::HEALTH_CHECK). It is called on a thread that may block.
    pub fn health_check(
        mut self,
        interval: impl IntoSpan,
        told: impl Fn(Result<(), BrokerError>) + Send + Sync + 'static,
    ) -> Self {
        self.health_check = match interval.into_span() {
            Ok(Duration::ZERO) => Err(ServerError::option("health_check", "its interval must be longer than zero")),
            Ok(every) => Ok(Some(HealthCheck { every, told: Arc::new(told) })),
            Err(error) => Err(ServerError::option("health_check", error)),
        };
        self
    }
}

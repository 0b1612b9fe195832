//! The server: takes tasks, runs their jobs and maintains the queues, with one component per file.
//!
//! Forwarder, recoverer, janitor, aggregator and subscriber have asynq's names. Its processor is fetcher, executor and outcome here,
//! its syncer is outbox and settler, and its heartbeater is heartbeat and lease.
//!
//! ```text
//! heartbeat runtime                                                           the runtime that called `start`
//!                                            fetcher ── takes tasks for free slots ──► executor runs the job
//!   outbox  ── outcomes until the broker has taken them ◄── outcome decides ◄──────┘
//!   settler ── outcomes → the broker
//!   lease, heartbeat ── extend the leases of active runs, and show them
//!   subscriber ── cancel requests        forwarder ── due → pending
//!   recoverer ── dead workers' tasks → pending        janitor ── deletes, trims, repairs
//!   aggregator ── the tasks of a ripe group → one task
//! ```
//!
//! Start order: [`Service::before_start`] of the services, heartbeat, lease, settler, queue patterns, health check, subscriber, recoverer, forwarder, fetcher, janitor,
//! warnings, aggregator, services. Stop order: services are asked to stop; fetcher, forwarder, recoverer and janitor end; jobs
//! drain; the outbox empties; the aggregator releases its sets; heartbeat, lease and subscriber end; the server leaves; and the rest
//! ends with the thread. The fetcher runs where its broker answers faster
//! ([`Consume::dequeues_beside_jobs`](crate::broker::Consume::dequeues_beside_jobs)).
//! [`Running`] owns all components: dropping it ends everything at once.

mod active_runs;
mod aggregate;
mod aggregator;
mod answer;
mod archives;
mod attempt;
mod attempt_deadline;
mod attempt_future;
mod backed_off;
mod batch_controller;
mod builder;
mod choice;
mod config;
mod dispatcher;
mod drained;
mod error;
mod executor;
mod fetcher;
mod flags;
mod forwarder;
mod handlers;
mod health;
mod heartbeat;
mod heartbeat_runtime;
mod hooks;
mod identity;
mod into_aggregated;
mod janitor;
mod layer_stack;
mod lease;
mod mux;
mod os_signals;
mod outbox;
mod outcome;
mod queue_patterns;
mod queues;
mod recoverer;
mod retry_backoff;
mod retry_delay;
mod running;
mod served_queues;
mod server_context;
mod service;
mod settler;
mod shutdown;
mod signals;
mod slot;
mod stop;
mod stuck;
mod subscriber;
mod warnings;

use std::{
    future::pending,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::runtime;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "main")]
pub(crate) use self::choice::NO_JOB;
use self::{
    active_runs::ActiveRuns,
    answer::{answer_within, longest_call},
    config::{Config, OUTBOX_CAPACITY},
    fetcher::{EndGuard, Fetcher},
    heartbeat_runtime::{HeartbeatRuntime, tend},
    hooks::LifecycleHooks,
    layer_stack::Layers,
    outbox::Outbox,
    served_queues::ServedQueues,
    server_context::ServerContext,
    service::Services,
};
pub(crate) use self::{aggregate::Aggregations, executor::Executor, os_signals::OsRequests};
#[allow(unused_imports, reason = "a TestApp uses it, which is not there without the broker that it runs on")]
pub(crate) use self::{
    aggregate::Unaggregated,
    attempt::Attempt,
    backed_off::Stranded,
    layer_stack::LayerStack,
    stop::{Stop, Why},
};
pub use self::{
    builder::ServerBuilder,
    config::OnUnknown,
    error::ServerError,
    flags::{Flag, Flags},
    hooks::FailedTask,
    into_aggregated::{AtOnce, IntoAggregated, Later},
    layer_stack::{JobRequest, JobResponse, JobService},
    running::Running,
    service::{Service, ServiceContext, ServiceEntry, ServiceRow},
    signals::{Signal, Signals},
};
#[doc(hidden)]
pub use crate::pause::SeldomLines;
use crate::{broker::Broker, client::Client, job::Registry, variables::warn_of_misspelled_variables};

/// The target of the spans `job` and `tick`, which write no lines, and of the error that ends a worker. `main!` has a directive for it.
#[doc(hidden)]
pub const RUN_TARGET: &str = "asynq_runtime::run";

/// A validated, connected server that has not been started.
///
/// ```no_run
/// # use asynq_runtime::prelude::*;
/// #[job]
/// async fn greet(name: String) {}
///
/// # async fn serve() -> Result<(), BoxError> {
/// // Until Ctrl-C or SIGTERM; every job of the program that this server has the queue of.
/// let server = Server::builder("redis://127.0.0.1:6379").queue("critical", 6).queue("default", 3).concurrency(20);
/// server.build().await?.run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until `.start()` or `.run()`"]
#[doc(alias("worker", "consumer"))]
pub struct Server {
    parts: Parts,
    closes_broker: bool,
    heartbeat_runtime: HeartbeatRuntime,
}

/// The checked parts that run the tasks of one broker. The components of a server drive them, or a `TestApp` does.
pub(crate) struct Parts {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) config: Config,
    /// All jobs of the program, those that the server does not run included.
    pub(crate) program: Registry,
    pub(crate) executor: Executor,
    pub(crate) aggregations: Arc<Aggregations>,
    pub(crate) layers: Layers,
    pub(crate) lifecycle_hooks: LifecycleHooks,
    services: Vec<Box<dyn Service>>,
}

impl Server {
    /// asynq's interval of the health check.
    pub const HEALTH_CHECK: Duration = Duration::from_secs(15);

    /// Returns the builder of a server of the broker at `url`, such as `redis://127.0.0.1:6379` or `sqlite://asynq.db`.
    pub fn builder(url: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(url.into())
    }

    /// Returns the broker, for calls that must precede the start.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.parts.broker
    }

    /// Returns the queues and patterns that the server will serve, with their weights.
    pub fn queues(&self) -> impl Iterator<Item = (&str, u32)> {
        self.parts.config.queues.iter().map(|entry| (entry.pattern.as_str(), entry.weight))
    }

    /// Returns the limits of the queues and patterns that have one ([`ServerBuilder::queue_concurrency`]).
    #[cfg_attr(not(feature = "main"), allow(dead_code, reason = "only `main!` shows them"))]
    pub(crate) fn queue_limits(&self) -> impl Iterator<Item = (&str, usize)> {
        self.parts.config.queues.iter().filter_map(|entry| Some((entry.pattern.as_str(), entry.limit?)))
    }

    /// Returns the patterns of the server's handlers.
    #[cfg_attr(not(feature = "main"), allow(dead_code, reason = "only `main!` shows them"))]
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &str> {
        self.parts.executor.dispatcher.handlers.patterns()
    }

    /// Returns the jobs that the server will run.
    pub fn registry(&self) -> &Registry {
        &self.parts.executor.dispatcher.registry
    }

    /// Returns the names of the services that the server will run: services that it was given, and linked ones.
    pub fn services(&self) -> impl Iterator<Item = &'static str> {
        self.parts.services.iter().map(|service| service.name())
    }

    /// Returns how many tasks run at a time at most.
    pub fn concurrency(&self) -> usize {
        self.parts.config.concurrency
    }

    /// Starts all components. Jobs, services and, on Redis, the fetcher run on the tokio runtime of the caller. Leases, outcomes and
    /// maintenance run on a thread of the server, which a blocked runtime does not stop; a service may ask for that thread
    /// ([`Service::runs_beside_heartbeat`]).
    ///
    /// No job runs any more once that runtime has ended, even if another one uses the [`Running`]: [`failed`](Running::failed) then
    /// completes, and [`shutdown`](Running::shutdown) returns an error. So a server in a `static`, such as one for all tests, needs a
    /// runtime that is kept as well: each `#[tokio::test]` has one of its own.
    ///
    /// # Errors
    ///
    /// A hook `before_start` failed, a service cannot start ([`Service::before_start`]), the broker does not let the server join, or
    /// there is no tokio runtime with timers and I/O here.
    pub async fn start(self) -> Result<Running, ServerError> {
        let jobs = runtime::Handle::try_current().map_err(|_| ServerError::NoRuntime)?;
        // A runtime without timers would fail every single attempt, and one without I/O each connection that is made there. Both panic.
        let probe = jobs.spawn(async {
            drop(tokio::net::UnixStream::pair());
            tokio::time::sleep(Duration::ZERO).await;
        });
        probe.await.map_err(|_| ServerError::NoRuntime)?;
        warn_of_misspelled_variables();
        warnings::panics_abort();
        warnings::unserved_jobs(&self);

        let Parts { broker, config, program, executor, aggregations, layers, mut lifecycle_hooks, mut services } =
            self.parts;
        let client = Client::new(Arc::clone(&broker));
        lifecycle_hooks.start(&client).await?;
        let service_context =
            ServiceContext { client, registry: program, stopping: (*executor.closing).clone(), jobs: jobs.clone() };
        service::before_start(&mut services, &service_context).await?;

        let queues = ServedQueues::new(config.queues.clone());
        let started = broker.now();
        let (joined, introduced, aggregates) = (Arc::clone(&broker), config.clone(), Arc::clone(&aggregations));
        let join = async move {
            let name = identity::new_name();
            let info = identity::introduction(&name, &introduced, &aggregates, started);
            answer_within(longest_call(&*joined), joined.join(&name, &info)).await.flatten()
        };
        let member = self.heartbeat_runtime.call(join).await??;
        log!(info, server = %member.name, broker = %broker.location(), "serving");

        let context = Arc::new(ServerContext {
            broker,
            member,
            outbox: Outbox::new(config.concurrency.max(OUTBOX_CAPACITY)),
            runs: ActiveRuns::new(config.concurrency, config.queues.iter().any(|entry| entry.limit.is_some())),
            config,
            queues,
            layer_stack: layers.build(&executor.dispatcher),
            closing: (*executor.closing).clone(),
            executor,
            aggregations,
            jobs,
            signals: Signals::default(),
            started,
            extends: AtomicBool::new(true),
            found_nothing: AtomicBool::new(false),
            quiet: CancellationToken::new(),
            fetched_last: CancellationToken::new(),
            aggregated_last: CancellationToken::new(),
            leaving: CancellationToken::new(),
            services_ended: CancellationToken::new(),
        });
        os_signals::count_tasks_of(&context);
        warnings::gos_archive(&context).await;
        let (never, closing) = (CancellationToken::new(), context.closing.clone());
        let on_heartbeat = &self.heartbeat_runtime.tasks;
        // For components that need not go on while a job blocks its runtime.
        let beside_jobs = on_heartbeat.on(context.jobs.clone());
        tend(on_heartbeat, "heartbeat", &context, &context.leaving, heartbeat::run);
        tend(on_heartbeat, "lease", &context, &context.leaving, lease::run);
        tend(on_heartbeat, "settler", &context, &never, settler::run);
        tend(on_heartbeat, "queue patterns", &context, &closing, queue_patterns::run);
        tend(on_heartbeat, "health check", &context, &closing, health::run);
        tend(on_heartbeat, "subscriber", &context, &context.leaving, subscriber::run);
        tend(on_heartbeat, "recoverer", &context, &closing, recoverer::run);
        tend(on_heartbeat, "forwarder", &context, &closing, forwarder::run);
        // `tend` keeps the closure, and with it the guard, when the fetcher panics.
        let guard = EndGuard(Arc::clone(&context));
        let fetch = move |context| {
            let _ = &guard;
            Fetcher::run(context)
        };
        let fetchers = if context.broker.dequeues_beside_jobs() { &beside_jobs } else { on_heartbeat };
        tend(fetchers, "fetcher", &context, &never, fetch);
        tend(on_heartbeat, "janitor", &context, &closing, janitor::run);
        tend(&beside_jobs, "warnings", &context, &closing, warnings::left_groups);
        if context.aggregations.is_empty() {
            context.aggregated_last.cancel();
        } else {
            tend(on_heartbeat, "aggregator", &context, &context.leaving, aggregator::run);
        }

        let runtime_ended = CancellationToken::new();
        let ended = runtime_ended.clone().drop_guard();
        // A runtime that ends drops this task.
        beside_jobs.spawn(async move {
            let _ended = ended;
            pending::<()>().await;
        });
        let services =
            Services::start(services, service_context, on_heartbeat.runtime(), context.services_ended.clone());
        Ok(Running {
            context,
            services,
            runtime_ended,
            lifecycle_hooks: Mutex::new(lifecycle_hooks),
            closes_broker: self.closes_broker,
            heartbeat_runtime: self.heartbeat_runtime,
        })
    }

    /// Starts, and works until the process is asked to leave: TSTP stops fetching, TERM or INT drains within the
    /// shutdown timeout and requeues the rest, a second TERM or INT, half a second or more after the first, ends the process at once with
    /// exit code 130, also when `run` has returned. Threads of the server's own act on signals, so that jobs which block every thread
    /// of their runtime do not delay them. A TERM or INT while no server runs, between two of a loop, is for the next one, which returns
    /// at once.
    ///
    /// A future that is dropped ends the server at once, as a crash does: each task that runs has one crash more. To stop the server by
    /// a signal of your own, [`start`](Self::start) it and call [`Running::shutdown`].
    ///
    /// # Errors
    ///
    /// The server cannot start, a service failed, the broker is broken for good ([`Broker::broken`]), too many blocking jobs
    /// were given up ([`ServerError::Stuck`]), or it had to leave before the broker had taken all outcomes
    /// ([`ServerError::Unsettled`]): the supervisor of the process should know.
    pub async fn run(self) -> Result<(), ServerError> {
        let (_listening, mut requests) = OsRequests::listen();
        let Some(running) = requests.unless_leaving(self.start()).await else { return Ok(()) };
        running?.handle_requests(requests).await
    }
}

partial_debug!(Server { parts, .. });
partial_debug!(Parts { config, broker, .. });

//! The state that all handlers share.

use std::{ops::Deref, sync::Arc};

use asynq_cron::Schedule;
use asynq_runtime::{Client, Inspector, Registry};
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    host::Hosts,
    login::Login,
    metrics::{self, Collector},
    nodes::{self, Nodes},
    path,
    probe::Probe,
    sample::{Pace, Samples},
};

/// Most event streams at a time.
const STREAMS: usize = 64;
/// Most searches at a time; each of them keeps the broker busy.
const SEARCHES: usize = 4;

/// Is ready when the application that the dashboard is mounted in stops.
pub(crate) type Stopping = Shared<BoxFuture<'static, ()>>;

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Inner>);

/// The parts of the state.
pub(crate) struct Inner {
    /// The client.
    pub(crate) client: Client,
    /// Looks at queues and tasks, and repairs them.
    pub(crate) inspector: Inspector,
    /// The periodic entries.
    pub(crate) schedule: Schedule,
    /// The jobs that this program knows; `None` for a dashboard that has only a broker.
    pub(crate) registry: Option<Registry>,
    /// The numbers of all queues, now and in the last hour.
    pub(crate) samples: Samples,
    /// Reads the queues for Prometheus.
    pub(crate) collector: Collector,
    /// Knows whether the broker answers.
    pub(crate) probe: Probe,
    /// Reads the broker's nodes.
    pub(crate) nodes: Nodes,
    /// The settings of the dashboard.
    pub(crate) config: Config,
    /// The host names that the dashboard answers to.
    pub(crate) hosts: Hosts,
    /// The ways for people and programs to log in.
    pub(crate) login: Login,
    /// The permits of event streams, one for each listener.
    pub(crate) listeners: Arc<Semaphore>,
    /// The permits of searches.
    pub(crate) searches: Semaphore,
    /// The word of the application that it stops.
    pub(crate) stopping: Stopping,
    /// Cancelled when the dashboard's own server stops.
    pub(crate) closing: CancellationToken,
}

/// The settings of the dashboard.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The title above every page; default `asynq`.
    pub(crate) title: String,
    /// Whether nothing can be changed: pages show no buttons then.
    pub(crate) read_only: bool,
    /// The path at which the dashboard is mounted, without a slash at the end: `` or `/jobs`.
    pub(crate) mount: String,
    /// Whether only metrics and health checks are served, so that samples are never shown.
    pub(crate) observed_only: bool,
    /// Whether `/metrics` has the numbers of all queues besides this program's own metrics.
    pub(crate) queue_metrics: bool,
}

impl AppState {
    /// Creates the state for one client.
    pub(crate) fn new(
        client: Client,
        registry: Option<Registry>,
        config: Config,
        hosts: Hosts,
        login: Login,
        stopping: Stopping,
    ) -> Self {
        // From now on the metrics of this program are recorded.
        metrics::install();
        let inspector = client.inspector();
        Self(Arc::new(Inner {
            schedule: Schedule::new(&client),
            samples: Samples::new(Arc::clone(client.broker()), Pace::default()),
            collector: Collector::new(Arc::clone(client.broker())),
            probe: Probe::new(Arc::clone(client.broker())),
            nodes: nodes::of(Arc::clone(client.broker())),
            inspector,
            client,
            registry,
            config,
            hosts,
            login,
            listeners: Arc::new(Semaphore::new(STREAMS)),
            searches: Semaphore::new(SEARCHES),
            stopping,
            closing: CancellationToken::new(),
        }))
    }

    /// Returns the path of these segments below the mount path, each encoded: `app.href(&["queues", queue, "tasks", id])`.
    pub(crate) fn href(&self, segments: &[&str]) -> String {
        path::href(&self.config.mount, segments)
    }
}

impl Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

partial_debug!(AppState { client, config, .. });

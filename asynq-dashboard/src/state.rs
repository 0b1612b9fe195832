//! The state that all handlers share.

use std::{fmt, sync::Arc};

use asynq_cron::Schedule;
use asynq_runtime::{Client, Inspector, Registry};
use tokio::sync::Semaphore;

use crate::{
    host::Hosts,
    login::Login,
    metrics::{self, Collector},
    nodes::Nodes,
    path,
    probe::Probe,
    sample::Samples,
};

/// Most event streams at a time.
const STREAMS: usize = 64;
/// Most searches at a time; each of them keeps the broker busy.
const SEARCHES: usize = 4;

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Inner>);

struct Inner {
    client: Client,
    inspector: Inspector,
    schedule: Schedule,
    registry: Option<Registry>,
    samples: Samples,
    collector: Collector,
    probe: Probe,
    nodes: Nodes,
    config: Config,
    rules: Rules,
    listeners: Arc<Semaphore>,
    searches: Semaphore,
}

/// The rules of access.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The host names that the dashboard answers to.
    pub(crate) hosts: Hosts,
    /// The ways for people and programs to log in.
    pub(crate) login: Login,
}

/// The settings of the dashboard.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The title above every page; default `asynq`.
    pub(crate) title: String,
    /// Whether nothing can be changed: pages show no buttons then.
    pub(crate) read_only: bool,
    /// Whether a password can be given, so that there is a logout.
    pub(crate) has_password: bool,
    /// The path at which the dashboard is mounted, without a slash at the end: `` or `/jobs`.
    pub(crate) mount: String,
    /// Whether only metrics and health checks are served, so that samples are never shown.
    pub(crate) observed_only: bool,
    /// Whether `/metrics` has the numbers of all queues besides this program's own metrics.
    pub(crate) queue_metrics: bool,
}

impl AppState {
    /// Creates the state for one client.
    pub(crate) fn new(client: Client, registry: Option<Registry>, config: Config, rules: Rules) -> Self {
        // From now on the metrics of this program are recorded.
        metrics::install();
        let inspector = client.inspector();
        Self(Arc::new(Inner {
            schedule: Schedule::new(&client),
            samples: Samples::new(Arc::clone(client.broker())),
            collector: Collector::new(Arc::clone(client.broker())),
            probe: Probe::new(Arc::clone(client.broker())),
            nodes: Nodes::new(Arc::clone(client.broker())),
            inspector,
            client,
            registry,
            config,
            rules,
            listeners: Arc::new(Semaphore::new(STREAMS)),
            searches: Semaphore::new(SEARCHES),
        }))
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns the inspector, which looks at queues and tasks, and repairs them.
    pub(crate) fn inspector(&self) -> &Inspector {
        &self.0.inspector
    }

    /// Returns the periodic entries.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.0.schedule
    }

    /// Returns the jobs that this program knows; `None` for a dashboard that has only a broker.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        self.0.registry.as_ref()
    }

    /// Returns the numbers of all queues, now and in the last hour.
    pub(crate) fn samples(&self) -> &Samples {
        &self.0.samples
    }

    /// Returns the collector, which reads the queues for Prometheus.
    pub(crate) fn collector(&self) -> &Collector {
        &self.0.collector
    }

    /// Returns the probe, which knows whether the broker answers.
    pub(crate) fn probe(&self) -> &Probe {
        &self.0.probe
    }

    /// Returns the reader of the broker's nodes.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    /// Returns the settings of the dashboard.
    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    /// Returns the rules of access.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Returns the permits of event streams, one for each listener.
    pub(crate) fn listeners(&self) -> &Arc<Semaphore> {
        &self.0.listeners
    }

    /// Returns the permits of searches.
    pub(crate) fn searches(&self) -> &Semaphore {
        &self.0.searches
    }

    /// Returns the path of these segments below the mount path, each encoded: `app.href(&["queues", queue, "tasks", id])`.
    pub(crate) fn href(&self, segments: &[&str]) -> String {
        path::href(&self.config().mount, segments)
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState")
            .field("client", &self.0.client)
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

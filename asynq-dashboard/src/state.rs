//! What every handler may use.

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

/// What every handler may use. Cheap to clone.
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
    /// The host names that it answers to.
    pub(crate) hosts: Hosts,
    /// How people and programs log in.
    pub(crate) login: Login,
}

/// How the dashboard is shown.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// What stands above every page; default `asynq`.
    pub(crate) title: String,
    /// Whether nothing can be changed: pages show no buttons then.
    pub(crate) read_only: bool,
    /// Whether a password can be given, so that there is a logout.
    pub(crate) has_password: bool,
    /// Where it is mounted, without a slash at the end: `` or `/jobs`.
    pub(crate) mount: String,
    /// Whether metrics and health checks are all there is, so that samples are never shown.
    pub(crate) observed_only: bool,
    /// Whether `/metrics` tells the numbers of all queues beside what this program measured.
    pub(crate) queue_metrics: bool,
}

impl AppState {
    /// Of one client.
    pub(crate) fn new(client: Client, registry: Option<Registry>, config: Config, rules: Rules) -> Self {
        // From now on what this program does is measured.
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

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Looks at queues and tasks, and repairs them.
    pub(crate) fn inspector(&self) -> &Inspector {
        &self.0.inspector
    }

    /// The periodic entries.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.0.schedule
    }

    /// The jobs that this program knows; `None` beside a broker only.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        self.0.registry.as_ref()
    }

    /// The numbers of all queues, now and in the last hour.
    pub(crate) fn samples(&self) -> &Samples {
        &self.0.samples
    }

    /// Reads the queues for Prometheus.
    pub(crate) fn collector(&self) -> &Collector {
        &self.0.collector
    }

    /// Knows whether the broker answers.
    pub(crate) fn probe(&self) -> &Probe {
        &self.0.probe
    }

    /// What the broker's servers or files say of themselves.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    /// How the dashboard is shown.
    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    /// The rules of access.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// A place for one more listener of events each.
    pub(crate) fn listeners(&self) -> &Arc<Semaphore> {
        &self.0.listeners
    }

    /// A turn for one search each.
    pub(crate) fn searches(&self) -> &Semaphore {
        &self.0.searches
    }

    /// The path of these segments below the mount path, each encoded: `app.href(&["queues", queue, "tasks", id])`.
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

//! The dashboard as a service beside a worker's jobs, with the flags `--dashboard` and `--metrics`.

use std::{fmt, future::Future, io};

use asynq_runtime::{
    BoxError,
    job::BoxFuture,
    server::{Flag, Flags, Service, ServiceContext, ServiceEntry},
};
use tokio::runtime::{self, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tracing::instrument::WithSubscriber as _;

use crate::{
    builder::Dashboard,
    environment::{self, DASHBOARD, METRICS, METRICS_QUEUES},
    metrics,
};

/// Returns a dashboard at `address` for `ServerBuilder::service`, which a set-up function reaches by `App::server`. The dashboard
/// knows the server's jobs.
///
/// A program with `asynq_runtime::main!(services: [asynq_dashboard])` has the flag `--dashboard` instead.
///
/// ```no_run
/// # use asynq_runtime::prelude::*;
/// # async fn serve() -> Result<(), BoxError> {
/// let dashboard = asynq_dashboard::service("127.0.0.1:8080").configure(|dashboard| dashboard.title("Mails"));
/// Server::builder("redis://127.0.0.1:6379").service(dashboard).build().await?.run().await?;
/// # Ok(())
/// # }
/// ```
pub fn service(address: impl Into<String>) -> DashboardService {
    DashboardService { address: Some(address.into()), metrics: None, metrics_of_queues: false, configure: Box::new(Ok) }
}

type Configure = Box<dyn FnOnce(Dashboard) -> Result<Dashboard, BoxError> + Send>;

/// A dashboard, a metrics endpoint, or both; [`service`] makes one.
#[must_use = "a dashboard is not served until it is given to a server"]
pub struct DashboardService {
    address: Option<String>,
    metrics: Option<String>,
    metrics_of_queues: bool,
    configure: Configure,
}

impl DashboardService {
    /// Also serves metrics and health checks alone at this address: this program's own metrics.
    pub fn metrics(mut self, address: impl Into<String>) -> Self {
        self.metrics = Some(address.into());
        self
    }

    /// Adds the numbers of all queues to the metrics at that address. Default: no, because the numbers are equal in every worker,
    /// and each scrape reads all queues; one worker of a deployment, or `asynq web`, exports them to Prometheus.
    pub fn metrics_of_queues(mut self, queues: bool) -> Self {
        self.metrics_of_queues = queues;
        self
    }

    /// Sets options of the [`Dashboard`]: its title, a login, hosts.
    pub fn configure(mut self, configure: impl FnOnce(Dashboard) -> Dashboard + Send + 'static) -> Self {
        let before = self.configure;
        self.configure = Box::new(|dashboard| before(dashboard).map(configure));
        self
    }

    async fn serve(self, cx: ServiceContext) -> Result<(), BoxError> {
        if self.metrics_of_queues && self.metrics.is_none() {
            tracing::warn!("`metrics_of_queues` has no effect without an address for `metrics`");
        }
        let dashboard = (self.configure)(Dashboard::new(cx.client()).registry(cx.registry().clone()))?;
        // Supervisors ask at the root of the port, wherever the pages are mounted.
        let observed = dashboard.clone().observed_only().mount("").queue_metrics(self.metrics_of_queues);
        let metrics = async {
            let Some(address) = self.metrics else { return Ok(()) };
            OwnRuntime::start()?.run(serve(address, observed, "metrics", cx.clone())).await?
        };
        let pages = async {
            let Some(address) = self.address else { return Ok(()) };
            serve(address, dashboard, "dashboard", cx.clone()).await
        };
        tokio::try_join!(metrics, pages).map(|_| ())
    }
}

/// Serves until the server stops.
async fn serve(address: String, dashboard: Dashboard, label: &'static str, cx: ServiceContext) -> Result<(), BoxError> {
    let bound = dashboard.bind(&address).await?;
    tracing::info!("{label} at {}", bound.url());
    bound.serve_until(async move { cx.stopping().await }).await;
    Ok(())
}

/// A runtime with one thread of its own: jobs that block every thread of their runtime must delay no health check, because a
/// supervisor would kill the worker in the middle of them.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn start() -> io::Result<Self> {
        let mut builder = runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("asynq-metrics").enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    /// Runs `work`, which ends with this future.
    async fn run<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> Result<T, BoxError> {
        let Some(runtime) = &self.0 else { return Err("the runtime has ended".into()) };
        Ok(AbortOnDropHandle::new(runtime.spawn(work.with_current_subscriber())).await?)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // A plain drop would block the runtime of the jobs, which does not let it.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Service for DashboardService {
    fn name(&self) -> &'static str {
        "dashboard"
    }

    // Not when the service is made: until the server starts, the program may install a recorder of its own.
    fn before_start(&mut self) {
        metrics::install();
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin((*self).serve(cx))
    }
}

impl fmt::Debug for DashboardService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardService")
            .field("address", &self.address)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

inventory::submit! {
    ServiceEntry::new("dashboard", make).flags(flags)
}

fn make(flags: &Flags) -> Option<Box<dyn Service>> {
    let given = |name: &str, variable| match flags.value(name) {
        Some(value) => Ok(Some(value.to_owned())),
        None => environment::text(variable),
    };
    let (address, metrics) = (given("dashboard", DASHBOARD), given("metrics", METRICS));
    let (has_pages, has_metrics) = (!matches!(address, Ok(None)), !matches!(metrics, Ok(None)));
    for (name, needs, has_effect) in [
        ("dashboard-read-only", "`--dashboard`", has_pages),
        ("dashboard-host", "`--dashboard` or `--metrics`", has_pages || has_metrics),
        ("metrics-queues", "`--metrics`", has_metrics),
    ] {
        if flags.is_set(name) && !has_effect {
            tracing::warn!("`--{name}` has no effect without {needs}");
        }
    }
    // This function has no error: a variable that cannot be read fails the service when it starts.
    let (address, metrics, addresses) = match (address, metrics) {
        (Ok(None), Ok(None)) => return None,
        (Ok(address), Ok(metrics)) => (address, metrics, Ok(())),
        (Err(error), _) | (_, Err(error)) => (None, None, Err(error)),
    };
    let read_only = flags.is_set("dashboard-read-only");
    let hosts: Vec<String> = flags.values("dashboard-host").map(str::to_owned).collect();
    let configure = move |dashboard: Dashboard| {
        addresses?;
        environment::flag(METRICS_QUEUES)?;
        let dashboard =
            hosts.into_iter().fold(dashboard.from_env()?, Dashboard::allow_host).host_flag("--dashboard-host");
        Ok(if read_only { dashboard.read_only(true) } else { dashboard })
    };
    let metrics_of_queues =
        has_metrics && (flags.is_set("metrics-queues") || environment::flag(METRICS_QUEUES).unwrap_or(false));
    Some(Box::new(DashboardService { address, metrics, metrics_of_queues, configure: Box::new(configure) }))
}

/// Returns the flags of the worker. `OF_DASHBOARD` of asynq-runtime names each of them, for programs without this crate.
fn flags() -> Vec<Flag> {
    vec![
        Flag::value("dashboard", "ADDR", "Serves a web dashboard there, such as 127.0.0.1:8080 [env: ASYNQ_DASHBOARD]"),
        Flag::switch("dashboard-read-only", "Refuses all changes by the dashboard [env: ASYNQ_DASHBOARD_READ_ONLY]"),
        Flag::value(
            "dashboard-host",
            "HOST",
            "Lets the dashboard answer to this host name too [env: ASYNQ_DASHBOARD_HOSTS]",
        )
        .repeated(),
        Flag::value(
            "metrics",
            "ADDR",
            "Serves metrics and health checks there, such as 127.0.0.1:9090 [env: ASYNQ_METRICS]",
        ),
        Flag::switch(
            "metrics-queues",
            "Adds the numbers of all queues to the metrics, for one worker of many [env: ASYNQ_METRICS_QUEUES]",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use asynq_test_support::Log;

    use super::*;

    #[test]
    fn a_flag_without_the_address_that_it_is_for_is_warned_of() {
        let log = Log::keep();
        for (names, warned) in [
            (&["dashboard-read-only"][..], 1),
            (&["dashboard-host"], 1),
            (&["metrics-queues"], 1),
            (&["dashboard", "metrics-queues"], 1),
            (&["metrics", "dashboard-read-only"], 1),
            (&["dashboard", "dashboard-read-only", "dashboard-host"], 0),
            (&["metrics", "metrics-queues", "dashboard-host"], 0),
        ] {
            let before = log.with("has no effect without").len();
            let given = names.iter().fold(Flags::default(), |flags, name| flags.set(*name, Some("0".to_owned())));
            drop(make(&given));
            assert_eq!(log.with("has no effect without").len() - before, warned, "{names:?}");
        }
    }
}

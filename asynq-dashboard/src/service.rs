//! The dashboard as a service beside a worker's jobs, with the flags `--dashboard` and `--metrics`.

use std::{future::Future, io};

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
    error::DashboardError,
    serve::Bound,
};

/// Returns a dashboard at `address` for `ServerBuilder::service`, which a set-up function reaches by `App::server`. The dashboard
/// knows the server's jobs.
///
/// The variables of [`Dashboard::from_env`] count, such as `ASYNQ_DASHBOARD_READ_ONLY` and `ASYNQ_DASHBOARD_TOKEN`, and options of
/// [`configure`](DashboardService::configure) replace them; hosts and proxies are added to theirs. `ASYNQ_METRICS` and
/// `ASYNQ_METRICS_QUEUES` count where the service sets nothing else. The flags of the command line, such as `--metrics`, have no effect on this service; a warning says so where the
/// program has its linked services.
///
/// A program with `asynq_runtime::main!(services: [asynq_dashboard])` has the flag `--dashboard` without this function.
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
    let address = Address { text: address.into(), setting: "asynq_dashboard::service" };
    DashboardService::new(Some(address), None)
}

type Configure = Box<dyn FnOnce(Dashboard) -> Result<Dashboard, BoxError> + Send>;

/// A dashboard, a metrics endpoint, or both; [`service`] makes one.
#[must_use = "a dashboard is not served until it is given to a server"]
pub struct DashboardService {
    address: Option<Address>,
    metrics: Option<Address>,
    /// Whether the metrics have the numbers of all queues; `None` leaves it to the environment.
    queue_metrics: Option<bool>,
    configure: Configure,
    /// The pages, once they listen.
    pages: Option<Bound>,
    /// The metrics, once they listen on their runtime.
    observed: Option<(OwnRuntime, Bound)>,
}

/// An address, with the setting that it comes from, for messages.
#[derive(Debug, Clone)]
struct Address {
    text: String,
    setting: &'static str,
}

/// An address that a dashboard cannot have.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {source}")]
struct AddressError {
    setting: &'static str,
    source: DashboardError,
}

impl Address {
    async fn bind(self, dashboard: Dashboard) -> Result<Bound, BoxError> {
        dashboard.bind(&self.text).await.map_err(|source| match source {
            DashboardError::Address { .. } | DashboardError::Bind { .. } | DashboardError::NoLogin { .. } => {
                AddressError { setting: self.setting, source }.into()
            }
            other => other.into(),
        })
    }
}

impl DashboardService {
    fn new(address: Option<Address>, metrics: Option<Address>) -> Self {
        // A login or a refusal of changes that the environment asks for must not depend on how the program adds its dashboard.
        let configure: Configure = Box::new(|dashboard: Dashboard| Ok(dashboard.from_env()?));
        Self { address, metrics, queue_metrics: None, configure, pages: None, observed: None }
    }

    /// Also serves metrics, statistics and health checks alone at this address: this program's own metrics. Default: at `ASYNQ_METRICS`, if that
    /// variable is set; of several services in one program, all but one have to say where.
    pub fn metrics(mut self, address: impl Into<String>) -> Self {
        self.metrics = Some(Address { text: address.into(), setting: "DashboardService::metrics" });
        self
    }

    /// Adds the numbers of all queues to the metrics at that address. Default: as `ASYNQ_METRICS_QUEUES` says, or else no, because
    /// the numbers are equal in every worker, and each scrape reads all queues; one worker of a deployment, or `asynq web`, exports
    /// them to Prometheus.
    pub fn queue_metrics(mut self, queues: bool) -> Self {
        self.queue_metrics = Some(queues);
        self
    }

    /// Sets options of the [`Dashboard`]: its title, a login, hosts. [`Dashboard::queue_metrics`] is that of the pages' port alone.
    pub fn configure(mut self, configure: impl FnOnce(Dashboard) -> Dashboard + Send + 'static) -> Self {
        let before = self.configure;
        self.configure = Box::new(|dashboard| before(dashboard).map(configure));
        self
    }

    async fn listen(&mut self, cx: &ServiceContext) -> Result<(), BoxError> {
        let configure = std::mem::replace(&mut self.configure, Box::new(Ok));
        let dashboard = configure(Dashboard::new(cx.client()).registry(cx.registry().clone()))?;
        let metrics = match self.metrics.clone() {
            Some(address) => Some(address),
            None => environment::text(METRICS)?.map(|text| Address { text, setting: METRICS }),
        };
        if self.queue_metrics == Some(true) && metrics.is_none() {
            log!(warn, "`queue_metrics` has no effect without an address for `metrics`");
        }
        let of_environment = environment::flag(METRICS_QUEUES)?;
        let of_queues = self.queue_metrics.unwrap_or(of_environment);
        // Supervisors ask at the root of the port, wherever the pages are mounted.
        let observed = dashboard.clone().observed_only().mount("").queue_metrics(of_queues);
        if let Some(address) = metrics {
            let runtime = OwnRuntime::start()?;
            let bound = runtime.run(address.bind(observed)).await??;
            self.observed = Some((runtime, bound));
        }
        if let Some(address) = self.address.clone() {
            self.pages = Some(address.bind(dashboard).await?);
        }
        Ok(())
    }

    async fn serve(mut self, cx: ServiceContext) -> Result<(), BoxError> {
        // A service that wraps this one may not pass `before_start` on.
        if self.pages.is_none() && self.observed.is_none() {
            self.listen(&cx).await?;
        }
        let metrics = async {
            let Some((runtime, bound)) = self.observed else { return Ok(()) };
            runtime.run(serve(bound, "metrics", cx.clone())).await
        };
        let pages = async {
            if let Some(bound) = self.pages {
                serve(bound, "dashboard", cx.clone()).await;
            }
            Ok::<(), BoxError>(())
        };
        tokio::try_join!(metrics, pages).map(|_| ())
    }
}

/// Serves until the server stops.
async fn serve(bound: Bound, label: &'static str, cx: ServiceContext) {
    log!(info, "{label} at {}", bound.url());
    bound.serve_until(async move { cx.stopping().await }).await;
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
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, BoxError> {
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

    // The first tasks are in the metrics, because a dashboard that listens has installed its recorder. A program installs a recorder of
    // its own before the server starts.
    fn before_start<'a>(&'a mut self, cx: &'a ServiceContext) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(self.listen(cx))
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin((*self).serve(cx))
    }
}

partial_debug!(DashboardService { address, metrics, .. });

inventory::submit! {
    ServiceEntry::new("dashboard", make).flags(flags)
}

fn make(flags: &Flags) -> Option<Box<dyn Service>> {
    let given = |name: &str, flag, variable| match flags.value(name) {
        Some(value) => Ok(Some(Address { text: value.to_owned(), setting: flag })),
        None => environment::text(variable).map(|text| text.map(|text| Address { text, setting: variable })),
    };
    let address = given("dashboard", "--dashboard", DASHBOARD);
    let metrics = given("metrics", "--metrics", METRICS);
    let (has_pages, has_metrics) = (!matches!(address, Ok(None)), !matches!(metrics, Ok(None)));
    for (name, needs, has_effect) in [
        ("dashboard-read-only", "`--dashboard`", has_pages),
        ("dashboard-host", "`--dashboard` or `--metrics`", has_pages || has_metrics),
        ("metrics-queues", "`--metrics`", has_metrics),
    ] {
        if flags.is_set(name) && !has_effect {
            log!(warn, "`--{name}` has no effect without {needs}");
        }
    }
    // This function has no error: a variable that cannot be read fails the start of the service.
    let (address, metrics, addresses) = match (address, metrics) {
        (Ok(None), Ok(None)) => return None,
        (Ok(address), Ok(metrics)) => (address, metrics, Ok(())),
        (Err(error), _) | (_, Err(error)) => (None, None, Err(error)),
    };
    let read_only = flags.is_set("dashboard-read-only");
    let hosts: Vec<String> = flags.values("dashboard-host").map(str::to_owned).collect();
    let configure = move |dashboard: Dashboard| {
        addresses?;
        let dashboard =
            hosts.into_iter().fold(dashboard.from_env()?, Dashboard::allow_host).host_flag("--dashboard-host");
        Ok(if read_only { dashboard.read_only(true) } else { dashboard })
    };
    let mut service = DashboardService::new(address, metrics);
    service.configure = Box::new(configure);
    service.queue_metrics = (has_metrics && flags.is_set("metrics-queues")).then_some(true);
    Some(Box::new(service))
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
            "Serves metrics, statistics and health checks there, such as 127.0.0.1:9090 [env: ASYNQ_METRICS]",
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

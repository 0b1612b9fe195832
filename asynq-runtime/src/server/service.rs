//! Long-running services beside the jobs. Crates that this one does not depend on bring them: cron, dashboard, metrics.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::{runtime, sync::SetOnce, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{Dispatch, instrument::WithSubscriber as _, subscriber::NoSubscriber};

use super::{
    error::ServerError,
    flags::{Flag, Flags},
};
use crate::{
    broker::ServerName,
    censor::usage_without_passwords,
    client::Client,
    job::{BoxError, BoxFuture, Registry, SharedError},
    panics::Caught,
};

/// Work beside the jobs that lasts as long as the server. A service runs on the runtime of the jobs, unless it asks for the
/// thread of the heartbeat.
pub trait Service: Send + 'static {
    /// Returns the name of the service, for messages.
    fn name(&self) -> &'static str;

    /// Returns whether a server may run for this service alone, without any job; default no. Such a server serves no queue.
    fn stands_alone(&self) -> bool {
        false
    }

    /// Returns whether the flags of the command line leave this service out of its server, as `--no-schedule` does a scheduler;
    /// default no. A service that wraps another one passes this call on.
    fn is_left_out(&self, _flags: &Flags) -> bool {
        false
    }

    /// Returns whether the service runs on the server's own thread beside the heartbeat, so that jobs which block every thread of
    /// their runtime do not delay it; default no. The service must never block there, because the server would lose its leases:
    /// code of the program that may block belongs on [`ServiceContext::jobs`].
    fn runs_beside_heartbeat(&self) -> bool {
        false
    }

    /// Runs once before the server takes its first task, after its hooks `before_start`. An error, such as a port that is taken, ends the
    /// start: a mistake that shows only in [`run`](Self::run) interrupts tasks that have begun meanwhile. Default: does nothing.
    /// A service that wraps another one passes this call on.
    ///
    /// It runs on the runtime that called `start`, also for a service that [runs beside the heartbeat](Self::runs_beside_heartbeat):
    /// a listener that is bound here belongs to that runtime.
    fn before_start<'a>(&'a mut self, _cx: &'a ServiceContext) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Works until the context says that the server is stopping. An error stops the server; an early end without an error does
    /// not.
    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>>;
}

/// The parts of a server that its services may use. Cheap to clone.
#[derive(Clone)]
pub struct ServiceContext {
    pub(super) client: Client,
    pub(super) registry: Registry,
    pub(super) stopping: CancellationToken,
    pub(super) jobs: runtime::Handle,
}

impl ServiceContext {
    /// Returns a client of the server's broker.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the jobs of the program, those included that [`only`](super::ServerBuilder::only) and
    /// [`except`](super::ServerBuilder::except) keep from this server.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the runtime on which the jobs run.
    pub fn jobs(&self) -> &runtime::Handle {
        &self.jobs
    }

    /// Returns a name for a service that asynq's tools list besides the server: `HOST:PID:UUID`, new at every call.
    #[doc(hidden)]
    pub fn new_name(&self) -> ServerName {
        super::identity::new_name()
    }

    /// Returns whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits until the server is stopping.
    pub async fn stopping(&self) {
        self.stopping.cancelled().await;
    }
}

partial_debug!(ServiceContext { client, .. });

/// A service that a linked crate offers to every server: `inventory::submit! { ServiceEntry::new(name, make) }`.
///
/// A program of `main!` starts it by its flags. A server of [`Server::builder`](super::Server::builder) starts it as if no
/// flag was given, unless the server has a service of that name already or leaves linked services out.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ServiceEntry {
    /// Name of the service.
    pub(crate) name: &'static str,
    /// Makes the service from the values of its flags; `None` when they leave it off.
    pub(crate) make: fn(&Flags) -> Option<Box<dyn Service>>,
    /// The flags that the service adds to the program's command line.
    pub(crate) flags: fn() -> Vec<Flag>,
    /// The rows that the service adds to the listing of `jobs`.
    pub rows: fn() -> Vec<ServiceRow>,
}

inventory::collect!(ServiceEntry);

impl ServiceEntry {
    /// Returns the entry of a service without flags and rows.
    pub const fn new(name: &'static str, make: fn(&Flags) -> Option<Box<dyn Service>>) -> Self {
        Self { name, make, flags: Vec::new, rows: Vec::new }
    }

    /// Sets the flags that the service adds to the program's command line.
    pub const fn flags(mut self, flags: fn() -> Vec<Flag>) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the rows that the service adds to the listing of `jobs`.
    pub const fn rows(mut self, rows: fn() -> Vec<ServiceRow>) -> Self {
        self.rows = rows;
        self
    }

    /// Returns every service that is linked into this program, by name.
    pub(crate) fn linked() -> Vec<&'static Self> {
        let mut entries: Vec<_> = inventory::iter::<Self>().collect();
        entries.sort_by_key(|entry| entry.name);
        entries
    }
}

partial_debug!(ServiceEntry { name, .. });

/// One line that a service adds to the listing of `jobs`, such as a periodic entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServiceRow {
    /// Subject of the row: a job's name, an address.
    pub(crate) subject: String,
    /// When or how, for people: a schedule, a port.
    pub(crate) detail: String,
    /// The next moments of the subject, soonest first; empty where it has none.
    pub(crate) next: Vec<DateTime<Utc>>,
}

impl ServiceRow {
    /// Returns a row without next moments.
    pub fn new(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), detail: detail.into(), next: Vec::new() }
    }

    /// Sets the next moments of the subject, soonest first.
    pub fn next(mut self, next: Vec<DateTime<Utc>>) -> Self {
        self.next = next;
        self
    }
}

/// The services of one running server; dropping it ends them.
#[derive(Debug)]
pub(super) struct Services {
    _watcher: AbortOnDropHandle<()>,
    /// The first failure.
    failure: Arc<SetOnce<Failure>>,
}

/// The name of a service, and why it failed.
type Failure = (&'static str, SharedError);

/// Calls [`Service::before_start`] of each.
///
/// # Errors
///
/// The first service that failed or panicked: the server does not start.
pub(super) async fn before_start(
    services: &mut [Box<dyn Service>],
    context: &ServiceContext,
) -> Result<(), ServerError> {
    for service in services {
        let name = service.name();
        // Making the future may panic as well.
        let ended = Caught::new(async { service.before_start(context).await }).await;
        let ended = ended.unwrap_or_else(|panic| Err(panic.into()));
        ended.map_err(|error| ServerError::Service { name, source: error.into() })?;
    }
    Ok(())
}

impl Services {
    /// Starts each service on the runtime of the jobs, or on `heartbeat`; `ended` is cancelled when all services have ended.
    pub(super) fn start(
        services: Vec<Box<dyn Service>>,
        context: ServiceContext,
        heartbeat: &runtime::Handle,
        ended: CancellationToken,
    ) -> Self {
        let (mut running, jobs) = (JoinSet::new(), context.jobs.clone());
        // The thread of a service may have no subscriber: the service logs to that of the thread which starts the server.
        let subscriber = tracing::dispatcher::get_default(Dispatch::clone);
        let subscriber = Some(subscriber).filter(|subscriber| !subscriber.is::<NoSubscriber>());
        for service in services {
            let runtime = if service.runs_beside_heartbeat() { heartbeat } else { &jobs };
            let (name, context) = (service.name(), context.clone());
            // Making the future may panic as well.
            let run = async move { (name, Caught::new(async move { service.run(context).await }).await) };
            match &subscriber {
                Some(subscriber) => running.spawn_on(run.with_subscriber(subscriber.clone()), runtime),
                None => running.spawn_on(run, runtime),
            };
        }
        let failure = Arc::<SetOnce<Failure>>::default();
        let first = Arc::clone(&failure);
        // A runtime that ends drops this task with the services.
        let ended = ended.drop_guard();
        let watcher = jobs.spawn(async move {
            let _ended = ended;
            while let Some(outcome) = running.join_next().await {
                let (name, source) = match outcome {
                    Ok((_, Ok(Ok(())))) => continue,
                    Ok((name, Ok(Err(error)))) => (name, error),
                    Ok((name, Err(panic))) => (name, BoxError::from(panic)),
                    Err(ended) => ("unknown", BoxError::from(ended)),
                };
                let source = SharedError::from(source);
                // The error may quote a setting of the service that is a URL in the wrong place.
                let error = ServerError::Service { name, source: source.clone() }.to_string();
                log!(error, "{}", usage_without_passwords(&error));
                // A later failure leaves the first one in place.
                let _ = first.set((name, source));
            }
        });
        Self { _watcher: AbortOnDropHandle::new(watcher), failure }
    }

    /// Waits until a service has failed.
    pub(super) async fn failed(&self) {
        self.failure.wait().await;
    }

    /// Returns the first failure, if there was one.
    pub(super) fn outcome(&self) -> Result<(), ServerError> {
        match self.failure.get().cloned() {
            Some((name, source)) => Err(ServerError::Service { name, source }),
            None => Ok(()),
        }
    }
}

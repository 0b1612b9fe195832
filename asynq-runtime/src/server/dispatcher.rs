//! Finds the job or handler of a task, and starts it: the innermost part of every attempt, inside all layers.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

use super::{config::OnUnknown, handlers::Handlers};
use crate::{
    broker::{Broker, BrokerError, BrokerErrorKind},
    job::{
        BoxFuture, JobContext, JobDescriptor, JobError, LINKED_BY_NAME, Needs, PayloadError, RawTask, Registry,
        RunResult, ShapeCache, ShapeLookup,
    },
    metrics::{JobMetrics, JobMetricsMap},
    panics,
    task::TaskMessage,
};

/// How many unknown types are remembered as warned about.
const WARNED: usize = 1000;

/// The jobs and handlers that a server can run.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) registry: Registry,
    pub(crate) handlers: Handlers,
    pub(crate) on_unknown: OnUnknown,
    metrics: JobMetricsMap,
    shapes: ShapeCache,
    warned: Mutex<HashSet<String>>,
}

/// A task that was not started. It goes through the layers as an ordinary error, as asynq's not-found handler does, and
/// is recognised again outside of them.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NotRun {
    /// Nothing here knows its type or the shape of its arguments.
    #[error("{0}")]
    Unknown(String),
    /// No retry can change the reason.
    #[error("{0}")]
    Hopeless(String),
    /// Its arguments have another shape, which the broker could not be asked for.
    #[error("the broker cannot be asked for the shape of the arguments: {0}")]
    Unasked(BrokerError),
}

impl Dispatcher {
    pub(crate) fn new(registry: Registry, handlers: Handlers, on_unknown: OnUnknown) -> Self {
        let names = registry.iter().map(|job| job.name).chain(handlers.patterns());
        let metrics = JobMetricsMap::new(names);
        Self { registry, handlers, on_unknown, metrics, shapes: ShapeCache::default(), warned: Mutex::default() }
    }

    /// Returns whether a job or a handler answers to this type.
    pub(crate) fn knows(&self, r#type: &str) -> bool {
        self.registry.get(r#type).is_some() || self.handlers.find(r#type).is_some()
    }

    /// Returns the metrics of the job or handler that answers to this type.
    pub(crate) fn metrics(&self, r#type: &str) -> &Arc<JobMetrics> {
        let by_pattern = || self.metrics.get(self.handlers.find(r#type)?.0);
        let known = self.registry.get(r#type).and_then(|job| self.metrics.get(job.name));
        known.or_else(by_pattern).unwrap_or(&self.metrics.unknown)
    }

    /// Reads the arguments and returns the attempt, not yet polled. A job answers to its name and its aliases; a task that no job
    /// answers to goes to the handlers. Reading runs code of the program, which may panic.
    pub(crate) fn start(self: &Arc<Self>, ctx: JobContext) -> Result<BoxFuture<'static, RunResult>, NotRun> {
        if let Some(job) = self.registry.get(ctx.name()) {
            return match job.start(ctx.payload(), ctx.clone()) {
                Ok(work) => Ok(work),
                Err(error) if error.is_of_another_version() => {
                    let earlier = Arc::clone(self).start_earlier(*job, ctx, error);
                    Ok(Box::pin(async move { earlier.await.map_err(JobError::fail)?.await }))
                }
                Err(error) => Err(NotRun::Hopeless(error.to_string())),
            };
        }
        if let Some((_, handler)) = self.handlers.find(ctx.name()) {
            return Ok(handler(RawTask::delivered(ctx)));
        }
        Err(NotRun::Unknown(format!("handler not found for task {:?}", ctx.name())))
    }

    /// Starts a job whose arguments have another shape, if the shape that the broker keeps of them helps.
    async fn start_earlier(
        self: Arc<Self>,
        job: JobDescriptor,
        ctx: JobContext,
        error: PayloadError,
    ) -> Result<BoxFuture<'static, RunResult>, NotRun> {
        let payload = ctx.payload().clone();
        let lookup = self.shape_of(ctx.broker(), ctx.name(), &payload, &error).await?;
        job.start_earlier(&payload, lookup.as_deref(), ctx).map_err(|error| NotRun::Unknown(error.to_string()))
    }

    /// Asks the broker for the shape of a payload that cannot be read because of `error`.
    async fn shape_of(
        &self,
        broker: Option<&Arc<dyn Broker>>,
        name: &str,
        payload: &[u8],
        error: &PayloadError,
    ) -> Result<Option<Arc<ShapeLookup>>, NotRun> {
        let Some((broker, needs)) = broker.zip(Needs::of(payload)) else {
            return Err(NotRun::Unknown(error.to_string()));
        };
        self.shapes.find(broker, name, needs).await.map_err(|failed| {
            if failed.is_unavailable() || failed.kind() == BrokerErrorKind::Closed {
                return NotRun::Unasked(failed);
            }
            NotRun::Unknown(format!("{error}; the other shape cannot be read: {failed}"))
        })
    }

    /// Returns the shape that the broker keeps of a payload of another version; `None` for any other payload. Reading runs code of the
    /// program; a payload that makes it panic is not of another version.
    pub(crate) async fn earlier_shape(
        &self,
        broker: Option<&Arc<dyn Broker>>,
        job: &JobDescriptor,
        name: &str,
        payload: &[u8],
    ) -> Result<Option<Arc<ShapeLookup>>, NotRun> {
        match panics::catch(|| job.reads(payload, None)) {
            Ok(Err(error)) if error.is_of_another_version() => self.shape_of(broker, name, payload, &error).await,
            _ => Ok(None),
        }
    }

    /// Says why a task of a job would not be started for the shape of its arguments, before anything is done for its start. Reading runs
    /// code of the program, which may panic.
    pub(crate) async fn reads(&self, broker: &Arc<dyn Broker>, message: &TaskMessage) -> Result<(), NotRun> {
        let Some(job) = self.registry.get(&message.r#type) else { return Ok(()) };
        let read =
            |lookup: Option<&ShapeLookup>| panics::catch(|| job.reads(&message.payload, lookup)).unwrap_or(Ok(()));
        match read(None) {
            Err(error) if error.is_of_another_version() => {
                let lookup = self.shape_of(Some(broker), &message.r#type, &message.payload, &error).await?;
                read(lookup.as_deref()).map_err(|error| NotRun::Unknown(error.to_string()))
            }
            // A payload of this version that cannot be read is archived at its start.
            _ => Ok(()),
        }
    }

    /// Warns of a task that is unknown here, once per type: a deploy of minutes must not fill the log.
    pub(crate) fn warn_of(&self, r#type: &str, why: &str) {
        let mut warned = self.warned.lock();
        if warned.len() < WARNED && warned.insert(r#type.to_owned()) {
            let policy = self.on_unknown;
            let is_here = self.knows(r#type) || Registry::is_linked(r#type);
            let linked = if is_here { String::new() } else { format!("; {LINKED_BY_NAME}") };
            log!(warn, r#type, %policy, "a task cannot run here: {why}{linked}; logged once per type");
        }
    }
}

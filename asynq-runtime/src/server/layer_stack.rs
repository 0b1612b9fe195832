//! The layers around execution: any tower layers over a service of one attempt (`ServerBuilder::layer`).
//!
//! There is one service, which is owned: a layer such as tower's `RateLimit` cannot be cloned. So the service is polled for
//! readiness before a task is fetched, and each task that starts has a permit: back-pressure holds tasks in their queues, and
//! none waits inside the server. Layers that have been ready for a while get a batch ([`BatchController`]); tasks that they do
//! not take at once are requeued. All code of a layer runs on the runtime that runs the jobs.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime, sync::Notify};
use tokio_util::task::AbortOnDropHandle;
use tower_service::Service;

use super::{batch_controller::BatchController, dispatcher::Dispatcher};
use crate::{
    broker::shortened,
    client::Erased,
    job::{BoxError, BoxFuture, JobContext, JobError, RunResult, with_causes},
    pause::SeldomLines,
    task::length,
    until::until,
};

/// Pause before layers that failed are asked again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// One attempt at one task on its way through the layers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobRequest {
    pub(super) ctx: JobContext,
}

impl JobRequest {
    /// Returns the context of the attempt: the task's facts, its headers, and values that outer layers pass on
    /// ([`JobContext::insert`]).
    pub fn context(&self) -> &JobContext {
        &self.ctx
    }

    /// Returns the name of the job.
    pub fn name(&self) -> &str {
        self.ctx.name()
    }

    /// Returns the encoded arguments.
    pub fn payload(&self) -> &Bytes {
        self.ctx.payload()
    }
}

/// The response of an attempt that succeeded. A failed attempt is an error, with its [`Policy`](crate::Policy) inside.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobResponse {
    result: Option<Bytes>,
}

impl JobResponse {
    /// Returns the success of a layer that does not run the job, without a result.
    pub fn done() -> Self {
        Self { result: None }
    }

    /// Returns the encoded result of the job; `None` for `()`.
    pub fn result(&self) -> Option<&Bytes> {
        self.result.as_ref()
    }
}

/// The service that a layer wraps: it runs attempts, or is another layer around such a service. Its errors may carry a policy
/// through [`JobError::into_error`].
pub struct JobService(pub(super) Box<dyn Erased<JobRequest, JobResponse>>);

type Answer = Result<JobResponse, BoxError>;

impl Service<JobRequest> for JobService {
    type Response = JobResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        self.0.call(request)
    }
}

partial_debug!(JobResponse { result as length, .. });
partial_debug!(JobService { .. });

/// The service that the innermost layer wraps: it runs the job itself.
struct Innermost(Arc<Dispatcher>);

impl Erased<JobRequest, JobResponse> for Innermost {
    fn call(&mut self, request: JobRequest) -> BoxFuture<'static, Answer> {
        let dispatcher = Arc::clone(&self.0);
        Box::pin(async move {
            let work = dispatcher.start(request.ctx)?;
            Ok(JobResponse { result: work.await.map_err(JobError::into_error)? })
        })
    }
}

/// The layers of a server, the outermost first, not built yet.
#[derive(Default)]
pub(crate) struct Layers {
    pub(super) wraps: Vec<Wrap>,
}

type Wrap = Box<dyn FnOnce(JobService) -> JobService + Send>;

impl Layers {
    /// Builds the layers around `dispatcher`, on the runtime that runs the jobs: layers have timers. Returns `None` if there
    /// are none.
    pub(crate) fn build(self, dispatcher: &Arc<Dispatcher>) -> Option<Arc<LayerStack>> {
        if self.wraps.is_empty() {
            return None;
        }
        let innermost = JobService(Box::new(Innermost(Arc::clone(dispatcher))));
        let service = self.wraps.into_iter().rev().fold(innermost, |inner, wrap| wrap(inner));
        Some(Arc::new(LayerStack::new(service)))
    }
}

partial_debug!(Layers { wraps as Vec::len, .. });

/// The one service of a server, and the permit to call it next.
#[derive(Debug)]
pub(crate) struct LayerStack {
    inside: Mutex<Inside>,
    returned: Notify,
    batch_controller: Mutex<BatchController>,
    /// The lines that say that the layers failed: they may fail for ever.
    failure_lines: SeldomLines,
}

#[derive(Debug)]
struct Inside {
    service: JobService,
    /// Whether the permit is taken.
    is_taken: bool,
}

impl LayerStack {
    fn new(service: JobService) -> Self {
        Self {
            inside: Mutex::new(Inside { service, is_taken: false }),
            returned: Notify::new(),
            batch_controller: Mutex::default(),
            failure_lines: SeldomLines::default(),
        }
    }

    /// Waits until the layers take a task, and returns the permit to call them. Returns `None` if they failed, after a pause.
    ///
    /// # Errors
    ///
    /// The runtime of the jobs has ended.
    pub(crate) async fn permit(self: &Arc<Self>, jobs: &runtime::Handle) -> Result<Option<Permit>, RuntimeEnded> {
        if let Some(permit) = self.permit_at_once(jobs).await {
            return Ok(Some(permit));
        }
        self.batch_controller().stalled();
        let request = AbortOnDropHandle::new(jobs.spawn(Arc::clone(self).ready()));
        let error = match request.await {
            Ok(Ok(permit)) => return Ok(Some(permit)),
            Ok(Err(error)) => error,
            Err(ended) if ended.is_panic() => "a layer panicked when it was asked whether it is ready".into(),
            Err(_) => return Err(RuntimeEnded),
        };
        self.log_failure(&error);
        tokio::time::sleep(AFTER_FAILURE).await;
        Ok(None)
    }

    /// Logs that the layers failed, now and then.
    fn log_failure(&self, error: &BoxError) {
        if self.failure_lines.is_due() {
            let why = with_causes(&**error);
            log!(error, "the layers around the jobs take no task, will ask again: {}", shortened(&why));
        }
    }

    /// Returns the permit if the layers are ready now. Waits no longer than until the holder of the permit has used it.
    pub(crate) async fn permit_at_once(self: &Arc<Self>, jobs: &runtime::Handle) -> Option<Permit> {
        let layer_stack = Arc::clone(self);
        let request = AbortOnDropHandle::new(jobs.spawn(async move {
            layer_stack.is_back().await;
            let ready = poll_fn(|cx| Poll::Ready(layer_stack.inside.lock().service.poll_ready(cx))).await;
            matches!(ready, Poll::Ready(Ok(()))).then(|| layer_stack.give())
        }));
        // `permit` meets the same error or panic again, and reports it.
        request.await.ok().flatten()
    }

    /// Returns the controller of how many tasks may be fetched for one permit.
    pub(crate) fn batch_controller(&self) -> MutexGuard<'_, BatchController> {
        self.batch_controller.lock()
    }

    /// Waits until the layers take a task, on the runtime of the jobs. Fails where a layer fails.
    pub(crate) async fn ready(self: Arc<Self>) -> Result<Permit, BoxError> {
        self.is_back().await;
        poll_fn(|cx| self.inside.lock().service.poll_ready(cx)).await?;
        Ok(self.give())
    }

    /// Waits until no caller has the permit. One caller at a time asks for it: the fetcher, or the drain of a `TestApp`.
    async fn is_back(&self) {
        until(&self.returned, || (!self.inside.lock().is_taken).then_some(())).await;
    }

    fn give(self: &Arc<Self>) -> Permit {
        self.inside.lock().is_taken = true;
        Permit(Arc::clone(self))
    }
}

/// The runtime of the jobs has ended: no more of them can run.
#[derive(Debug)]
pub(crate) struct RuntimeEnded;

/// The right to pass one task to the layers; its drop returns it.
#[derive(Debug)]
pub(crate) struct Permit(Arc<LayerStack>);

impl Permit {
    /// Passes a task to the layers. Panics where a layer does.
    pub(crate) fn call(self, ctx: JobContext) -> BoxFuture<'static, RunResult> {
        let answer = self.0.inside.lock().service.call(JobRequest { ctx });
        Box::pin(async move { answer.await.map(|response| response.result).map_err(JobError::from) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.inside.lock().is_taken = false;
        self.0.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails;

    impl Erased<JobRequest, JobResponse> for Fails {
        fn call(&mut self, _: JobRequest) -> BoxFuture<'static, Answer> {
            Box::pin(async { Err("it takes no task".into()) })
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no limit is known")]
    struct Unknown(#[source] BoxError);

    #[test]
    fn layers_that_go_on_failing_are_in_the_log_with_the_cause_now_and_then() {
        let log = asynq_test_support::Log::keep();
        let layer_stack = LayerStack::new(JobService(Box::new(Fails)));
        let error: BoxError = Unknown("connection refused".into()).into();
        let lines = || {
            layer_stack.log_failure(&error);
            log.with("will ask again: no limit is known: connection refused").len()
        };
        assert_eq!([lines(), lines()], [1, 1]);
    }
}

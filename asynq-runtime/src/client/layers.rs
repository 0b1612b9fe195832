//! Layers around enqueueing: any tower layers over a service of one task ([`Client::layer`]).

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Client,
    erased::{Erased, Typed},
};
use crate::{
    job::{BoxError, BoxFuture, EnqueueError, PreparedTask},
    metrics,
    task::TaskInfo,
    until::until,
};

/// Tasks of one call that are on their way through the layers at a time.
const TOGETHER: usize = 256;

/// The service that a layer around enqueueing wraps: it sends tasks to the broker, or is another layer around such a service.
pub struct EnqueueService(Box<dyn Erased<PreparedTask, TaskInfo>>);

type Answer = Result<TaskInfo, BoxError>;

impl Service<PreparedTask> for EnqueueService {
    type Response = TaskInfo;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, task: PreparedTask) -> Self::Future {
        self.0.call(task)
    }
}

partial_debug!(EnqueueService { .. });

/// A client as the service that its layers wrap.
struct Inner(Client);

impl Erased<PreparedTask, TaskInfo> for Inner {
    fn call(&mut self, task: PreparedTask) -> BoxFuture<'static, Answer> {
        let client = self.0.clone();
        Box::pin(async move { client.enqueue(task).await.map_err(Into::into) })
    }
}

pub(super) type Wrap = Arc<dyn Fn(EnqueueService) -> EnqueueService + Send + Sync>;

/// The one service of a client and its clones.
#[derive(Clone)]
pub(super) struct Layered {
    /// The layers, the outermost first.
    pub(super) wraps: Vec<Wrap>,
    service: Arc<Mutex<EnqueueService>>,
    ready: Arc<Ready>,
}

/// Wakes every task that waits for the service: the service remembers one waker, and the task of that waker may never
/// poll again.
#[derive(Debug, Default)]
struct Ready(Notify);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.notify_waiters();
    }
}

partial_debug!(Layered { wraps as Vec::len, .. });

impl Client {
    /// Puts a tower layer around [`enqueue`](Self::enqueue), [`enqueue_many`](Self::enqueue_many) and
    /// [`enqueue_all`](Self::enqueue_all) of this client and of clones that are made afterwards, and so around every
    /// `job::enqueue(&client, …)`. The layer may change headers or the queue, refuse, wait, and see the outcome. The
    /// layer that was added first is the outermost, as around the server's jobs: it sees a task first and its outcome
    /// last.
    ///
    /// `enqueue_in_tx` and `row` of a client with layers refuse every task (`EnqueueError::LayersInTransaction`): a
    /// transaction cannot wait for a layer. [`without_layers`](Self::without_layers) is the client for them.
    ///
    /// No layer sees a task that no client enqueues: the tick of a periodic entry, its `run_now` and `run_listed`, the task that
    /// the aggregation of a group makes, and tasks of other programs such as the command line.
    ///
    /// The service is one for all clones and need not be `Clone`; each task waits for its readiness. Tasks of one
    /// [`enqueue_many`](Self::enqueue_many) or [`enqueue_all`](Self::enqueue_all) go through it side by side, each by a call of the
    /// broker and with an outcome of its own. An error of a layer comes back as [`EnqueueError::Layer`].
    ///
    /// ```
    /// # use asynq_runtime::prelude::*;
    /// # async fn connect() -> Result<Client, BoxError> {
    /// let client = Client::from_env().await?;
    /// Ok(client.layer(tower::util::MapRequestLayer::new(|task: asynq_runtime::PreparedTask| task.header("via", "web"))))
    /// # }
    /// ```
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<EnqueueService> + Send + Sync + 'static,
        L::Service: Service<PreparedTask, Response = TaskInfo> + Send + 'static,
        <L::Service as Service<PreparedTask>>::Error: Into<BoxError>,
        <L::Service as Service<PreparedTask>>::Future: Send + 'static,
    {
        let mut wraps = self.layered.map(|layered| layered.wraps).unwrap_or_default();
        wraps.push(Arc::new(move |inner| EnqueueService(Box::new(Typed(layer.layer(inner))))));
        Self { layered: None, ..self }.wrapped(wraps)
    }

    /// Returns the same client without its layers: for transactions, and for tasks that are to bypass them. The connection is
    /// shared.
    #[must_use]
    pub fn without_layers(&self) -> Self {
        Self { layered: None, ..self.clone() }
    }

    /// Puts the given layers around this client, which has none.
    pub(super) fn wrapped(self, wraps: Vec<Wrap>) -> Self {
        let innermost = EnqueueService(Box::new(Inner(self.clone())));
        let service = wraps.iter().rev().fold(innermost, |inner, wrap| wrap(inner));
        let layered = Layered { wraps, service: Arc::new(Mutex::new(service)), ready: Arc::default() };
        Self { layered: Some(layered), ..self }
    }
}

impl Layered {
    pub(super) async fn enqueue(&self, task: PreparedTask) -> Result<TaskInfo, EnqueueError> {
        let waker = Waker::from(Arc::clone(&self.ready));
        // The lock is released before each wait, so that a caller that is not polled any more delays no other. After a panic of a layer
        // the service is polled again, and may panic again.
        let ready = until(&self.ready.0, || {
            let mut service = self.service.lock();
            match service.poll_ready(&mut Context::from_waker(&waker)) {
                Poll::Ready(ready) => Some(ready.map(|()| service)),
                Poll::Pending => None,
            }
        });
        let sent = ready.await.map_err(error_of)?.call(task);
        sent.await.map_err(error_of)
    }

    pub(super) async fn enqueue_all(&self, tasks: Vec<PreparedTask>) -> Vec<Result<TaskInfo, EnqueueError>> {
        stream::iter(tasks.into_iter().map(|task| self.enqueue(task))).buffered(TOGETHER).collect().await
    }
}

/// Unwraps an [`EnqueueError`] that came through the layers. The error of a layer is counted here, because no client below the layers
/// has seen it. A task that the layer passed on before is counted below as well: it may be stored.
fn error_of(error: BoxError) -> EnqueueError {
    match error.downcast::<EnqueueError>() {
        Ok(own) => *own,
        Err(other) => {
            let refused = EnqueueError::Layer(other.into());
            metrics::not_enqueued(&refused);
            refused
        }
    }
}

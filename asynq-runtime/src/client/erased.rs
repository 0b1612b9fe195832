//! Tower services whose types are erased: layers wrap them around enqueueing and around jobs.

use std::task::{Context, Poll};

use tower_service::Service;

use crate::job::{BoxError, BoxFuture};

/// A service of requests `Q` with responses `R` that is used as `dyn`.
pub(crate) trait Erased<Q, R>: Send {
    /// Returns whether the service takes a request. Default: always, as the innermost service does; one that wraps another asks it.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Q) -> BoxFuture<'static, Result<R, BoxError>>;
}

/// A tower service as an [`Erased`] one.
pub(crate) struct Typed<S>(pub(crate) S);

impl<S, Q, R> Erased<Q, R> for Typed<S>
where
    S: Service<Q, Response = R> + Send,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Q) -> BoxFuture<'static, Result<R, BoxError>> {
        let answer = self.0.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

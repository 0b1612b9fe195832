//! The forms in which a program's own function returns the task that it makes of a group.

use crate::job::{BoxError, BoxFuture, PreparedTask};

/// The result of a function given to [`ServerBuilder::aggregate`](super::ServerBuilder::aggregate): a `Result` of a task and
/// any error, at once or from an `async` block.
#[diagnostic::on_unimplemented(
    message = "an aggregation cannot return `{Self}`",
    label = "not what an aggregation returns",
    note = "return `Result<RawTask, E>`, or an `async` block that does, where `E` is any error"
)]
pub trait IntoAggregated<How> {
    /// Returns the one task that is made of all, in the one form that the server works with.
    fn into_aggregated(self) -> BoxFuture<'static, Result<PreparedTask, BoxError>>;
}

/// Marks a function that returns its task at once.
#[derive(Debug)]
pub enum AtOnce {}

/// Marks an `async` function.
#[derive(Debug)]
pub enum Later {}

impl<T, E> IntoAggregated<AtOnce> for Result<T, E>
where
    T: Into<PreparedTask>,
    E: Into<BoxError>,
{
    fn into_aggregated(self) -> BoxFuture<'static, Result<PreparedTask, BoxError>> {
        let made = self.map(Into::into).map_err(Into::into);
        Box::pin(async { made })
    }
}

impl<F, T, E> IntoAggregated<Later> for F
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Into<PreparedTask>,
    E: Into<BoxError>,
{
    fn into_aggregated(self) -> BoxFuture<'static, Result<PreparedTask, BoxError>> {
        Box::pin(async { self.await.map(Into::into).map_err(Into::into) })
    }
}

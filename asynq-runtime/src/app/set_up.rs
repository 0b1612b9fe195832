//! The futures that set-up functions return.

use std::future::Future;

use super::App;
use crate::job::BoxError;

/// The future of a set-up function: an `async fn setup(app: App) -> Result<App, E>` with any error.
#[diagnostic::on_unimplemented(
    message = "a set-up cannot return `{Self}`",
    label = "not a set-up",
    note = "write `async fn setup(app: App) -> Result<App, BoxError>`; instead of `BoxError` it may be any error, such as `anyhow::Error`"
)]
pub trait SetUpFuture: Future<Output = Result<App, Self::Error>> {
    /// The error of the set-up.
    type Error: Into<BoxError>;
}

#[diagnostic::do_not_recommend]
impl<R, E> SetUpFuture for R
where
    R: Future<Output = Result<App, E>>,
    E: Into<BoxError>,
{
    type Error = E;
}

//! What `main!` tells the commands of the program it is written in.

use super::App;
use crate::job::{BoxError, BoxFuture};

/// How the program calls itself, filled in by [`main!`](crate::main).
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its file's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// A program's own set-up function.
pub(super) type SetUp = Box<dyn FnOnce(App) -> BoxFuture<'static, Result<App, BoxError>> + Send>;

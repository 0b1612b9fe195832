//! The facts that `main!` gives to the commands about the program in which it is written.

use super::App;
use crate::job::{BoxError, BoxFuture};

/// The name and version of the program, filled in by [`main!`](crate::main).
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Name of the program's file.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
}

/// A program's own set-up function.
pub(super) type SetUp = Box<dyn FnOnce(App) -> BoxFuture<'static, Result<App, BoxError>> + Send>;

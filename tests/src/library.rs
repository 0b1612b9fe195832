//! A library with a job: it is there only in programs that name the library.

use asynq_runtime::prelude::*;

/// Lives in a crate of its own.
#[job]
pub async fn from_a_library() {}

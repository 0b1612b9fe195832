//! A library with a job: only programs that name the library contain the job.

use asynq_runtime::prelude::*;

/// A job in a crate of its own.
#[job]
pub async fn from_a_library() {}

//! Calls `enqueueing.rs` of `tests/programs/as_written`, which follows `worker.rs` in one file.

use asynq_runtime::BoxError;

mod as_written {
    #![allow(dead_code, unused_imports)] // the worker's `main` and the example's repeated imports

    include!("../programs/as_written/worker.rs");
    include!("../programs/as_written/enqueueing.rs");

    pub(crate) async fn call() -> Result<(), Box<dyn std::error::Error>> {
        produce().await
    }
}

pub(crate) async fn run() -> Result<(), BoxError> {
    as_written::call().await.map_err(|error| format!("{error:?}").into())
}

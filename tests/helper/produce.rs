//! Program 2 of tests/programs: it continues program 1 in the same file, and this module calls it.

use asynq_runtime::BoxError;

mod as_written {
    #![allow(dead_code, unused_imports)] // the worker's `main` and the example's repeated imports

    include!("../programs/as_written/program_1.rs");
    include!("../programs/as_written/program_2.rs");

    pub(crate) async fn call() -> Result<(), Box<dyn std::error::Error>> {
        produce().await
    }
}

pub(crate) async fn run() -> Result<(), BoxError> {
    as_written::call().await.map_err(|error| format!("{error:?}").into())
}

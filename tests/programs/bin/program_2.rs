//! API.md program 2: it continues program 1 in the same file; here something calls it.

mod as_written {
    #![allow(dead_code, unused_imports)] // the worker's `main` and the example's repeated imports

    include!("../as_written/program_1.rs");
    include!("../as_written/program_2.rs");

    pub(crate) async fn call() -> Result<(), Box<dyn std::error::Error>> {
        produce().await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    as_written::call().await
}

//! Runs a user's tests of the jobs of `as_written/worker.rs`, which they follow in one file.

mod as_written {
    #![allow(dead_code, unused_imports)] // the worker's `main` and the example's repeated imports
    include!("as_written/worker.rs");
    include!("as_written/testing.rs");
}

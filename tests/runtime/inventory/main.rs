//! Programs that find their jobs by themselves: every `#[job]` of a binary is in its one inventory, so these tests are a binary
//! of their own.
#![allow(clippy::unwrap_used)] // an unexpected error is a failed test

mod aggregation;
mod test_app;

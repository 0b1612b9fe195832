//! Every example works as documented, on every broker that it supports.

#![allow(clippy::unwrap_used, reason = "a test may panic; clippy knows that of #[test] functions only")]

mod dashboard;
mod mailbox;
mod newsletter;
#[path = "../process.rs"]
mod process;
mod program;
mod small;
mod web;

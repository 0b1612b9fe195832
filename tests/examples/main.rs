//! Every example works as documented, on every broker that it supports.

#![allow(clippy::unwrap_used, reason = "a test may panic; clippy knows that of #[test] functions only")]

mod dashboard;
mod mailbox;
mod newsletter;
mod program;
mod small;
mod web;

use asynq_tests::process;

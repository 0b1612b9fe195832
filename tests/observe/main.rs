//! The observable side of a program: traces and log lines, metrics and health, and secrets that must never show.
#![allow(clippy::unwrap_used)] // a program that does not run is a failed test

mod canary;
mod checker;
mod early;
mod health;
mod passwords;
mod scrape;
mod seen;
#[allow(dead_code)]
#[path = "../programs/stage.rs"]
mod stage;
mod traces;

use asynq_tests::process;

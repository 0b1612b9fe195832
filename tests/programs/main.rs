//! Whole programs as users write them, run on both brokers.
//!
//! `as_written/` holds the programs to the letter. A program that is a whole file is a binary and runs as a process.
#![allow(clippy::unwrap_used)] // a program that does not run is a failed test

mod by_hand;
mod commands;
mod embedded;
mod enqueueing;
mod handlers;
mod inspecting;
mod neighbours;
mod periodic;
mod policies;
mod result;
mod stage;
mod testing;
mod worker;

use asynq_tests::process;

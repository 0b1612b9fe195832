//! Every command over both brokers, inside this process: the tests pass command lines and check the output. A few tests
//! run the real program: exit codes, pipes, signals.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod changing;
mod cluster;
mod cron;
mod deploy;
mod docs;
mod doctor;
mod fixture;
mod hostile;
mod large;
mod looking;
mod mishaps;
mod process;
mod secrets;
mod web;

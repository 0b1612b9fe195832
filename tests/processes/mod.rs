//! Stories of whole processes: workers are real processes, killed and stopped as an operating system does it.
#![allow(clippy::unwrap_used)] // a step that fails is a failed test

mod aggregation;
mod broker_outage;
mod crash_recovery;
mod failover;
mod incidents;
mod journal;
mod missed_ticks;
mod poison;
mod schedulers;
mod shutdown;
mod small_disk;
mod soak;
mod sqlite_processes;
#[allow(unreachable_pub, reason = "a module of a test binary; `pub` marks what the stories use")]
mod world;

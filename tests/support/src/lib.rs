//! Tools of every test suite: waits that end and name the event, skips that are counted, captured logs, processes that
//! end with their test, and a private redis-server.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // a failure of a fixture is a failed test

mod delegate;
mod folder;
mod go;
mod log;
pub mod process;
mod redis;
mod skip;
mod wait;

pub use self::{
    folder::fast_folder,
    go::has_go,
    log::Log,
    redis::{Calls, Guarded, Persistence, RedisServer, Stopped, free_port, on_free_ports},
    skip::note_skip,
    wait::{PATIENCE, eventually, eventually_blocking, soon},
};

//! Tools of every test suite: waits that end and name the event, skips that are counted, and captured logs.
#![allow(clippy::missing_panics_doc)] // a wait that ends in vain is a failed test

mod log;
mod skip;
mod wait;

pub use self::{
    log::Log,
    skip::note_skip,
    wait::{PATIENCE, eventually, eventually_blocking, has_time_to_leave, soon},
};

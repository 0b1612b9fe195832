//! What every suite of tests needs: waits that end and name what was awaited, skips that are seen, and what is logged.
#![allow(clippy::missing_panics_doc)] // a wait that ends in vain is a failed test

mod log;
mod skip;
mod wait;

pub use self::{
    log::Log,
    skip::note_skip,
    wait::{PATIENCE, eventually, eventually_blocking, has_time_to_leave, soon},
};

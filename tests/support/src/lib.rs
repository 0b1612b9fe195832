//! What every suite of tests needs: waits that end and name what was awaited, and skips that are seen.
#![allow(clippy::missing_panics_doc)] // a wait that ends in vain is a failed test

mod skip;
mod wait;

pub use self::{
    skip::note_skip,
    wait::{PATIENCE, eventually, eventually_blocking, has_time_to_leave, soon},
};

//! The periodic entries of a program: linked by `#[periodic]`, or made at run time.

mod entry;
mod periodic;

pub(crate) use self::entry::Linked;
pub use self::{
    entry::PeriodicEntry,
    periodic::{Periodic, PeriodicError},
};

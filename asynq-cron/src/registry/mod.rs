//! The periodic entries of a program: linked by `#[periodic]`, or made at run time.

mod entry;
mod error;
mod periodic;

pub(crate) use self::entry::Linked;
pub use self::{entry::PeriodicEntry, error::PeriodicError, periodic::Periodic};

//! The periodic entries of a program: linked by `#[periodic]`, made by hand, or asked for while it runs.

pub(crate) mod diff;
mod entry;
mod periodic;

pub use self::{
    entry::PeriodicEntry,
    periodic::{Periodic, PeriodicError},
};

//! The periodic entries of a program: linked by `#[periodic]`, made by hand, or asked for while it runs.

mod entry;
mod periodic;

pub use self::{
    entry::PeriodicEntry,
    periodic::{Periodic, PeriodicError},
};

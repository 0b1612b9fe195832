//! Durations, back-offs, names, patterns of names and cron expressions, parsed alike at compile time by the macros and at run
//! time by `asynq-runtime`.
//!
//! Each little language of the framework has one parser: `#[job(timeout = "3m")]` and `.timeout("3m")` read a text alike, and refuse a
//! text that is not a duration with the same words. The bounds are those of the option: the attribute refuses a fraction of a second that
//! the builder rounds up. Every error has the range of the bytes that are wrong ([`TextError::range`]), so that a caller can point at
//! them. [`nearest`] and [`one_slip`] find the word that was meant by an unknown one, [`shell::quote`] writes one for a shell,
//! and [`thousands`] and [`counted`] format a number for people.
//!
//! The crate has no dependencies, does no I/O and does not panic.

pub mod backoff;
pub mod cron;
pub mod duration;
mod error;
pub mod names;
mod nearest;
pub mod pattern;
pub mod shell;
mod thousands;

pub use backoff::Backoff;
pub use error::TextError;
pub use nearest::{nearest, one_slip};
pub use pattern::Pattern;
pub use thousands::{counted, thousands};

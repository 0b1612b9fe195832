//! Durations, back-offs, names, patterns of names and cron expressions, parsed alike at compile time by the macros and at run time by
//! `asynq-runtime`.
//!
//! There is one parser for each little language of the framework: what `#[job(timeout = "3m")]` accepts is what
//! `.timeout("3m")` accepts, and both refuse it with the same words. Every error knows the bytes it is about
//! ([`BackoffError::range`], [`CronError::range`], [`DurationError::range`], [`NameError::range`], [`PatternError::range`]),
//! so that a caller can point at them, and [`nearest`] knows what was meant by a word that nobody knows.
//!
//! No dependencies, no I/O, no panics.

pub mod backoff;
pub mod cron;
pub mod duration;
pub mod names;
mod nearest;
pub mod pattern;

pub use backoff::{Backoff, BackoffError};
pub use cron::CronError;
pub use duration::DurationError;
pub use names::NameError;
pub use nearest::nearest;
pub use pattern::{Pattern, PatternError};

//! Durations, back-offs, names and cron expressions, parsed alike at compile time by the macros and at run time by
//! `asynq-runtime`.
//!
//! There is one parser for each little language of the framework: what `#[job(timeout = "3m")]` accepts is what
//! `.timeout("3m")` accepts, and both refuse it with the same words. Every error knows the bytes it is about
//! ([`BackoffError::range`], [`CronError::range`], [`DurationError::range`], [`NameError::range`]), so that a caller can
//! point at them.
//!
//! No dependencies, no I/O, no panics.

pub mod backoff;
pub mod cron;
pub mod duration;
pub mod names;

pub use backoff::{Backoff, BackoffError};
pub use cron::CronError;
pub use duration::DurationError;
pub use names::NameError;

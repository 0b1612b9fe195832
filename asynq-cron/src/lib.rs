//! Periodic jobs for `asynq-runtime`: cron expressions with time zones, and what follows from them.
//!
//! - [`CronSpec`]: a cron expression in its time zone; knows the next time and says itself in English.

mod spec;

pub use self::spec::{CronSpec, SpecError};

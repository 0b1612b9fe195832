//! Typed background jobs on Redis, wire-compatible with Go's asynq, or on an embedded SQLite file.

pub mod broker;
pub mod clock;
pub mod task;

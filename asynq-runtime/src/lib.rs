//! Typed background jobs.

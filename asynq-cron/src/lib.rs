//! Periodic jobs for `asynq-runtime`.
//!
//! This crate is documentation only for now. It will hold `#[periodic("*/5 * * * *")]`, the registry of periodic
//! entries and the leader-elected scheduler, and it will plug into a worker through the service slot of
//! `asynq-runtime` (`asynq_runtime::server::ServiceEntry`) without that crate knowing about cron.

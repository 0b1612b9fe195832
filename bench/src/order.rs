//! What one run is asked to do; it travels to the measured process as JSON.

use serde::{Deserialize, Serialize};

/// One run of one workload on one broker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Name of the workload.
    pub(crate) workload: String,
    /// The broker.
    pub(crate) url: String,
    /// How many tasks.
    pub(crate) n: u64,
    /// Most tasks at a time, or how many callers enqueue.
    pub(crate) concurrency: usize,
    /// Length of a task's JSON.
    pub(crate) payload_bytes: usize,
    /// Tasks per call, where one call takes several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
}

impl Order {
    /// `redis` or `sqlite`.
    pub(crate) fn broker(&self) -> &str {
        if self.url.starts_with("sqlite") { "sqlite" } else { "redis" }
    }

    /// Tasks per script of the limit.
    pub(crate) fn group(&self) -> usize {
        if self.concurrency <= 10 { 16 } else { 64 }
    }
}

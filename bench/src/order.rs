//! The order of one run. It travels to the measured process as JSON, and back with the figures.

use asynq_runtime::prelude::BoxError;
use serde::{Deserialize, Serialize};

/// The length of a task's JSON unless a run is about others.
const PAYLOAD: u64 = 100;

/// One run of one workload on one broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The name of the workload.
    pub(crate) workload: String,
    /// `redis`, `sqlite`, or before the run the URL of a broker of the caller.
    pub(crate) broker: String,
    /// The URL of the broker.
    #[serde(skip)]
    pub(crate) url: String,
    /// The number of tasks.
    pub(crate) n: u64,
    /// The most tasks that run at a time, or the number of callers that enqueue.
    pub(crate) concurrency: usize,
    /// The length of a task's JSON.
    pub(crate) payload_bytes: usize,
    /// Tasks per call, or per script or commit of a limit, where these are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
    /// The process that enqueues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Source>,
    /// The workload that runs beside something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<String>,
    /// Scheduled tasks that are there all the time; on SQLite as many archived ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) present: Option<u64>,
    /// Waiting tasks in all, where more wait than the `n` whose runs are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) among: Option<u64>,
    /// Queues that the tasks are spread over; one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queues: Option<u64>,
    /// The length of a run that ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
}

/// The process that enqueues while another works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// The worker's own process.
    Same,
    /// Another process with our client.
    Process,
    /// Another process that knows only the keys of ours: it stands for a Go program.
    Script,
}

impl Order {
    /// Connects to its Redis without the framework.
    ///
    /// # Errors
    ///
    /// Redis does not answer.
    pub(crate) fn redis_connection(&self) -> Result<redis::Connection, BoxError> {
        Ok(redis::Client::open(self.url.as_str())?.get_connection()?)
    }

    /// Returns whether the run is on Redis and not on SQLite.
    pub(crate) fn on_redis(&self) -> bool {
        !self.broker.starts_with("sqlite")
    }

    /// Returns whether the tasks are spread over several queues.
    pub(crate) fn has_queues(&self) -> bool {
        self.queues.is_some_and(|queues| queues > 1)
    }

    /// Returns the number of tasks that wait before a drain.
    pub(crate) fn waiting(&self) -> u64 {
        self.among.unwrap_or(self.n).max(self.n)
    }

    /// Returns a text that tells this run from others of its workload.
    pub(crate) fn label(&self) -> String {
        let mut label = self.workload.clone();
        if let Some(of) = &self.of {
            label += &format!(" {of}");
        }
        if let Some(from) = self.from {
            label += match from {
                Source::Same => " same process",
                Source::Process => " other process",
                Source::Script => " plain script",
            };
        }
        let batch = if self.workload.starts_with("limit-") { "per group" } else { "per call" };
        let figures = [
            (self.batch.map(|n| n as u64), batch),
            (self.present, "present"),
            (self.among, "waiting"),
            (self.queues, "queues"),
            (Some(self.payload_bytes as u64).filter(|bytes| *bytes != PAYLOAD), "bytes"),
        ];
        for (figure, name) in figures {
            label += &figure.map(|figure| format!(", {figure} {name}")).unwrap_or_default();
        }
        label
    }
}

//! The options of a job's tasks, as its attribute declares them.

use std::time::Duration;

use crate::task::{Extra, UniqueUntil};

/// The declared options of a job, as `#[job(…)]` writes them.
///
/// Every method is `const`, so that the options of a job are a constant. An option that is not set has the default of asynq:
/// queue `default`, 25 retries, 30 minutes per attempt (unless a deadline is set), not unique, deleted on success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "each method returns the changed options"]
#[non_exhaustive]
pub struct JobOptions {
    /// Queue; default `default`.
    pub queue: &'static str,
    /// How often a failed task is tried again; default 25.
    pub retry: u32,
    /// Longest time one attempt may take, whole seconds; default 30 minutes if there is no deadline either.
    pub timeout: Option<Duration>,
    /// The time from the enqueue on after which no attempt may run; longer than zero. Default none.
    pub deadline: Option<Duration>,
    /// The time from the enqueue on after which no attempt begins: the task is archived instead. Default none.
    pub expires: Option<Duration>,
    /// The group that a task waits in to be aggregated; default none.
    pub group: Option<&'static str>,
    /// How long at most, from when it is due, a waiting or running task keeps an equal one out; at least 1 s. Default none.
    pub unique: Option<Duration>,
    /// How long without an equal enqueue a task waits before it runs: an equal enqueue gives the waiting task new arguments
    /// and starts this time again. The lock lasts a day if `unique` is not set. Default none.
    pub debounce: Option<Duration>,
    /// How long at most a debounced task waits from the first of those enqueues on; default as long as they keep coming.
    pub debounce_max: Option<Duration>,
    /// The event that frees the unique lock before its TTL ends; default any end of the task.
    pub unique_until: UniqueUntil,
    /// Whether the unique lock lasts at least as long as the task runs; default no.
    pub unique_extend: bool,
    /// How long a task is kept after success, with its result; default not at all.
    pub retention: Option<Duration>,
    /// At which death of a worker that runs a task the task is archived; at least 1, default 3. With 1 a death archives every such task
    /// that its worker ran.
    pub max_crashes: Option<u32>,
    /// How long after its timeout or its cancellation a blocking job is given up if its thread has not returned: the job
    /// fails, and the thread is abandoned. Default never.
    pub kill_after: Option<Duration>,
}

impl JobOptions {
    /// The queue of tasks that name no queue.
    pub const DEFAULT_QUEUE: &'static str = "default";
    /// asynq's number of retries.
    pub const DEFAULT_RETRY: u32 = 25;
    /// asynq's limit of an attempt that has neither a timeout nor a deadline.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
    /// How often a worker may die while it runs a task, by default.
    pub const DEFAULT_MAX_CRASHES: u32 = Extra::DEFAULT_MAX_CRASHES;

    /// Returns the defaults.
    pub const fn new() -> Self {
        Self {
            queue: Self::DEFAULT_QUEUE,
            retry: Self::DEFAULT_RETRY,
            timeout: None,
            deadline: None,
            expires: None,
            group: None,
            unique: None,
            debounce: None,
            debounce_max: None,
            unique_until: UniqueUntil::End,
            unique_extend: false,
            retention: None,
            max_crashes: None,
            kill_after: None,
        }
    }

    /// Sets the queue.
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = queue;
        self
    }

    /// Sets how often a failed task is tried again; 0 = never.
    pub const fn retry(mut self, retry: u32) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the longest time of one attempt.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time after the enqueue when no attempt may run any more.
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the time after the enqueue when a task is not started any more.
    pub const fn expires(mut self, expires: Duration) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Sets the group that a task waits in to be aggregated.
    pub const fn group(mut self, group: &'static str) -> Self {
        self.group = Some(group);
        self
    }

    /// Sets how long a task keeps an equal one out.
    pub const fn unique(mut self, ttl: Duration) -> Self {
        self.unique = Some(ttl);
        self
    }

    /// Sets how long without an equal enqueue a task waits before it runs.
    pub const fn debounce(mut self, quiet: Duration) -> Self {
        self.debounce = Some(quiet);
        self
    }

    /// Sets how long at most a debounced task waits.
    pub const fn debounce_max(mut self, most: Duration) -> Self {
        self.debounce_max = Some(most);
        self
    }

    /// Sets the event that frees the lock of a unique task before its TTL ends.
    pub const fn unique_until(mut self, until: UniqueUntil) -> Self {
        self.unique_until = until;
        self
    }

    /// Makes the lock of a unique task last at least as long as the task runs.
    pub const fn unique_extend(mut self) -> Self {
        self.unique_extend = true;
        self
    }

    /// Sets how long a task is kept after success.
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets how often a worker may die while it runs a task.
    pub const fn max_crashes(mut self, max_crashes: u32) -> Self {
        self.max_crashes = Some(max_crashes);
        self
    }

    /// Sets how long after its timeout or its cancellation a blocking job is given up if its thread has not returned.
    pub const fn kill_after(mut self, after: Duration) -> Self {
        self.kill_after = Some(after);
        self
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}

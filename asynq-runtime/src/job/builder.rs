//! One enqueue: a job with its arguments and the options of this call.

use std::{fmt, marker::PhantomData};

use super::{
    IntoInstant, IntoSpan, IntoUntil, Job, RawTask,
    prepared::{PreparedTask, bounded, crashes, exact, instant, option, span, times, until},
};
use crate::{
    broker::When,
    task::{GroupName, QueueName, TaskId, UniqueUntil},
};

/// A job with its arguments, ready for per-call options. An option of the builder overrides that of the attribute; it can change a declared
/// option, not take it away.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// #[job(retry = 5)]
/// async fn greet(name: String) {}
///
/// # async fn produce(client: Client) -> Result<(), BoxError> {
/// greet::job("ann").queue("low").retry(1).process_in("10m").header("tenant", "acme").enqueue(&client).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is enqueued until `.enqueue(&client)`"]
pub struct JobBuilder<J> {
    pub(super) task: PreparedTask,
    job: PhantomData<fn() -> J>,
}

impl<J: Job> JobBuilder<J> {
    /// Returns the job with its declared options; a program calls [`Enqueue::into_job`](crate::Enqueue::into_job).
    #[doc(hidden)]
    pub fn new(job: J) -> Self {
        Self { task: PreparedTask::of(&job), job: PhantomData }
    }
}

macro_rules! option_methods {
    ($($task:ident)?) => {
        /// Puts the task into another queue.
        pub fn queue(mut self, queue: impl AsRef<str>) -> Self {
            self$(.$task)?.set(|p| QueueName::new(queue.as_ref()).map(|queue| p.queue = Some(queue)).map_err(Into::into));
            self
        }

        /// Sets how often a failed task is tried again; 0 = never.
        #[doc(alias("max_retry", "max_retries", "retries", "max_attempts", "attempts"))]
        pub fn retry(mut self, retry: u32) -> Self {
            self$(.$task)?.set(|p| times("retry", retry).map(|retry| p.retry = retry));
            self
        }

        /// Sets the longest time of one attempt; longer than zero, rounded up to whole seconds.
        #[doc(alias("time_limit"))]
        pub fn timeout(mut self, timeout: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| span("timeout", timeout).map(|timeout| p.timeout = Some(timeout)));
            self
        }

        /// Sets the end after which no attempt may run: a moment before the year 9999, or a length of time from the enqueue on, longer than
        /// zero. Rounded up to a whole second. It must lie behind the time when a delayed task is due; a task whose end has passed is archived in place
        /// of its next attempt.
        pub fn deadline(mut self, deadline: impl IntoUntil) -> Self {
            self$(.$task)?.set(|p| until("deadline", deadline).map(|end| p.deadline = Some(end)));
            self
        }

        /// Sets the end after which the task is archived instead of started: a moment before the year 9999, or a length of time from the
        /// enqueue on, longer than zero. Kept to the millisecond, rounded up. It must lie behind the time when a delayed task is due; a task whose end has
        /// passed is archived in place of its next attempt.
        #[doc(alias("expires_in", "expiry", "expire"))]
        pub fn expires(mut self, expires: impl IntoUntil) -> Self {
            self$(.$task)?.set(|p| until("expires", expires).map(|end| p.expires = Some(end)));
            self
        }

        /// Lets the task wait in this group of its queue, to be aggregated with the others there. A task that is due later
        /// joins its group then.
        #[doc(alias("batch", "group_by", "group_key"))]
        pub fn group(mut self, group: impl AsRef<str>) -> Self {
            self$(.$task)?.set(|p| GroupName::new(group.as_ref()).map(|group| p.group = Some(group)).map_err(Into::into));
            self
        }

        /// Sets how long at most, from when it is due, the task keeps an equal one out; at least 1 s, rounded up to whole seconds.
        #[doc(alias("unique_for", "unique_ttl", "ttl", "lock_ttl"))]
        pub fn unique(mut self, ttl: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| span("unique", ttl).map(|ttl| p.unique = Some(ttl)));
            self
        }

        /// Lets an equal task that waits (pending, scheduled or for its next attempt) take the arguments, the options and the
        /// time of this one, instead of refusing this one; needs `unique`. The waiting task keeps its id, see
        /// [`Enqueued::replaced`](crate::Enqueued::replaced). While an equal task runs, this one is stored to run after it,
        /// and the running one is not tried again with its older arguments. An archived task that keeps its lock, and one in
        /// a group, still refuses this one. One that is still tried again when its lock is over is not found, and runs beside
        /// this one with its older arguments: let `unique` be longer than the retries take.
        pub fn or_replace(mut self) -> Self {
            self$(.$task)?.put(|p| p.or_replace = true);
            self
        }

        /// Runs the task `quiet`, longer than zero, after the last equal enqueue: as [`or_replace`](Self::or_replace) with
        /// `process_in(quiet)`, so that each equal enqueue begins the time anew. The lock lasts a day unless `unique` sets its time. A
        /// `process_in` or `process_at` counts more.
        #[doc(alias("debounce_delay"))]
        pub fn debounce(mut self, quiet: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| exact("debounce", quiet).map(|quiet| p.debounce = Some(quiet)));
            self
        }

        /// Sets how long at most, longer than zero, `debounce` defers the task after the first of those enqueues; needs `debounce`.
        #[doc(alias("max_wait"))]
        pub fn debounce_max(mut self, most: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| exact("debounce_max", most).map(|most| p.debounce_max = Some(most)));
            self
        }

        /// Sets the event that frees the lock of a unique task before its TTL ends; needs `unique`.
        #[doc(alias("unique_while"))]
        pub fn unique_until(mut self, until: UniqueUntil) -> Self {
            self$(.$task)?.put(|p| p.unique_until = until);
            self
        }

        /// Makes the lock of a unique task last at least as long as the task runs; needs `unique`.
        #[doc(alias("keep_lock"))]
        pub fn unique_extend(mut self) -> Self {
            self$(.$task)?.put(|p| p.unique_extend = true);
            self
        }

        /// Sets how long the task is kept after success; longer than zero, rounded up to whole seconds.
        #[doc(alias("keep", "result_ttl"))]
        pub fn retention(mut self, retention: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| span("retention", retention).map(|retention| p.retention = Some(retention)));
            self
        }

        /// Keeps the task for at least a minute after its end, whatever the retention says, so that a program that waits for
        /// the task learns how it ended: see [`Enqueued::wait`](crate::Enqueued::wait). A task that its job revokes is kept
        /// as well, as completed without a result. A task in a group cannot be awaited, because it becomes part of another
        /// task.
        pub fn awaited(mut self) -> Self {
            self$(.$task)?.put(|p| p.awaited = true);
            self
        }

        /// Sets how often a worker may die while it runs the task before the task is archived; at least 1.
        pub fn max_crashes(mut self, max_crashes: u32) -> Self {
            self$(.$task)?.set(|p| crashes(max_crashes).map(|most| p.max_crashes = Some(most)));
            self
        }

        /// Runs the task after `delay`; the last of `process_in` and `process_at` counts.
        #[doc(alias("delay", "perform_in", "countdown", "schedule_in"))]
        pub fn process_in(mut self, delay: impl IntoSpan) -> Self {
            self$(.$task)?.set(|p| bounded("process_in", delay).map(|delay| p.when = Some(When::In(delay))));
            self
        }

        /// Runs the task at `when`, before the year 9999; a moment that has passed means now.
        #[doc(alias("perform_at", "eta", "run_at"))]
        pub fn process_at(mut self, when: impl IntoInstant) -> Self {
            self$(.$task)?.set(|p| instant("process_at", when).map(|at| p.when = Some(When::At(at))));
            self
        }

        /// Gives the task an id instead of a random one; the id must be free in its queue. Ids that begin with `agg:` or
        /// `cron:` are reserved: by them, aggregated and periodic tasks are stored once.
        pub fn task_id(mut self, id: impl AsRef<str>) -> Self {
            self$(.$task)?.set(|p| {
                let id = TaskId::new(id.as_ref())?;
                if let Some(prefix) = RESERVED_IDS.iter().find(|prefix| id.as_str().starts_with(**prefix)) {
                    return Err(option(
                        "task_id",
                        format!("ids that begin with `{prefix}` are reserved; choose another"),
                    ));
                }
                p.id = Some(id);
                Ok(())
            });
            self
        }

        /// Adds a header; a header of the same name is replaced. The headers of a task have at most 64 KiB together.
        pub fn header(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self$(.$task)?.put(|p| {
                let (key, value) = (key.into(), value.into());
                match p.headers.iter_mut().find(|(k, _)| *k == key) {
                    Some(entry) => entry.1 = value,
                    None => p.headers.push((key, value)),
                }
            });
            self
        }
    };
}

impl<J> JobBuilder<J> {
    option_methods!(task);
}

impl RawTask {
    option_methods!(task);
}

impl PreparedTask {
    option_methods!();
}

impl<J: Job> fmt::Debug for JobBuilder<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobBuilder").field("job", &J::NAME).field("task", &self.task.checked()).finish()
    }
}

/// The prefixes of ids that the framework makes itself, so that no other task can take their place.
const RESERVED_IDS: [&str; 2] = ["agg:", "cron:"];

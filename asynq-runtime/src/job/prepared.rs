//! A task that is ready to be enqueued, with its options checked.

use std::{fmt, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Datelike as _, Utc};

use super::{
    ArgumentShape, EnqueueError, IntoInstant, IntoSpan, IntoUntil, Job, JobOptions, Until,
    codec::{CodecError, encode_arguments, split},
};
use crate::{
    broker::When,
    task::{GroupName, QueueName, TaskId, UniqueUntil, length},
};

/// A task that is ready to be enqueued, as [`Client::enqueue_many`](crate::Client::enqueue_many) takes it. An option that is
/// wrong is reported by the enqueue.
#[derive(Debug, Clone)]
pub struct PreparedTask(Result<Prepared, EnqueueError>);

/// The facts of a [`PreparedTask`], not yet bound to a moment.
#[derive(Clone, Default)]
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) payload: Option<Bytes>,
    pub(crate) unique_bytes: Option<Bytes>,
    pub(crate) queue: Option<QueueName>,
    pub(crate) retry: i32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Until>,
    pub(crate) expires: Option<Until>,
    pub(crate) group: Option<GroupName>,
    pub(crate) unique: Option<Duration>,
    pub(crate) unique_until: UniqueUntil,
    pub(crate) unique_extend: bool,
    pub(crate) or_replace: bool,
    pub(crate) debounce: Option<Duration>,
    pub(crate) debounce_max: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) awaited: bool,
    pub(crate) max_crashes: Option<u32>,
    /// `None` for now, or for the time that a debounce sets.
    pub(crate) when: Option<When>,
    pub(crate) id: Option<TaskId>,
    pub(crate) headers: Vec<(String, String)>,
    /// The shape of the arguments, if they come from a job.
    pub(crate) shape: Option<ArgumentShape>,
}

impl PreparedTask {
    /// Returns a task whose options have been checked.
    pub(crate) fn ready(task: Prepared) -> Self {
        Self(Ok(task))
    }

    /// Returns the name of the job; empty if an option was wrong.
    pub fn name(&self) -> &str {
        self.facts().map(|facts| facts.name.as_str()).unwrap_or_default()
    }

    /// Returns the queue of the task, if one was named.
    pub fn queue_name(&self) -> Option<&QueueName> {
        self.facts()?.queue.as_ref()
    }

    /// Returns the encoded arguments.
    pub fn payload(&self) -> &[u8] {
        self.facts().and_then(|facts| facts.payload.as_ref()).map(Bytes::as_ref).unwrap_or_default()
    }

    /// Returns the arguments by which a periodic entry without a key is known: the payload, without the format byte and the
    /// fingerprint where a job has written them. The bytes of another program's task may begin like a payload in postcard.
    #[doc(hidden)]
    pub fn arguments(&self) -> &[u8] {
        let payload = self.payload();
        self.shape().and_then(|_| split(payload)).map_or(payload, |(_, arguments)| arguments)
    }

    /// Returns the value of a header.
    pub fn header_value(&self, key: &str) -> Option<&str> {
        self.facts()?.headers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the shape of the arguments, if they come from a job.
    pub(crate) fn shape(&self) -> Option<ArgumentShape> {
        self.facts()?.shape
    }

    pub(crate) fn into_result(self) -> Result<Prepared, EnqueueError> {
        self.0
    }

    /// Returns the facts; `None` if an option was wrong.
    pub(crate) fn facts(&self) -> Option<&Prepared> {
        self.0.as_ref().ok()
    }

    /// Returns the facts, or what is wrong with the task.
    pub(crate) fn checked(&self) -> Result<&Prepared, &EnqueueError> {
        self.0.as_ref()
    }

    pub(super) fn of<J: Job>(job: &J) -> Self {
        let (shape, payload) = (ArgumentShape::of::<J>(), encode_arguments(job));
        Self(Prepared::of(J::NAME, J::OPTIONS, shape, payload, &|| job.unique_by()))
    }

    pub(super) fn raw(name: String, payload: Option<Bytes>) -> Self {
        Self(Ok(Prepared { name, payload, retry: JobOptions::DEFAULT_RETRY as i32, ..Prepared::default() }))
    }

    /// Applies an option; the first mistake stays.
    pub(super) fn set(&mut self, apply: impl FnOnce(&mut Prepared) -> Result<(), EnqueueError>) {
        if let Ok(prepared) = &mut self.0
            && let Err(error) = apply(prepared)
        {
            self.0 = Err(error);
        }
    }

    /// Applies an option that cannot be wrong.
    pub(super) fn put(&mut self, apply: impl FnOnce(&mut Prepared)) {
        self.set(|prepared| {
            apply(prepared);
            Ok(())
        });
    }
}

impl Prepared {
    /// Checks the options of a job. The function is compiled once, and not for each job of a program.
    fn of(
        name: &str,
        options: JobOptions,
        shape: ArgumentShape,
        payload: Result<Bytes, CodecError>,
        unique_by: &dyn Fn() -> Option<Result<Bytes, CodecError>>,
    ) -> Result<Self, EnqueueError> {
        // The options are all named, so that none is forgotten. The server reads `kill_after` when it runs the task.
        let JobOptions {
            queue,
            retry,
            timeout,
            deadline,
            expires,
            group,
            unique,
            debounce,
            debounce_max,
            unique_until,
            unique_extend,
            retention,
            max_crashes,
            kill_after: _,
        } = options;
        Ok(Self {
            name: name.to_owned(),
            payload: Some(payload?),
            unique_bytes: unique_by().transpose()?,
            queue: Some(QueueName::new(queue)?),
            retry: times("retry", retry)?,
            timeout: timeout.map(|timeout| span("timeout", timeout)).transpose()?,
            deadline: deadline.map(|deadline| until("deadline", deadline)).transpose()?,
            expires: expires.map(|expires| until("expires", expires)).transpose()?,
            group: group.map(GroupName::new).transpose()?,
            unique: unique.map(|ttl| span("unique", ttl)).transpose()?,
            unique_until,
            unique_extend,
            debounce: debounce.map(|quiet| exact("debounce", quiet)).transpose()?,
            debounce_max: debounce_max.map(|most| exact("debounce_max", most)).transpose()?,
            retention: retention.map(|retention| span("retention", retention)).transpose()?,
            max_crashes: max_crashes.map(crashes).transpose()?,
            shape: Some(shape),
            ..Self::default()
        })
    }
}

partial_debug!(Prepared {
    name, payload as length, unique_bytes as length, queue, retry, timeout, deadline, expires, group, unique,
    unique_until, unique_extend, or_replace, debounce, debounce_max, retention, awaited, max_crashes, when, id, headers, ..
});

pub(super) fn option(option: &'static str, reason: impl fmt::Display) -> EnqueueError {
    EnqueueError::Option { option, reason: reason.to_string() }
}

pub(super) fn times(name: &'static str, times: u32) -> Result<i32, EnqueueError> {
    i32::try_from(times).map_err(|_| option(name, "it must be at most 2147483647"))
}

pub(super) fn crashes(most: u32) -> Result<u32, EnqueueError> {
    if most > 0 { Ok(most) } else { Err(option("max_crashes", "it must be at least 1")) }
}

pub(super) fn until(name: &'static str, end: impl IntoUntil) -> Result<Until, EnqueueError> {
    match end.into_until().map_err(|error| option(name, error))? {
        Until::In(span) => exact(name, span).map(Until::In),
        Until::At(at) => instant(name, at).map(Until::At),
    }
}

/// Returns a moment that Go's tools can show in every time zone: they write no year of five digits.
pub(super) fn instant(name: &'static str, when: impl IntoInstant) -> Result<DateTime<Utc>, EnqueueError> {
    let at = when.into_instant().map_err(|error| option(name, error))?;
    if at.year() < 9999 { Ok(at) } else { Err(option(name, "it must lie before the year 9999")) }
}

/// Returns a time of at most 292 years.
pub(super) fn bounded(name: &'static str, span: impl IntoSpan) -> Result<Duration, EnqueueError> {
    match span.into_span().map_err(|error| option(name, error))? {
        span if span > asynq_grammar::duration::MAX => Err(option(name, "it must be at most 292 years")),
        span => Ok(span),
    }
}

/// Returns a time that is kept to the millisecond. Zero is refused, because it would mean none.
pub(super) fn exact(name: &'static str, span: impl IntoSpan) -> Result<Duration, EnqueueError> {
    match bounded(name, span)? {
        span if span.is_zero() => Err(option(name, "it must be longer than zero")),
        span => Ok(span),
    }
}

/// Returns a time rounded up to whole seconds, as the wire keeps it. Zero is refused, because it would mean none.
pub(super) fn span(name: &'static str, span: impl IntoSpan) -> Result<Duration, EnqueueError> {
    let span = bounded(name, span)?;
    if name == "unique" && span < Duration::from_secs(1) {
        return Err(option(name, "it must be at least 1s"));
    }
    exact(name, span).map(|span| Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0)))
}

//! A task without a Rust type: name, bytes and headers, as it is enqueued and as a handler sees it.

use bytes::Bytes;

use super::{JobContext, PreparedTask};

/// A task known by its type's name and its bytes alone: another language runs it, or this program passes it on.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # async fn produce(client: Client) -> Result<(), BoxError> {
/// client.enqueue(RawTask::new("image:resize", r#"{"path":"cat.png"}"#).queue("go")).await?;
///
/// // And the other way: what a program of another language enqueued.
/// let server = Server::builder("redis://127.0.0.1:6379").handle("report:", async |task: RawTask| {
///     println!("{} bytes for {}", task.payload().len(), task.name());
///     Ok::<(), JobError>(())
/// });
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is enqueued until it is given to a client"]
#[derive(Debug, Clone)]
pub struct RawTask {
    pub(super) task: PreparedTask,
    /// The attempt for which the task was delivered, if it was.
    pub(super) context: Option<JobContext>,
}

impl RawTask {
    /// Returns a task of type `name` with this payload and asynq's default options.
    pub fn new(name: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self::from_prepared(PreparedTask::raw(name.into(), Some(payload.into())))
    }

    /// Returns a task without a payload: Go's nil, whose unique key has no checksum.
    pub fn without_payload(name: impl Into<String>) -> Self {
        Self::from_prepared(PreparedTask::raw(name.into(), None))
    }

    /// Wraps a task that was prepared elsewhere, for per-call options.
    pub(crate) fn from_prepared(task: PreparedTask) -> Self {
        Self { task, context: None }
    }

    /// Returns a task that was taken out of its queue, for the handler that runs it. Enqueued again, it makes a new task of
    /// the same name, payload and headers in the same queue.
    pub(crate) fn delivered(ctx: JobContext) -> Self {
        let mut task = Self::new(ctx.name(), ctx.payload().clone()).queue(ctx.queue());
        for (key, value) in ctx.headers() {
            task = task.header(key, value);
        }
        task.context = Some(ctx);
        task
    }

    /// Returns the name of the task's type; empty if an option of a task that is being built was wrong.
    pub fn name(&self) -> &str {
        self.task.name()
    }

    /// Returns the encoded arguments; empty for Go's nil, too.
    pub fn payload(&self) -> &[u8] {
        self.task.payload()
    }

    /// Returns the value of a header.
    pub fn header_value(&self, key: &str) -> Option<&str> {
        self.task.header_value(key)
    }

    /// Returns the headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.task.facts().map(|facts| facts.headers.as_slice()).unwrap_or_default();
        headers.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the attempt that a handler runs: id, counters, cancellation, progress, result. A task that was not delivered
    /// has a [detached](JobContext::detached) context.
    pub fn context(&self) -> JobContext {
        self.context.clone().unwrap_or_else(JobContext::detached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_task_returns_the_values_that_it_was_given() {
        let task = RawTask::new("image:resize", &b"{}"[..]).header("trace", "abc");
        assert_eq!(
            (task.name(), task.payload(), task.header_value("trace")),
            ("image:resize", &b"{}"[..], Some("abc"))
        );
        assert_eq!(task.headers().collect::<Vec<_>>(), [("trace", "abc")]);
        assert_eq!(task.header_value("none"), None);
        assert_eq!(task.context().id().as_str(), "detached");
        assert_eq!(RawTask::without_payload("a").payload(), b"");
    }
}

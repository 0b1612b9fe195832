//! A raw task as a handler sees it: name, bytes and headers, without a Rust type.

use super::{JobContext, RawTask};

impl RawTask {
    /// A task that was taken out of its queue, for the handler that runs it. Enqueued again it is a new task of the same
    /// name, payload and headers in the same queue.
    pub(crate) fn delivered(ctx: JobContext) -> Self {
        let mut task = Self::new(ctx.name(), ctx.payload().clone()).queue(ctx.queue());
        for (key, value) in ctx.headers() {
            task = task.header(key, value);
        }
        task.context = Some(ctx);
        task
    }

    /// Name of its type; empty if an option of a task that is being built was wrong.
    pub fn name(&self) -> &str {
        self.task.name()
    }

    /// Its encoded arguments; empty for Go's nil, too.
    pub fn payload(&self) -> &[u8] {
        self.task.payload()
    }

    /// The value of one of its headers.
    pub fn header_value(&self, key: &str) -> Option<&str> {
        self.task.header_value(key)
    }

    /// Its headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.task.facts().map(|facts| facts.headers.as_slice()).unwrap_or_default();
        headers.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The attempt that a handler runs: id, counters, cancellation, progress, result. A task that nobody delivered has a
    /// [detached](JobContext::detached) one.
    pub fn context(&self) -> JobContext {
        self.context.clone().unwrap_or_else(JobContext::detached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_task_tells_what_it_was_given() {
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

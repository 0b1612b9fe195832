//! Keeps the enqueue and the runs of a task in one trace: W3C trace context in the headers of a task.
//!
//! With the feature `otel`, and a subscriber that has a layer of tracing-opentelemetry, an enqueue writes the context of the
//! current span into the headers `traceparent` and `tracestate`, and the span of every run of the task has it as its parent:
//! retries and all tasks that a job enqueues are in the same trace. A tick of a periodic job begins a trace of its own, and so
//! does each run of the new task of a group, which is enqueued in no span. Go programs that keep headers carry the trace on.
//!
//! Without either, a program forwards the trace: the headers stay with the task, and tasks that its job enqueues get them
//! unchanged, except in futures that the job spawns.
//!
//! A task that was given a `traceparent` keeps it. At most these two headers are added. A header that is not a trace context,
//! or is longer than the standard allows, stays with its task and is not forwarded.

#[cfg(feature = "otel")]
mod otel;
mod traceparent;

use std::sync::Arc;

use self::traceparent::is_tracestate;
use crate::task::TaskMessage;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// A trace context in the form of headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceHeaders {
    traceparent: String,
    tracestate: Option<String>,
}

tokio::task_local! {
    /// The trace context of the task that runs here.
    static CARRIED: Option<Arc<TraceHeaders>>;
}

impl TraceHeaders {
    /// Returns the trace context of a task, if its headers have one.
    fn of(message: &TaskMessage) -> Option<Self> {
        let traceparent = message.header(TRACEPARENT)?;
        traceparent::parse(traceparent)?;
        let tracestate = message.header(TRACESTATE).filter(|state| is_tracestate(state));
        Some(Self { traceparent: traceparent.to_owned(), tracestate: tracestate.map(str::to_owned) })
    }
}

/// Adds the trace context of this moment to the headers of a task, unless it has one.
pub(crate) fn inject(headers: &mut Vec<(String, String)>) {
    if headers.iter().any(|(name, _)| name == TRACEPARENT) {
        return;
    }
    let Some(TraceHeaders { traceparent, tracestate }) = current() else { return };
    // A `tracestate` without its `traceparent` means nothing.
    headers.retain(|(name, _)| name != TRACESTATE);
    headers.push((TRACEPARENT.to_owned(), traceparent));
    headers.extend(tracestate.map(|state| (TRACESTATE.to_owned(), state)));
}

fn current() -> Option<TraceHeaders> {
    #[cfg(feature = "otel")]
    if let Some(headers) = otel::current() {
        return Some(headers);
    }
    carried().map(Arc::unwrap_or_clone)
}

/// Makes the context that a task carries the parent of the span of its run, which must not have been entered.
#[cfg_attr(
    not(feature = "otel"),
    expect(unused_variables, reason = "without spans of OpenTelemetry there is no parent")
)]
pub(crate) fn adopt(span: &tracing::Span, message: &TaskMessage) {
    #[cfg(feature = "otel")]
    if let Some(headers) = TraceHeaders::of(message) {
        otel::adopt(span, &headers);
    }
}

/// Runs `run` so that tasks which it enqueues can have the trace context of `message`.
pub(crate) fn carrying<F: Future>(message: &TaskMessage, run: F) -> impl Future<Output = F::Output> {
    CARRIED.scope(TraceHeaders::of(message).map(Arc::new), run)
}

/// Returns the trace context of the task that runs here, for use on another thread.
pub(crate) fn carried() -> Option<Arc<TraceHeaders>> {
    CARRIED.try_with(Clone::clone).ok().flatten()
}

/// Runs `run` with a trace context as [`carrying`] does, on a thread that blocks.
pub(crate) fn carrying_along<T>(carried: Option<Arc<TraceHeaders>>, run: impl FnOnce() -> T) -> T {
    CARRIED.sync_scope(carried, run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Header;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn message(headers: &[(&str, &str)]) -> TaskMessage {
        let headers = headers.iter().map(|(name, value)| Header::new(*name, *value)).collect();
        TaskMessage { headers, ..TaskMessage::default() }
    }

    async fn enqueued_in(task: &[(&str, &str)], given: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |headers: &[(&str, &str)]| headers.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut headers: Vec<(String, String)> = owned(given);
        carrying(&message(task), async { inject(&mut headers) }).await;
        headers
    }

    #[tokio::test]
    async fn a_task_that_a_job_enqueues_carries_the_trace_context_on() {
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let task = [("a", "b"), (TRACEPARENT, PARENT), (TRACESTATE, "vendor=1")];
        let both = [owned(TRACEPARENT, PARENT), owned(TRACESTATE, "vendor=1")];
        assert_eq!(enqueued_in(&task, &[]).await, both);
        assert_eq!(enqueued_in(&task, &[("x", "y")]).await.len(), 3);
        let own = [("traceparent", "mine"), ("tracestate", "s=1")];
        assert_eq!(enqueued_in(&task, &own).await, [owned("traceparent", "mine"), owned("tracestate", "s=1")]);
        assert_eq!(enqueued_in(&task, &[("tracestate", "of=nothing")]).await, both);
        assert!(enqueued_in(&[("a", "b")], &[]).await.is_empty());
    }

    #[tokio::test]
    async fn an_invalid_trace_context_is_not_passed_on() {
        let long = format!("a={}", "b".repeat(600));
        for hostile in ["", "00", "\u{0}", "00-zz", &"0".repeat(55), &format!("{PARENT}\n"), &format!("{PARENT}-x")] {
            assert!(enqueued_in(&[(TRACEPARENT, hostile)], &[]).await.is_empty(), "{hostile:?}");
        }
        for hostile in ["a\nb", "\u{e4}=1", long.as_str()] {
            let headers = enqueued_in(&[(TRACEPARENT, PARENT), (TRACESTATE, hostile)], &[]).await;
            assert_eq!(headers, [(TRACEPARENT.to_owned(), PARENT.to_owned())], "{hostile:?}");
        }
    }

    #[tokio::test]
    async fn a_blocking_thread_has_the_trace_context() {
        let task = message(&[(TRACEPARENT, PARENT)]);
        let found = carrying(&task, async {
            let carried = carried();
            let thread = std::thread::spawn(move || {
                carrying_along(carried, || {
                    let mut headers = Vec::new();
                    inject(&mut headers);
                    headers
                })
            });
            thread.join().unwrap()
        });
        assert_eq!(found.await, [(TRACEPARENT.to_owned(), PARENT.to_owned())]);
    }
}

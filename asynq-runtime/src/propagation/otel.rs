//! Converts between headers and the spans of OpenTelemetry.

use std::str::FromStr as _;

use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceContextExt as _, TraceState},
};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{
    TraceHeaders,
    traceparent::{self, TraceParent, is_tracestate},
};

/// Returns the context of the current span, if a layer gives it one, else the one that the program itself made current.
pub(super) fn current() -> Option<TraceHeaders> {
    let of_span = tracing::Span::current().context();
    headers_of(&of_span).or_else(|| Context::map_current(headers_of))
}

fn headers_of(context: &Context) -> Option<TraceHeaders> {
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| {
        let flags = context.trace_flags() & TraceFlags::SAMPLED;
        TraceHeaders {
            traceparent: format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags),
            tracestate: Some(context.trace_state().header()).filter(|state| is_tracestate(state)),
        }
    })
}

/// Makes the context of these headers the parent of a span.
pub(super) fn adopt(span: &tracing::Span, headers: &TraceHeaders) {
    let Some(TraceParent { trace_id, span_id, is_sampled }) = traceparent::parse(&headers.traceparent) else { return };
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let state = headers.tracestate.as_deref().and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    let parent = SpanContext::new(TraceId::from(trace_id), SpanId::from(span_id), flags, true, state);
    // The error says that no layer uses the context, or that the span is not observed.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

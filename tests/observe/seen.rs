//! Records every line that this program logs, at TRACE, and every span that OpenTelemetry exports.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use asynq_tests::eventually;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, InMemorySpanExporterBuilder, SdkTracerProvider, SpanData};
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter, layer::SubscriberExt as _};

/// The lines and spans so far.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    lines: Lines,
    spans: InMemorySpanExporter,
}

#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Seen {
    /// Records from now on, once for all tests of this program, because their threads cannot be told apart.
    pub(crate) fn all() -> &'static Self {
        static SEEN: OnceLock<Seen> = OnceLock::new();
        SEEN.get_or_init(|| {
            let seen = Self { lines: Lines::default(), spans: InMemorySpanExporterBuilder::new().build() };
            let provider = SdkTracerProvider::builder().with_simple_exporter(seen.spans.clone()).build();
            let otel = tracing_opentelemetry::layer().with_tracer(provider.tracer("observe"));
            let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(seen.lines.clone());
            let all = tracing_subscriber::registry().with(LevelFilter::TRACE).with(lines).with(otel);
            tracing::subscriber::set_global_default(all).unwrap();
            seen
        })
    }

    /// Every line so far.
    pub(crate) fn lines(&self) -> String {
        String::from_utf8_lossy(&self.lines.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// The ended spans of this name so far.
    pub(crate) fn named(&self, name: &str) -> Vec<SpanData> {
        let all = self.spans.get_finished_spans().unwrap();
        all.into_iter().filter(|span| span.name == name).collect()
    }

    /// The ended spans of this name whose field has this value, in the order of their ends, as soon as there are `n`.
    pub(crate) async fn spans(&self, n: usize, name: &str, field: &str, value: &str) -> Vec<SpanData> {
        eventually(&format!("{n} spans {name} with {field}={value}"), async || {
            let all = self.spans.get_finished_spans().unwrap();
            let has = |span: &SpanData| {
                span.attributes.iter().any(|found| found.key.as_str() == field && found.value.as_str() == value)
            };
            let found: Vec<_> = all.into_iter().filter(|span| span.name == name && has(span)).collect();
            (found.len() >= n).then_some(found)
        })
        .await
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

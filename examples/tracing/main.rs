//! Traces: OpenTelemetry shows the request that enqueued, the run, and the tasks that the run enqueued as one trace.

use std::sync::{Arc, Mutex};

use asynq_runtime::prelude::*;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tracing::Instrument as _;
use tracing_subscriber::prelude::*;

#[job(queue = "traced")]
async fn order(client: State<Client>, number: u32) -> JobResult {
    // The span of this task's run is a child of the span of this run.
    receipt::enqueue(&client, number).await?;
    Ok(())
}

#[job(queue = "traced")]
async fn receipt(number: u32) -> JobResult {
    tracing::info!("receipt {number} is out");
    Ok(())
}

/// Keeps spans; yours would send them to a collector, such as that of the crate opentelemetry-otlp.
#[derive(Debug, Clone, Default)]
struct CollectedSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for CollectedSpans {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner()).extend(spans);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let collected = CollectedSpans::default();
    // In a thread of its own: a simple exporter sends each span in the thread that ends it, which is one that runs jobs.
    let provider = SdkTracerProvider::builder().with_batch_exporter(collected.clone()).build();
    let otel = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing_subscriber::registry().with(otel.with_filter(tracing_subscriber::filter::LevelFilter::INFO)).init();

    let client = Client::from_env().await?;
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()));
    let server = server.queue("traced", 1).state(client.clone()).build().await?;
    let running = server.start().await?;
    let request = tracing::info_span!("POST /orders");
    order::enqueue(&client, 7).instrument(request).await?;
    running.drained().await?;
    running.shutdown().await?;
    // The spans of the last 5 s are still to be sent.
    provider.shutdown()?;

    let mut spans = collected.0.lock().unwrap_or_else(|broken| broken.into_inner());
    spans.sort_by_key(|span| span.start_time);
    let trace = spans.iter().find(|span| span.name == "POST /orders").map(|span| span.span_context.trace_id());
    for span in spans.iter().filter(|span| Some(span.span_context.trace_id()) == trace) {
        let job = span.attributes.iter().find(|field| field.key.as_str() == "type");
        println!("{} {}", span.name, job.map(|job| job.value.to_string()).unwrap_or_default());
    }
    Ok(())
}

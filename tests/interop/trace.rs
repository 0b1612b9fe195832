//! One trace through a Go program in the middle.

use asynq_runtime::{RawTask, Registry, Server, prelude::JobError};
use asynq_tests::{eventually, skip};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporterBuilder, SdkTracerProvider};
use tracing::Instrument as _;
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt as _};

use crate::interop::{
    go::NO_GO,
    side::{Order, Side},
    stage::Stage,
};

// On one thread, so that the subscriber, which belongs to this test alone, receives the spans of its handlers.
#[tokio::test(flavor = "current_thread")]
async fn a_trace_goes_on_through_a_go_worker_that_passes_its_headers_on() {
    let Some(stage) = Stage::start().await else { skip!("{NO_GO}") };
    let spans = InMemorySpanExporterBuilder::new().build();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let traced = tracing_opentelemetry::layer().with_tracer(provider.tracer("interop"));
    let _ours = tracing::subscriber::set_default(tracing_subscriber::registry().with(LevelFilter::INFO).with(traced));

    let mut go = stage.worker(Side::Go, "to-go").await;
    let server = Server::builder(stage.server.url())
        .registry(Registry::from_descriptors([]).unwrap())
        .handle("interop:do", |_: RawTask| async { Ok::<(), JobError>(()) })
        .queue("to-rust", 1);
    let running = server.build().await.unwrap().start().await.unwrap();

    let order = Order::new("pass on", "to-rust");
    let first = stage.enqueue(Side::Rust, "to-go", &order).instrument(tracing::info_span!("request")).await;
    let at_go = go.starts(&first).await;
    assert!(at_go["headers"]["traceparent"].is_string(), "{at_go}");
    go.does(&first).await;
    let run = eventually("our side runs the task that Go passed on", async || {
        spans.get_finished_spans().unwrap().into_iter().find(|span| span.name == "job")
    })
    .await;
    running.shutdown().await.unwrap();

    let requests = spans.get_finished_spans().unwrap();
    let request = requests.iter().find(|span| span.name == "request").unwrap();
    assert_eq!(run.span_context.trace_id(), request.span_context.trace_id());
    assert_eq!(run.parent_span_id, request.span_context.span_id(), "Go made no span of its own");
    assert!(run.parent_span_is_remote);
}

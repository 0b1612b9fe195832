//! One trace from the enqueue to its runs, on both brokers.

use std::time::Instant;

use asynq_cron::Periodic;
use asynq_runtime::{prelude::*, server::Running};
use asynq_tests::eventually;
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;
use tracing::Instrument as _;

use crate::{
    seen::Seen,
    stage::{Stage, on_both_brokers},
};

/// Fails until its last attempt, and then enqueues a child task that succeeds.
#[job(retry = 2, backoff = "10ms")]
async fn traced(ctx: &JobContext, client: State<Client>, child: String) -> JobResult {
    if ctx.retried() < 1 {
        return Err("not yet".into());
    }
    traced_child::job(ctx.id().to_string()).task_id(child).enqueue(&client).await?;
    Ok(())
}

#[job]
fn traced_child(_parent: String) -> JobResult {
    Ok(())
}

#[job]
async fn traced_tick(_place: String) -> JobResult {
    Ok(())
}

async fn serving(stage: &Stage) -> Running {
    let client = stage.client().await;
    Server::builder(&stage.url).concurrency(2).state(client).build().await.unwrap().start().await.unwrap()
}

/// The runs of a task, as soon as there are `n`.
async fn runs(n: usize, id: &str) -> Vec<SpanData> {
    Seen::all().spans(n, "job", "id", id).await
}

fn field(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|field| field.key.as_str() == name);
    found.map(|field| field.value.to_string()).unwrap_or_default()
}

/// An id that no other test uses.
fn fresh(name: &str) -> String {
    format!("{name}-{}", asynq_runtime::TaskId::random())
}

on_both_brokers! {
    async fn an_enqueue_its_runs_and_their_enqueues_are_one_trace(stage: &Stage) {
        let (seen, running) = (Seen::all(), serving(stage).await);
        let (parent, child, began) = (fresh("parent"), fresh("child"), Instant::now());
        let request = tracing::info_span!("request", of = %parent);
        traced::job(&child).task_id(&parent).enqueue(&running.client()).instrument(request).await.unwrap();

        let attempts = runs(2, &parent).await;
        let children = runs(1, &child).await;
        let requests = seen.spans(1, "request", "of", &parent).await;
        running.shutdown().await.unwrap();
        for attempt in &attempts {
            assert_eq!(attempt.span_context.trace_id(), requests[0].span_context.trace_id());
            assert_eq!(attempt.parent_span_id, requests[0].span_context.span_id(), "each attempt is of the enqueue");
            assert!(attempt.parent_span_is_remote);
        }
        assert_ne!(attempts[0].span_context.span_id(), attempts[1].span_context.span_id());
        assert_eq!(children[0].span_context.trace_id(), requests[0].span_context.trace_id());
        assert_eq!(children[0].parent_span_id, attempts[1].span_context.span_id(), "the child is of the second attempt");

        let attributes: Vec<_> = ["type", "queue", "attempt", "outcome"].map(|name| field(&attempts[0], name)).into();
        assert_eq!(attributes, ["traced", "default", "1", "retry"]);
        assert_eq!((field(&attempts[1], "attempt"), field(&attempts[1], "outcome")), ("2".into(), "done".into()));
        let waited: u128 = field(&attempts[0], "wait_ms").parse().unwrap();
        assert!(waited <= began.elapsed().as_millis(), "{waited} ms");
    }

    async fn a_trace_from_elsewhere_goes_on_and_one_that_is_none_begins_anew(stage: &Stage) {
        Seen::all();
        let running = serving(stage).await;
        let client = &running.client();
        let go = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let id = fresh("from-go");
        let task = traced_child::job("x").task_id(&id).header("traceparent", go).header("tracestate", "go=1");
        task.enqueue(client).await.unwrap();
        let run = runs(1, &id).await.remove(0);
        assert_eq!(run.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(run.parent_span_id.to_string(), "00f067aa0ba902b7");
        assert_eq!(run.span_context.trace_state().header(), "go=1");

        let hostile = [
            "", "00", "garbage\n\u{0}", "00-00000000000000000000000000000000-0000000000000000-00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &"0".repeat(60_000),
        ];
        for traceparent in hostile {
            let id = fresh("hostile");
            let task = traced_child::job("x").task_id(&id).header("traceparent", traceparent);
            let task = task.header("tracestate", "a=\u{1}");
            task.enqueue(client).await.unwrap();
            let run = runs(1, &id).await.remove(0);
            assert_eq!(run.parent_span_id, SpanId::INVALID, "{traceparent:?}");
            assert_eq!(field(&run, "outcome"), "done");
        }
        running.shutdown().await.unwrap();
    }

    async fn a_tick_and_its_run_are_one_trace(stage: &Stage) {
        let seen = Seen::all();
        let place = fresh("tick");
        let entry = Periodic::new("@every 1s".parse().unwrap(), traced_tick::job(&place)).unwrap().key(&place);
        let id = entry.id().to_string();
        let scheduler = asynq_cron::service().without_linked().entry(entry);
        let server = Server::builder(&stage.url).service(scheduler).state(stage.client().await).build().await.unwrap();
        let running = server.start().await.unwrap();
        let client = running.client();
        eventually("the task of a tick has run", async || {
            client.inspector().queues().await.ok()?.iter().any(|queue| queue.processed_total > 0).then_some(())
        })
        .await;
        // The task may have ended before the tick's own span; the shutdown ends that, too.
        running.shutdown().await.unwrap();
        let ticks = seen.named("tick").into_iter().filter(|tick| field(tick, "id") == id).collect::<Vec<_>>();
        let runs = seen.named("job").into_iter().filter(|run| field(run, "type") == "traced_tick");
        let joined = runs.filter(|run| ticks.iter().any(|tick| tick.span_context.span_id() == run.parent_span_id));
        assert!(joined.count() > 0, "no run belongs to one of {} ticks", ticks.len());
    }
}

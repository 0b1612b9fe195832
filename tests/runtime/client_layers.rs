//! Layers around enqueueing: order, changes, refusals, outcomes.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use asynq_runtime::{EnqueueService, PreparedTask, broker::sqlite::SqliteBroker, prelude::*};
use asynq_test_support::soon;
use metrics_exporter_prometheus::PrometheusBuilder;
use tower::{Layer, Service, layer::layer_fn, util::MapRequestLayer};

use crate::sqlite::patient;

#[job(queue = "mails")]
async fn mail(to: String) -> JobResult {
    drop(to);
    Ok(())
}

async fn client() -> Client {
    Client::new(Arc::new(SqliteBroker::in_memory(patient()).await.unwrap()))
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Notes each request and its answer, and refuses a payload with `bad` in it.
#[derive(Clone)]
struct Notes(&'static str, Lines);

struct Noting {
    inner: EnqueueService,
    notes: Notes,
}

impl Layer<EnqueueService> for Notes {
    type Service = Noting;

    fn layer(&self, inner: EnqueueService) -> Noting {
        Noting { inner, notes: self.clone() }
    }
}

impl Service<PreparedTask> for Noting {
    type Response = TaskInfo;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TaskInfo, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, task: PreparedTask) -> Self::Future {
        let Notes(name, lines) = self.notes.clone();
        let queue = task.queue_name().map(ToString::to_string).unwrap_or_default();
        let trace = task.header_value("trace").unwrap_or("none");
        lines.lock().unwrap().push(format!("{name} sees {} for {queue}, trace {trace}", task.name()));
        if task.payload().windows(3).any(|bytes| bytes == b"bad") {
            return Box::pin(async { Err("not for us".into()) });
        }
        let answer = self.inner.call(task);
        Box::pin(async move {
            let answer = answer.await;
            lines
                .lock()
                .unwrap()
                .push(format!("{name} gets {:?}", answer.as_ref().map(|task| task.state.to_string()).ok()));
            answer
        })
    }
}

#[tokio::test]
async fn the_first_layer_is_the_outermost_and_each_sees_the_changes_of_the_outer_ones() {
    let lines = Lines::default();
    let client = client()
        .await
        .layer(Notes("outer", lines.clone()))
        .layer(MapRequestLayer::new(|task: PreparedTask| task.header("trace", "abc").queue("late")))
        .layer(Notes("inner", lines.clone()));
    let task = mail::enqueue(&client, "ann").await.unwrap();
    assert_eq!(task.queue, "late");
    let stored = client.broker().task(&task.queue, &task.id).await.unwrap().unwrap();
    assert_eq!(stored.headers, [("trace".to_owned(), "abc".to_owned())]);
    let expected = [
        "outer sees mail for mails, trace none",
        "inner sees mail for late, trace abc",
        "inner gets Some(\"pending\")",
        "outer gets Some(\"pending\")",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_task_that_a_layer_refuses_is_counted() {
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let _recording = metrics::set_default_local_recorder(recorder);
    let client = client().await.layer(Notes("only", Lines::default()));
    mail::enqueue(&client, "bad").await.unwrap_err();
    let text = recorder.handle().render();
    assert!(text.contains("asynq_enqueue_failures_total{reason=\"layer\"} 1"), "{text}");
}

#[tokio::test]
async fn each_of_many_tasks_has_its_own_outcome_through_the_layers() {
    let client = client().await.layer(Notes("only", Lines::default()));
    let jobs = ["ann", "bad", "bob", "bob"].map(|to| mail::job(to).task_id(to));
    let outcomes = client.enqueue_many(jobs).await.unwrap();
    let texts: Vec<String> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().map_or_else(ToString::to_string, |task| task.id.to_string()))
        .collect();
    assert_eq!(texts[..2], ["ann", "not for us"]);
    assert!(matches!(outcomes[1], Err(EnqueueError::Layer(_))));
    // The two tasks of one id are enqueued side by side; an error of the broker passes the layers unchanged.
    assert_eq!(outcomes[2..].iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes[2..].iter().any(|outcome| outcome.as_ref().is_err_and(EnqueueError::is_id_conflict)), "{texts:?}");
    // These are more tasks than are enqueued together at a time.
    let outcomes = client.enqueue_many((0..600).map(|i| mail::job(i.to_string()))).await.unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 600);
}

/// Passes a task on and then answers with an error of its own, as a layer with a time limit does.
struct GivesUpLate(EnqueueService, fn() -> BoxError);

impl Service<PreparedTask> for GivesUpLate {
    type Response = TaskInfo;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TaskInfo, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, task: PreparedTask) -> Self::Future {
        let (sent, error) = (self.0.call(task), self.1);
        Box::pin(async move {
            sent.await?;
            Err(error())
        })
    }
}

async fn client_that_gives_up_late(error: fn() -> BoxError) -> Client {
    client().await.layer(layer_fn(move |inner| GivesUpLate(inner, error)))
}

#[derive(Debug, thiserror::Error)]
#[error("no answer in time")]
struct TooLate;

#[tokio::test]
async fn a_task_may_be_stored_when_a_layer_gives_up() {
    let client = client_that_gives_up_late(|| Box::new(TooLate)).await;
    let error = mail::enqueue(&client, "ann").await.unwrap_err();
    assert_eq!(client.inspector().queue("mails").await.unwrap().pending, 1);
    assert!(error.is_ambiguous() && !error.is_duplicate(), "{error:?}");
    // The source is the layer's own error, which a caller can downcast.
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.is::<TooLate>() && error.to_string() == "no answer in time", "{error:?}");
}

#[tokio::test]
async fn a_job_follows_the_policy_in_an_error_of_a_layer() {
    let client = client_that_gives_up_late(|| JobError::snooze("5m").into_error()).await;
    let error = JobError::from(mail::enqueue(&client, "ann").await.unwrap_err());
    assert_eq!(error.policy(), Policy::Snooze(Duration::from_secs(300)));
}

#[tokio::test]
async fn a_limit_that_is_set_after_the_layers_holds_inside_them() {
    let client = client().await.layer(Notes("only", Lines::default())).payload_limit(8);
    let error = mail::enqueue(&client, "somebody with a long name").await.unwrap_err();
    assert!(matches!(error, EnqueueError::TooLarge { limit: 8, .. }), "{error}");
}

#[tokio::test]
async fn a_layer_that_is_not_ready_holds_the_task_back() {
    let every = Duration::from_millis(40);
    let client = client().await.layer(tower::limit::RateLimitLayer::new(1, every));
    let since = Instant::now();
    // A clone has the same limit.
    mail::enqueue(&client, "a").await.unwrap();
    mail::enqueue(&client.clone(), "b").await.unwrap();
    mail::enqueue(&client, "c").await.unwrap();
    assert!(since.elapsed() >= 2 * every, "{:?}", since.elapsed());
}

/// A service that is ready as often as the test says.
#[derive(Clone, Default)]
struct ReadyGate(Arc<Mutex<(u32, Vec<Waker>)>>);

impl ReadyGate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 += 1;
        gate.1.drain(..).for_each(Waker::wake);
    }
}

struct Guarded(ReadyGate, EnqueueService);

impl Service<PreparedTask> for Guarded {
    type Response = TaskInfo;
    type Error = BoxError;
    type Future = <EnqueueService as Service<PreparedTask>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let mut gate = self.0.0.lock().unwrap();
        if gate.0 > 0 {
            return Poll::Ready(Ok(()));
        }
        gate.1.push(cx.waker().clone());
        Poll::Pending
    }

    fn call(&mut self, task: PreparedTask) -> Self::Future {
        self.0.0.lock().unwrap().0 -= 1;
        self.1.call(task)
    }
}

#[tokio::test]
async fn a_caller_that_waits_for_the_layers_and_is_not_polled_holds_up_no_other() {
    let gate = ReadyGate::default();
    let guard = gate.clone();
    let client = client().await.layer(layer_fn(move |inner| Guarded(guard.clone(), inner)));
    let mut idle = Box::pin(mail::enqueue(&client, "idle"));
    // The call is polled once, so that it waits for its turn, and then not polled again.
    assert!(tokio::time::timeout(Duration::ZERO, &mut idle).await.is_err());
    let mut other = Box::pin(mail::enqueue(&client, "other"));
    assert!(tokio::time::timeout(Duration::ZERO, &mut other).await.is_err());
    gate.open();
    soon(other).await.unwrap();
    gate.open();
    soon(idle).await.unwrap();
    // A call that is dropped while it waits does not hold up the others either.
    let given_up = mail::enqueue(&client, "given up");
    assert!(tokio::time::timeout(Duration::ZERO, given_up).await.is_err());
    gate.open();
    soon(mail::enqueue(&client, "last")).await.unwrap();
}

/// A task stored past the layers would lack their additions, and would escape their refusals.
#[tokio::test]
async fn a_transaction_refuses_a_task_that_would_bypass_the_layers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let plain = Client::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let layered = plain.clone().layer(MapRequestLayer::new(|task: PreparedTask| task.header("tenant", "7")));
    let mut app = rusqlite::Connection::open(&file).unwrap();
    let tx = app.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();

    let refused = layered.enqueue_in_tx(&tx, mail::job("ann")).unwrap_err();
    assert!(matches!(refused, EnqueueError::LayersInTransaction), "{refused}");
    assert!(refused.to_string().contains("without_layers"), "{refused}");
    let refused = layered.row(mail::job("ann")).unwrap_err();
    assert!(matches!(refused, EnqueueError::LayersInTransaction), "{refused}");

    // `without_layers` goes past the layers on purpose; the refusals have left the transaction as it was.
    let task = layered.without_layers().enqueue_in_tx(&tx, mail::job("bob")).unwrap();
    assert!(task.headers.is_empty(), "{task:?}");
    tx.commit().unwrap();
    assert_eq!(plain.inspector().queue("mails").await.unwrap().pending, 1);
    // The layers of the first client are as they were.
    let task = layered.enqueue(mail::job("eve")).await.unwrap();
    let task = plain.inspector().task("mails", &task.id).await.unwrap();
    assert_eq!(task.headers, [("tenant".to_owned(), "7".to_owned())]);
    assert_eq!((task.header("tenant"), task.header("trace")), (Some("7"), None));
    plain.broker().close().await;
}

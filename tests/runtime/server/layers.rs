//! Layers around execution: order, errors, back-pressure, and requests that they never see.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use asynq_runtime::{
    Bytes, Client, State, TaskState,
    broker::{Action, Broker},
    prelude::*,
    server::{JobRequest, JobResponse, JobService},
};
use tower::{Layer, Service, layer::layer_fn};

use super::{Log, enqueue, flaky::Flaky, hangs, ids, logged, memory, server, settled, soon, start};

#[job]
async fn logs(ctx: &JobContext, log: State<Log>, kind: String) -> JobResult<u8> {
    let seen = ctx.extension::<&'static str>().map(|seen| *seen).unwrap_or("nothing");
    log.send(format!("job {kind} {seen}"))?;
    match kind.as_str() {
        "skip" => Err(JobError::skip_retry("no use")),
        _ => Ok(7),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Wrapped(#[source] BoxError);

fn tried_again(_: &Wrapped) -> Policy {
    Policy::Fail
}

#[job(on_error = tried_again)]
async fn wraps() -> Result<(), Wrapped> {
    Err(Wrapped(JobError::skip_retry("inner").into_error()))
}

/// A layer that reports each request that enters and leaves it.
#[derive(Clone)]
struct LogLayer {
    name: &'static str,
    log: Log,
}

struct LogService<S> {
    inner: S,
    layer: LogLayer,
}

impl<S> Layer<S> for LogLayer {
    type Service = LogService<S>;

    fn layer(&self, inner: S) -> LogService<S> {
        LogService { inner, layer: self.clone() }
    }
}

impl<S> Service<JobRequest> for LogService<S>
where
    S: Service<JobRequest, Response = JobResponse>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = JobResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<JobResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let LogLayer { name, log } = self.layer.clone();
        let _ = log.send(format!("{name} in {}", request.name()));
        request.context().insert(name);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into);
            let text = match &answer {
                Ok(response) => format!("{:?}", response.result().map(Bytes::len)),
                Err(error) => error.to_string(),
            };
            let _ = log.send(format!("{name} out {text}"));
            answer
        })
    }
}

#[tokio::test]
async fn the_first_layer_is_the_outermost_and_the_job_finds_the_changes_of_the_last() {
    let broker = memory().await;
    let (builder, mut log) = server::<(logs,)>(&broker);
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let logging = |name| LogLayer { name, log: sender.clone() };
    let running = start(builder.layer(logging("outer")).layer(logging("inner"))).await;
    logs::job("a").task_id("a").retention("1h").enqueue(&running.client()).await.unwrap();
    settled(&broker, &running, "a", TaskState::Completed).await;
    assert_eq!(logged(&mut log).await, "job a inner");
    for expected in ["outer in logs", "inner in logs", "inner out Some(6)", "outer out Some(6)"] {
        assert_eq!(logged(&mut lines).await, expected);
    }
    // A policy passes the layers, and so does a task that no job or handler knows.
    logs::job("skip").task_id("s").enqueue(&running.client()).await.unwrap();
    let skipped = settled(&broker, &running, "s", TaskState::Archived).await;
    assert_eq!(skipped.last_error.as_deref(), Some("no use"));
    enqueue(&broker, RawTask::new("nobody's", "").task_id("u")).await;
    let unknown = settled(&broker, &running, "u", TaskState::Retry).await;
    assert_eq!(
        (unknown.retried, unknown.last_error),
        (0, Some("handler not found for task \"nobody's\"".to_owned())),
        "it was requeued"
    );
    let mut all = Vec::new();
    while let Ok(line) = lines.try_recv() {
        all.push(line);
    }
    assert!(all.contains(&"outer out no use".to_owned()), "{all:?}");
    assert!(all.contains(&"inner in nobody's".to_owned()), "{all:?}");
    assert!(all.iter().any(|line| line.starts_with("outer out handler not found for task")), "{all:?}");
    soon(running.shutdown()).await.unwrap();
}

/// Returns a layer that refuses by an error, or answers itself.
fn refuses(kind: &'static str) -> impl Layer<JobService, Service = Refusing> + Send + 'static {
    layer_fn(move |inner| Refusing { inner, kind })
}

struct Refusing {
    inner: JobService,
    kind: &'static str,
}

impl Service<JobRequest> for Refusing {
    type Response = JobResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<JobResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        match self.kind {
            "panic" => panic!("in a layer"),
            "done" => Box::pin(async { Ok(JobResponse::done()) }),
            "revoke" => Box::pin(async { Err(JobError::revoke("unwanted").into_error()) }),
            "fail" => Box::pin(async { Err("not today".into()) }),
            _ => self.inner.call(request),
        }
    }
}

#[tokio::test]
async fn a_layer_may_answer_itself_and_its_errors_and_panics_are_the_tasks() {
    for (kind, state, error) in [
        ("done", None, None),
        ("revoke", None, None),
        ("fail", Some(TaskState::Retry), Some("not today")),
        ("panic", Some(TaskState::Retry), Some("panic")),
        ("nothing", None, None),
    ] {
        let broker = memory().await;
        let (builder, mut log) = server::<(logs,)>(&broker);
        let running = start(builder.layer(refuses(kind))).await;
        let seen = running.signals().settled.count();
        logs::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
        soon(running.signals().settled.reached(seen + 1)).await;
        let task = super::task(&broker, "a").await;
        assert_eq!(task.as_ref().map(|task| task.state), state, "{kind}");
        let text = task.and_then(|task| task.last_error).unwrap_or_default();
        assert!(error.is_none_or(|error| text.contains(error)), "{kind}: {text}");
        assert_eq!(log.try_recv().is_ok(), kind == "nothing", "{kind}");
        soon(running.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_layers_timeout_ends_the_job() {
    let broker = memory().await;
    let (builder, mut log) = server::<(hangs,)>(&broker);
    let running = start(builder.layer(tower::timeout::TimeoutLayer::new(Duration::from_millis(20)))).await;
    hangs::job().task_id("a").retry(0).enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    let task = settled(&broker, &running, "a", TaskState::Archived).await;
    assert_eq!(task.last_error.as_deref(), Some("request timed out"));
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_failure_that_the_job_has_chosen_passes_the_layers_over_an_older_policy() {
    let broker = memory().await;
    let (builder, _log) = server::<(wraps,)>(&broker);
    let running = start(builder.layer(refuses("nothing"))).await;
    wraps::job().task_id("a").enqueue(&running.client()).await.unwrap();
    let task = settled(&broker, &running, "a", TaskState::Retry).await;
    assert_eq!(task.retried, 1);
    soon(running.shutdown()).await.unwrap();
}

/// A service that is ready for as many calls as the test has said.
#[derive(Default)]
struct ReadyGate {
    open: AtomicU32,
    polled: AtomicBool,
    waiting: std::sync::Mutex<Option<Waker>>,
}

impl ReadyGate {
    fn open(&self, times: u32) {
        self.open.fetch_add(times, SeqCst);
        self.waiting.lock().unwrap().take().map(Waker::wake).unwrap_or_default();
    }
}

struct Guarded(Arc<ReadyGate>, JobService);

impl Service<JobRequest> for Guarded {
    type Response = JobResponse;
    type Error = BoxError;
    type Future = <JobService as Service<JobRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        *self.0.waiting.lock().unwrap() = Some(cx.waker().clone());
        self.0.polled.store(true, SeqCst);
        if self.0.open.load(SeqCst) > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        self.0.open.fetch_sub(1, SeqCst);
        self.1.call(request)
    }
}

#[tokio::test]
async fn while_layers_are_not_ready_nothing_is_fetched_and_nothing_is_lost() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let jobs = (0..5).map(|i| logs::job(i.to_string()).task_id(i.to_string()));
    client.enqueue_many(jobs).await.unwrap();
    let (builder, mut log) = server::<(logs,)>(&broker);
    let gate = Arc::new(ReadyGate::default());
    let guard = Arc::clone(&gate);
    let running = start(builder.layer(layer_fn(move |inner| Guarded(Arc::clone(&guard), inner)))).await;
    soon(running.signals().beat.reached(1)).await;
    for (open, first) in [(2, 0), (1, 2)] {
        gate.open(open);
        for i in first..first + open {
            assert_eq!(logged(&mut log).await, format!("job {i} nothing"));
        }
        soon(running.signals().settled.reached(u64::from(first + open))).await;
        let waiting: Vec<String> = (first + open..5).map(|i| i.to_string()).collect();
        assert_eq!(ids(&broker, TaskState::Pending).await, waiting);
        assert_eq!(ids(&broker, TaskState::Active).await, [""; 0]);
    }
    assert!(gate.polled.load(SeqCst));
    // The server shuts down although the layers never become ready.
    soon(running.shutdown()).await.unwrap();
    assert_eq!(ids(&broker, TaskState::Pending).await, ["3", "4"]);
}

#[tokio::test]
async fn towers_rate_limit_spaces_the_starts() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    client.enqueue_many((0..6).map(|i| logs::job(i.to_string()))).await.unwrap();
    let (builder, mut log) = server::<(logs,)>(&broker);
    let every = Duration::from_millis(60);
    let since = std::time::Instant::now();
    let running = start(builder.layer(tower::limit::RateLimitLayer::new(2, every))).await;
    for i in 0..6 {
        assert_eq!(logged(&mut log).await, format!("job {i} nothing"));
    }
    assert!(since.elapsed() >= 2 * every, "{:?}", since.elapsed());
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn tasks_that_did_not_reach_the_layers_are_requeued_in_order() {
    let inner = memory().await;
    let jobs = (0..5).map(|i| logs::job(i.to_string()).task_id(i.to_string()));
    Client::new(inner.clone()).enqueue_many(jobs).await.unwrap();
    // The broker gives more tasks than were asked for.
    let flaky = Flaky::new(inner.clone());
    flaky.generous.store(1, SeqCst);
    let broker: Arc<dyn Broker> = flaky;
    let (builder, mut log) = server::<(logs,)>(&broker);
    let gate = Arc::new(ReadyGate::default());
    let guard = Arc::clone(&gate);
    let running = start(builder.layer(layer_fn(move |inner| Guarded(Arc::clone(&guard), inner)))).await;
    gate.open(1);
    assert_eq!(logged(&mut log).await, "job 0 nothing");
    soon(running.signals().settled.reached(3)).await;
    assert_eq!(ids(&inner, TaskState::Pending).await, ["1", "2", "3", "4"]);
    soon(running.shutdown()).await.unwrap();
}

/// After 65 starts a batch has two tasks, and the first queue has one.
#[tokio::test]
async fn by_strict_priority_no_queue_is_asked_for_the_rest_of_a_batch_before_the_layers_are_ready_again() {
    const HIGH: u32 = 66;
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    client.enqueue_many((0..HIGH).map(|_| logs::job("high").queue("high"))).await.unwrap();
    client.enqueue_many([logs::job("low").queue("low")]).await.unwrap();
    let (builder, mut log) = server::<(logs,)>(&broker);
    let gate = Arc::new(ReadyGate::default());
    gate.open(HIGH);
    let guard = Arc::clone(&gate);
    let builder = builder.queues([("high", 9), ("low", 1)]).strict_priority().concurrency(100);
    let running = start(builder.layer(layer_fn(move |inner| Guarded(Arc::clone(&guard), inner)))).await;
    soon(running.signals().settled.reached(u64::from(HIGH))).await;
    gate.open(1);
    for expected in (0..HIGH).map(|_| "high").chain(["low"]) {
        assert_eq!(logged(&mut log).await, format!("job {expected} nothing"));
    }
    soon(running.shutdown()).await.unwrap();
    let settled = flaky.settled.lock().unwrap();
    assert!(settled.iter().all(|(_, settlement)| settlement.action != Action::Requeue), "{settled:?}");
}

#[tokio::test]
async fn layers_that_are_always_ready_are_trusted_with_batches() {
    const TASKS: u32 = 600;
    // 64 one by one, then twice as many each time, up to 128: eleven calls.
    const CALLS: u32 = 64 + 11;
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let client = Client::new(broker.clone());
    client.enqueue_many((0..TASKS).map(|i| logs::job(i.to_string()))).await.unwrap();
    let (builder, mut log) = server::<(logs,)>(&broker);
    // There are as many slots as tasks, so that a batch does not depend on when earlier jobs end.
    let running = start(builder.concurrency(TASKS as usize).layer(refuses("nothing"))).await;
    let mut seen: Vec<u32> = Vec::new();
    for _ in 0..TASKS {
        seen.push(logged(&mut log).await.split(' ').nth(1).unwrap().parse().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..TASKS).collect::<Vec<_>>(), "each once");
    let calls = flaky.dequeues.load(SeqCst);
    // A look before the first task, or after the last one, may be one call each.
    assert!((CALLS..=CALLS + 2).contains(&calls), "{calls} calls for {TASKS} tasks");
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn tasks_that_trusted_layers_do_not_take_are_requeued_in_order_and_trust_is_lost() {
    let inner = memory().await;
    let flaky = Flaky::new(inner.clone());
    let broker: Arc<dyn Broker> = flaky.clone();
    let name = |i: u32| format!("{i:03}");
    Client::new(inner.clone()).enqueue_many((0..120).map(|i| logs::job(name(i)).task_id(name(i)))).await.unwrap();
    let (builder, mut log) = server::<(logs,)>(&broker);
    let gate = Arc::new(ReadyGate::default());
    let guard = Arc::clone(&gate);
    // The layers stop in the middle of a batch: 64 one by one, then 1, 2, 4, 8 and one of the next 16.
    gate.open(80);
    let layer = layer_fn(move |inner| Guarded(Arc::clone(&guard), inner));
    // There are more slots than tasks that start: a busy machine must not cut the batches elsewhere.
    let running = start(builder.concurrency(128).layer(layer)).await;
    for _ in 0..80 {
        logged(&mut log).await;
    }
    let all_but = |n: u32| (n..120).map(name).collect::<Vec<_>>();
    let has_settled = |n: usize| flaky.settled.lock().unwrap().len() >= n;
    for seen in 1.. {
        if has_settled(80) && ids(&inner, TaskState::Active).await.is_empty() {
            break;
        }
        soon(running.signals().settled.reached(seen)).await;
    }
    assert_eq!(ids(&inner, TaskState::Pending).await, all_but(80));
    let requeued = || flaky.settled.lock().unwrap().iter().filter(|(_, s)| s.action == Action::Requeue).count();
    let before = requeued();
    assert!(before > 0, "a batch was cut");
    // Tasks are taken one by one again: no task is taken that is not started.
    gate.open(3);
    for _ in 0..3 {
        logged(&mut log).await;
    }
    soon(running.shutdown()).await.unwrap();
    assert_eq!(ids(&inner, TaskState::Pending).await, all_but(83));
    assert_eq!(requeued(), before);
}

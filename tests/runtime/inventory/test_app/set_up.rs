//! A `TestApp` with the set-up of a program: its layers, handlers, hooks and states.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use asynq_runtime::{
    app::AppError,
    prelude::*,
    server::{JobRequest, OnUnknown},
    testing::TestApp,
};

use super::{Seen, app, blocking, double, record};

/// Notes the requests that pass through it, and is ready when it is polled for the second time.
struct NotingLayer(Arc<dyn Fn(&str) + Send + Sync>);

struct NotingService<S> {
    note: Arc<dyn Fn(&str) + Send + Sync>,
    inner: S,
    is_ready: bool,
}

impl<S> tower::Layer<S> for NotingLayer {
    type Service = NotingService<S>;

    fn layer(&self, inner: S) -> NotingService<S> {
        NotingService { note: self.0.clone(), inner, is_ready: false }
    }
}

impl<S: tower::Service<JobRequest>> tower::Service<JobRequest> for NotingService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if !std::mem::replace(&mut self.is_ready, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> S::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without being ready");
        (self.note)(request.name());
        self.inner.call(request)
    }
}

/// A set-up whose layers, handlers and hooks write to `seen`, and which has a state of its own.
async fn set_up(app: App, seen: Arc<Seen>) -> Result<App, BoxError> {
    let app = app.url("redis://nobody.invalid").queue("elsewhere", 1).queue_concurrency("low", 4).except(["blocking"]);
    double::job(1).task_id("warm-up").enqueue(&app.client().await?).await?;
    let app = app.state(Arc::new(Seen::default()));
    let noting = move |text: &'static str| {
        let seen = seen.clone();
        move |name: &str| seen.note(format!("{text} {name}"))
    };
    let (gate, handled, failed, started) = (noting("gate:"), noting("handled"), noting("told of"), noting("started"));
    Ok(app.server(move |server| {
        let server = server.group_grace("2s").retries_first().backoff(|_, _, _| Duration::from_secs(7));
        let server = server.aggregate("mails", |_, _| Ok::<_, BoxError>(RawTask::new("by hand: many", "")));
        let server = server.layer(NotingLayer(Arc::new(gate))).handle("by hand:", move |task: RawTask| {
            handled(task.name());
            async {}
        });
        let server = server.on_error(move |task| {
            failed(&format!("{}: {}", task.name, task.error));
            async {}
        });
        server.before_start(move |client: Client| async move {
            started(&client.broker().location());
            double::job(2).task_id("at the start").enqueue(&client).await.map(drop)
        })
    }))
}

#[tokio::test]
async fn the_set_up_of_a_program_counts_with_its_layers_handlers_and_hooks() {
    let seen = Arc::new(Seen::default());
    // The state that the test gives takes the place of the set-up's.
    let app = TestApp::with_setup(|app| set_up(app, seen.clone())).await.state(seen.clone());
    record::job("fails").queue("high").enqueue(app.client()).await.unwrap();
    blocking::enqueue(app.client(), "/").await.unwrap();
    app.client().enqueue(RawTask::new("by hand: one", "")).await.unwrap();
    assert_eq!(app.tasks().await.len(), 4, "the set-up enqueued one");
    assert_eq!(*seen.0.lock().unwrap(), [""; 0], "nothing has started");

    let drained = app.drain().await;
    assert_eq!((drained.succeeded, drained.retried, drained.requeued), (3, 1, 1), "{drained:?}");
    let mut notes = std::mem::take(&mut *seen.0.lock().unwrap());
    assert!(notes.remove(0).starts_with("started "), "{notes:?}");
    let at =
        |text: &str| notes.iter().position(|one| one == text).unwrap_or_else(|| panic!("no {text:?} in {notes:?}"));
    let failed = ["gate: record", "fails 0", "told of record: broken"].map(at);
    assert!(failed.is_sorted(), "{notes:?}");
    assert!(at("gate: by hand: one") < at("handled by hand: one"), "{notes:?}");
    assert_eq!(notes.iter().filter(|text| *text == "gate: double").count(), 2, "{notes:?}");

    app.advance("6s").await;
    assert_eq!(app.drain().await.retried, 0, "the set-up says 7 s");
    app.client().enqueue(RawTask::new("of a group", "").queue("low").group("mails")).await.unwrap();
    record::job("good").queue("high").enqueue(app.client()).await.unwrap();
    app.advance("1s").await;
    assert_eq!(app.drain().await.retried, 1);
    let notes = std::mem::take(&mut *seen.0.lock().unwrap());
    let retried = ["gate: blocking", "gate: record", "fails 1", "told of record: broken", "gate: record", "good 0"];
    assert_eq!(notes, retried, "the retry goes first");
    app.advance("1s").await;
    assert_eq!(app.drain().await.aggregated, 1);
    assert_eq!(*seen.0.lock().unwrap(), ["gate: by hand: many", "handled by hand: many"]);
}

#[tokio::test]
async fn a_task_that_nothing_knows_is_requeued_for_as_long_as_the_server_says() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let app = TestApp::new().await.server(|server| server.on_unknown(OnUnknown::RequeueFor(hours(72))));
    let task = app.client().enqueue(RawTask::new("of a later version", "")).await.unwrap();
    assert_eq!(app.drain().await.requeued, 1);
    app.advance(hours(71)).await;
    assert_eq!(app.drain().await.requeued, 1);
    app.advance(hours(1)).await;
    assert_eq!(app.drain().await.archived, 1);
    let error = app.task(&task).await.unwrap().last_error.unwrap();
    assert!(error.ends_with("(no worker has known it for 3d, requeued 2 times)"), "{error}");
}

#[tokio::test]
#[should_panic(expected = "configure a `TestApp` before its first `drain`")]
async fn state_is_refused_after_the_start() {
    let (app, _) = app().await;
    app.drain().await;
    let _ = app.state(1_u8);
}

#[tokio::test]
#[should_panic(expected = "the set-up failed: no mail server")]
async fn a_set_up_that_fails_fails_the_test() {
    TestApp::with_setup(async |_| Err::<App, _>("no mail server")).await;
}

#[tokio::test]
#[should_panic(expected = "App::url: it is named after `App::client`")]
async fn a_set_up_that_no_worker_starts_with_fails_the_test() {
    TestApp::with_setup(async |app| {
        app.client().await?;
        Ok::<_, AppError>(app.url("sqlite://another.db"))
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "the hook `before_start` failed: no mail server")]
async fn a_hook_of_the_start_that_fails_fails_the_test() {
    let app = TestApp::new().await.server(|server| server.before_start(|_| async { Err::<(), _>("no mail server") }));
    app.drain().await;
}

#[tokio::test]
async fn waits_side_by_side_run_one_task_after_the_other() {
    let app = TestApp::new().await.server(|server| server.layer(NotingLayer(Arc::new(|_: &str| {}))));
    let tasks = [double::job(1).awaited(), double::job(2).awaited()];
    let [one, other] = tasks.map(|job| job.enqueue(app.client()));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    let ended = tokio::join!(app.wait(&one, "1m"), app.wait(&other, "1m"));
    assert_eq!((ended.0.done().unwrap(), ended.1.done().unwrap()), (2, 4));
}

#[tokio::test]
async fn tasks_in_queues_that_the_set_up_does_not_name_are_told() {
    let unserved = async |app: TestApp| {
        let app = app.state(Arc::new(Seen::default()));
        for queue in ["mails:a", "typo"] {
            record::job("good").queue(queue).enqueue(app.client()).await.unwrap();
        }
        let drained = app.drain().await;
        assert_eq!(drained.succeeded, 2, "they run all the same");
        drained.unserved.into_iter().map(|(queue, job)| format!("{job} in {queue}")).collect::<Vec<_>>()
    };
    let named = async |app: App| Ok::<_, BoxError>(app.queue("mails:*", 2).queue_concurrency("mails:*", 1));
    assert_eq!(unserved(TestApp::with_setup(named).await).await, ["record in typo"]);
    assert_eq!(unserved(TestApp::new().await).await, [""; 0]);
}

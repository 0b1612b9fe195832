use std::{
    future::{poll_fn, ready},
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use asynq_test_support::Log;
use metrics_exporter_prometheus::PrometheusBuilder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    broker::{
        RunKey, RunToken,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    job::{Backoff, Job, JobOptions, JobResult, Registry},
    server::{
        config::OnUnknown,
        handlers::{Handlers, handler},
        hooks::task_hook,
    },
    task::{Extra, QueueName, TaskId, TaskMessage},
};

/// Makes an attempt at a task of a type that no job has.
async fn attempted(on_unknown: OnUnknown, stop: &Stop, decided: impl FnOnce(Action)) {
    attempted_by(Handlers::default(), Hooks::default(), on_unknown, stop, decided).await;
}

/// Makes an attempt at a task that no job knows, but perhaps one of these handlers.
async fn attempted_by(
    handlers: Handlers,
    hooks: Hooks,
    on_unknown: OnUnknown,
    stop: &Stop,
    decided: impl FnOnce(Action),
) {
    let registry = Registry::only::<()>().expect("an empty registry");
    attempted_with(Dispatcher::new(registry, handlers, on_unknown), hooks, Extra::default(), stop, decided).await;
}

/// Makes an attempt at a task with these facts.
async fn attempted_with(dispatcher: Dispatcher, hooks: Hooks, extra: Extra, stop: &Stop, decided: impl FnOnce(Action)) {
    let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.expect("a database in memory");
    panics::note_places();
    let executor = Executor {
        dispatcher: Arc::new(dispatcher),
        states: Arc::default(),
        blocking: BlockingPool::default(),
        broker: Arc::new(broker),
        hooks,
        given_up: GivenUp::new(1),
        closing: Arc::default(),
    };
    let (queue, id) = (QueueName::from_wire("default"), TaskId::from_wire("i"));
    let attempt = Attempt {
        key: RunKey { queue, id, token: RunToken(1), server: 0, row: 0 },
        message: Arc::new(TaskMessage { r#type: "nobody:knows".to_owned(), ..TaskMessage::default() }),
        crashes: 0,
        extra,
        waited: None,
        asked: Instant::now(),
        asked_at: Utc::now(),
        taken_at: Utc::now(),
        defect: None,
    };
    executor.attempt(&attempt, stop, None, decided).await;
}

/// Returns the metrics of an attempt at a task of a type that no job has.
async fn counted(stop: &Stop) -> String {
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let _recording = metrics::set_default_local_recorder(recorder);
    attempted(OnUnknown::default(), stop, drop).await;
    recorder.handle().render()
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

#[tokio::test]
async fn an_attempt_whose_job_did_not_run_has_an_outcome_and_no_time() {
    let text = counted(&Stop::default()).await;
    assert!(has(&text, "asynq_job_outcomes_total{type=\"unknown\",outcome=\"deferred\"} 1"), "{text}");
    assert!(!has(&text, "asynq_job_run_seconds_count{type=\"unknown\"} 1"), "{text}");
}

#[tokio::test]
async fn a_run_that_was_lost_is_not_counted_as_requeued() {
    for (why, n) in [(Why::Leaving, 1), (Why::Lost, 0)] {
        let stop = Stop::default();
        stop.stop(why);
        let text = counted(&stop).await;
        let line = format!("asynq_job_outcomes_total{{type=\"unknown\",outcome=\"requeued\"}} {n}");
        assert!(has(&text, &line), "{why:?}: {text}");
    }
}

#[tokio::test]
async fn a_run_that_was_lost_has_no_outcome_and_calls_no_hook_whatever_its_job_returns() {
    for (why, n) in [(Why::Cancelled, 1), (Why::Lost, 0)] {
        let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
        let _recording = metrics::set_default_local_recorder(recorder);
        let (stop, calls) = (Arc::new(Stop::default()), Arc::new(AtomicUsize::new(0)));
        let stopped = Arc::clone(&stop);
        let gives_up = handler(move |_| {
            let stop = Arc::clone(&stopped);
            poll_fn(move |_| {
                if stop.is_requested() {
                    return Poll::Ready(Err::<(), _>(JobError::skip_retry("given up")));
                }
                stop.stop(why);
                Poll::Pending
            })
        });
        let mut handlers = Handlers::default();
        handlers.add("handle", "nobody:knows".to_owned(), gives_up).expect("one handler");
        let called = Arc::clone(&calls);
        let on_archive = task_hook(move |_| {
            called.fetch_add(1, Ordering::SeqCst);
            ready(())
        });
        let hooks = Hooks { on_archive: vec![on_archive], ..Hooks::default() };
        attempted_by(handlers, hooks, OnUnknown::default(), &stop, drop).await;
        let text = recorder.handle().render();
        let line = format!("asynq_job_outcomes_total{{type=\"nobody:knows\",outcome=\"archived\"}} {n}");
        assert!(has(&text, &line), "{why:?}: {text}");
        assert_eq!(calls.load(Ordering::SeqCst), n, "{why:?}");
    }
}

#[tokio::test]
async fn an_attempt_knows_the_time_that_it_has_left() {
    let left = Arc::new(Mutex::new(Duration::ZERO));
    let noted = Arc::clone(&left);
    let notes = handler(move |task| {
        *noted.lock() = task.context().remaining();
        ready(Ok::<(), JobError>(()))
    });
    let mut handlers = Handlers::default();
    handlers.add("handle", "nobody:knows".to_owned(), notes).expect("one handler");
    attempted_by(handlers, Hooks::default(), OnUnknown::default(), &Stop::default(), drop).await;
    let (left, timeout) = (*left.lock(), JobOptions::DEFAULT_TIMEOUT);
    assert!(left <= timeout && left > timeout - Duration::from_secs(60), "{left:?}");
}

/// A job whose task is known to [`attempted_with`].
#[derive(Serialize, Deserialize)]
struct Throttled {}

impl Job for Throttled {
    const NAME: &'static str = "nobody:knows";
    const BACKOFF: Option<Backoff> = Some(Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600)));
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Err(JobError::not_a_failure("busy"))
    }
}

#[tokio::test]
async fn an_end_that_is_not_a_failure_waits_longer_each_time_by_the_pauses_of_its_job() {
    for (deferrals, seconds) in [(0, 1), (1, 2), (3, 8), (20, 600)] {
        let registry = Registry::only::<Throttled>().expect("one job");
        let dispatcher = Dispatcher::new(registry, Handlers::default(), OnUnknown::default());
        let extra = Extra { deferrals, ..Extra::default() };
        let noted = Arc::new(Mutex::new(None));
        let decided = |action: Action| *noted.lock() = Some(action);
        attempted_with(dispatcher, Hooks::default(), extra, &Stop::default(), decided).await;
        let action = noted.lock().take().expect("an action");
        assert!(
            matches!(action, Action::Retry { delay, counted: false, .. } if delay == Duration::from_secs(seconds)),
            "{deferrals}: {action:?}"
        );
    }
}

#[tokio::test]
async fn an_outcome_is_decided_before_its_line_is_logged() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&steps);
    let _log = Log::calling(move || {
        lines.lock().push("a line");
        panic!("the line cannot be written");
    });
    attempted(OnUnknown::Archive, &Stop::default(), |_| steps.lock().push("decided")).await;
    let steps = steps.lock();
    assert!(steps.ends_with(&["decided", "a line"]), "{steps:?}");
}

#[tokio::test]
async fn a_task_that_is_unknown_here_has_no_line_beside_that_of_its_type() {
    let log = Log::keep();
    attempted(OnUnknown::default(), &Stop::default(), drop).await;
    assert_eq!([log.with("logged once per type").len(), log.with("deferred: ").len()], [1, 0], "{log:?}");
}

//! `TestApp`, with which users test their own jobs.

mod neighbours;
mod other_names;
mod set_up;
mod stopping;

use std::{sync::Mutex, time::Duration};

use asynq_runtime::{
    Outcome, PreparedTask,
    broker::RetryOrder,
    prelude::*,
    task::QueueName,
    testing::{self, TestApp},
};
use asynq_test_support::soon;

#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

impl Seen {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().expect("no thread panics while noting").push(text.into());
    }
}

#[job(retry = 2)]
async fn record(ctx: &JobContext, seen: State<std::sync::Arc<Seen>>, text: String) -> JobResult {
    seen.note(format!("{text} {}", ctx.retried()));
    match text.as_str() {
        "fails" => Err(JobError::fail("broken")),
        "hopeless" => Err(JobError::skip_retry("beyond repair")),
        "later" => Err(JobError::snooze("5m")),
        "unwanted" => Err(JobError::revoke("not wanted")),
        "panics" => panic!("out of cheese"),
        _ => Ok(()),
    }
}

#[job(retention = "1h")]
async fn double(n: u64) -> JobResult<u64> {
    Ok(n * 2)
}

#[job(retry = 1, on_archive = given_up)]
async fn breaks(n: u64) -> JobResult {
    Err(format!("{n} is too much"))?
}

async fn given_up(task: ArchivedTask<breaks>) {
    let seen: State<std::sync::Arc<Seen>> = task.ctx.state().unwrap();
    seen.note(format!("gave {} up: {}", task.job.unwrap().n, task.error));
}

#[job]
fn blocking(path: String) -> JobResult {
    std::fs::metadata(path)?;
    Ok(())
}

async fn app() -> (TestApp, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    (TestApp::new().await.state(seen.clone()), seen)
}

#[tokio::test]
async fn every_ending_is_counted_by_its_kind() {
    let (app, seen) = app().await;
    for text in ["good", "fails", "hopeless", "later", "unwanted", "panics"] {
        record::enqueue(app.client(), text).await.unwrap();
    }
    blocking::enqueue(app.client(), "/").await.unwrap();
    app.client().enqueue(RawTask::new("of another language", "x")).await.unwrap();

    let drained = app.drain().await;
    assert_eq!((drained.succeeded, drained.failed, drained.snoozed, drained.requeued), (2, 3, 1, 1));
    assert_eq!(drained.revoked, 1);
    assert_eq!((drained.retried, drained.archived), (2, 1));
    let errors: Vec<_> = drained.failures.iter().map(|f| (f.job.as_str(), f.error.as_str(), f.archived)).collect();
    assert_eq!(errors[0], ("record", "broken", false));
    assert_eq!(errors[1], ("record", "beyond repair", true));
    assert!(errors[2].1.contains("out of cheese"), "{errors:?}");
    assert_eq!(seen.0.lock().unwrap().len(), 6);
    assert_eq!(app.drain().await, testing::Drained::default(), "nothing is due any more");
}

#[tokio::test]
async fn retries_come_when_their_time_has_come_and_end_in_the_archive() {
    let (app, seen) = app().await;
    let task = record::enqueue(app.client(), "fails").await.unwrap();
    assert_eq!(app.drain().await.retried, 1);
    app.advance("1h").await;
    assert_eq!(app.drain().await.retried, 1);
    app.advance("1h").await;
    assert_eq!(app.drain().await.archived, 1);
    assert_eq!(*seen.0.lock().unwrap(), ["fails 0", "fails 1", "fails 2"]);
    let task = app.task(&task).await.unwrap();
    assert_eq!((task.state, task.last_error.as_deref()), (TaskState::Archived, Some("broken")));
}

#[tokio::test]
async fn a_snoozed_task_runs_again_after_its_time_and_not_before() {
    let (app, seen) = app().await;
    record::enqueue(app.client(), "later").await.unwrap();
    assert_eq!(app.drain().await.snoozed, 1);
    app.advance(Duration::from_secs(299)).await;
    assert_eq!(app.drain().await.snoozed, 0);
    app.advance("1s").await;
    assert_eq!(app.drain().await.snoozed, 1);
    assert_eq!(*seen.0.lock().unwrap(), ["later 0", "later 0"], "no retry was spent");
}

#[tokio::test]
async fn a_kept_result_goes_when_its_retention_is_over() {
    let app = TestApp::new().await;
    let task = double::enqueue(app.client(), 21).await.unwrap();
    assert_eq!(app.drain().await.succeeded, 1);
    let info = app.task(&task).await.unwrap();
    assert_eq!(info.state, TaskState::Completed);
    assert!(info.result.is_some());
    app.advance("1h1s").await;
    app.drain().await;
    assert_eq!(app.task(&task).await, None);
}

#[tokio::test]
async fn a_unique_task_is_refused_until_the_first_has_run() {
    let (app, _) = app().await;
    let unique = || record::job("good").unique("1h").enqueue(app.client());
    let first = unique().await.unwrap();
    let error = unique().await.unwrap_err();
    assert!(error.is_duplicate() && !error.is_id_conflict());
    assert_eq!(error.existing_id(), Some(&first.id));
    app.drain().await;
    unique().await.unwrap();
}

#[tokio::test]
async fn waiting_tasks_are_found_by_type_and_arguments() {
    let (app, _) = app().await;
    record::enqueue_in(app.client(), "1d", "tomorrow").await.unwrap();
    record::enqueue(app.client(), "now").await.unwrap();
    app.assert_enqueued::<record>(|job| job.text == "tomorrow").await;
    app.assert_not_enqueued::<record>(|job| job.text == "yesterday").await;
    app.assert_not_enqueued::<double>(|_| true).await;
    let mut texts: Vec<_> = app.enqueued::<record>().await.into_iter().map(|job| job.text).collect();
    texts.sort();
    assert_eq!(texts, ["now", "tomorrow"]);
    app.drain().await;
    app.assert_not_enqueued::<record>(|job| job.text == "now").await;
}

#[tokio::test]
#[should_panic(expected = "no such `record` is enqueued (asserted at tests/runtime/inventory/test_app.rs:")]
async fn a_failed_assertion_says_where_it_stands() {
    let (app, _) = app().await;
    app.assert_enqueued::<record>(|job| job.text == "x").await;
}

#[tokio::test]
#[should_panic(
    expected = "there is:\n  double 21 (scheduled in default, due in 1h)\n  blocking \"/\" (pending in low)"
)]
async fn a_failed_assertion_lists_the_tasks() {
    let app = TestApp::new().await;
    double::enqueue_in(app.client(), "1h", 21).await.unwrap();
    blocking::job("/").queue("low").enqueue(app.client()).await.unwrap();
    app.assert_enqueued::<record>(|_| true).await;
}

#[tokio::test]
async fn a_missing_state_is_noticed_when_the_job_runs() {
    let app = TestApp::new().await;
    record::enqueue(app.client(), "good").await.unwrap();
    let drained = app.drain().await;
    assert_eq!(drained.archived, 1);
    assert!(drained.failures[0].error.contains("there is no State<"), "{drained:?}");
}

#[tokio::test]
async fn only_the_jobs_of_the_registry_run() {
    let app = TestApp::new().await.server(|server| server.registry(Registry::only::<(double,)>().unwrap()));
    double::enqueue(app.client(), 1).await.unwrap();
    blocking::enqueue(app.client(), "/").await.unwrap();
    let drained = app.drain().await;
    assert_eq!((drained.succeeded, drained.requeued), (1, 1));
}

#[tokio::test]
async fn applications_do_not_see_each_other() {
    let (one, other) = (TestApp::new().await, TestApp::new().await);
    double::enqueue(one.client(), 1).await.unwrap();
    assert_eq!(other.tasks().await, []);
}

#[tokio::test]
async fn one_job_runs_through_the_codec_alone() {
    assert_eq!(testing::run(double { n: 4 }).await.unwrap(), 8);
    let mut states = asynq_runtime::job::StateMap::default();
    let seen = std::sync::Arc::new(Seen::default());
    states.insert(seen.clone());
    let ctx = JobContext::detached_with(states);
    let error = testing::run_in(&ctx, record { text: "hopeless".into() }).await.unwrap_err();
    assert_eq!((error.policy(), seen.0.lock().unwrap().len()), (Policy::SkipRetry, 1));
    assert!(testing::run(blocking { path: "/does/not/exist".into() }).await.is_err());
}

mod other_version {
    use super::*;

    /// A job of the same name on the wire with another shape, as an earlier deploy enqueued it.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub(super) struct Doubled {
        pub(super) factor: u8,
        pub(super) number: u64,
    }

    impl Job for Doubled {
        const NAME: &'static str = "double";
        type Output = JobResult;

        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }
}

#[tokio::test]
async fn a_changed_payload_is_requeued_for_a_day_and_archived_with_both_shapes() {
    let app = TestApp::new().await;
    let theirs = other_version::Doubled { factor: 3, number: 7 };
    let task = theirs.enqueue(app.client()).await.unwrap();
    assert_eq!(app.drain().await.requeued, 1);
    let waiting = app.task(&task).await.unwrap();
    assert_eq!((waiting.state, waiting.retried), (TaskState::Retry, 0), "no retry is spent");
    assert_eq!(waiting.payload, task.payload, "the message is untouched");

    app.advance("1d").await;
    let drained = app.drain().await;
    assert_eq!(drained.archived, 1, "{drained:?}");
    let shape = |job: &str| {
        let registry = match job {
            "theirs" => Registry::only::<(other_version::Doubled,)>().unwrap(),
            _ => Registry::only::<(double,)>().unwrap(),
        };
        format!("{:08x}", registry.get("double").unwrap().fingerprint().value)
    };
    let reason = &drained.failures[0].error;
    assert!(reason.contains(&shape("theirs")) && reason.contains(&shape("ours")), "{reason}");
}

#[tokio::test]
async fn another_version_that_knows_the_shape_runs_the_requeued_task() {
    let app = TestApp::new().await;
    other_version::Doubled { factor: 3, number: 7 }.enqueue(app.client()).await.unwrap();
    assert_eq!(app.drain().await.requeued, 1);
    app.advance("5s").await;
    let server = Server::builder("").broker(app.client().broker().clone());
    let running = server.registry(Registry::only::<other_version::Doubled>().unwrap()).build().await.unwrap();
    let running = running.start().await.unwrap();
    soon(running.drained()).await.unwrap();
    assert_eq!(app.tasks().await, []);
    running.shutdown().await.unwrap();
}

#[job(name = "as_json", codec = "json", retry = 3)]
async fn as_json(to: String, copies: u32) -> JobResult {
    let _ = (to, copies);
    Ok(())
}

/// In a rolling deploy, producers of another version write JSON that this version's arguments cannot be read from.
#[tokio::test]
async fn json_that_lacks_a_field_is_requeued_for_a_day_and_archived_with_the_reason() {
    let app = TestApp::new().await;
    let task = app.client().enqueue(RawTask::new("as_json", r#"{"to":"ann"}"#)).await.unwrap();
    assert_eq!(app.drain().await.requeued, 1);
    let waiting = app.task(&task).await.unwrap();
    assert_eq!((waiting.state, waiting.retried), (TaskState::Retry, 0), "no retry is spent");
    assert_eq!(waiting.payload, task.payload, "the message is untouched");
    let reason = waiting.last_error.unwrap();
    assert!(reason.contains("missing field `copies`"), "{reason}");

    app.advance("1d").await;
    let drained = app.drain().await;
    assert_eq!(drained.archived, 1, "{drained:?}");
    let reason = &drained.failures[0].error;
    assert!(reason.contains("missing field `copies`") && reason.contains("for a day"), "{reason}");

    // JSON that no version of the job can have written is not kept waiting.
    app.client().enqueue(RawTask::new("as_json", r#"{"to":"#)).await.unwrap();
    assert_eq!(app.drain().await.archived, 1);
}

#[tokio::test]
async fn undecodable_arguments_are_archived_at_once() {
    let app = TestApp::new().await;
    app.client().enqueue(RawTask::new("double", "{")).await.unwrap();
    let drained = app.drain().await;
    assert_eq!(drained.archived, 1);
    assert!(drained.failures[0].error.contains("it looks like JSON"), "{drained:?}");
}

#[tokio::test]
async fn a_job_written_by_hand_is_registered() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct ByHand {}

    impl Job for ByHand {
        const NAME: &'static str = "by hand";
        type Output = ();
        async fn run(self, _: &JobContext) {}
    }

    let app = TestApp::new().await.server(|server| server.register::<ByHand>());
    ByHand {}.enqueue(app.client()).await.unwrap();
    assert_eq!(app.drain().await.succeeded, 1);
}

#[tokio::test]
async fn a_task_is_awaited_by_the_clock_of_the_application() {
    let (app, seen) = app().await;
    let task = double::enqueue(app.client(), 21).await.unwrap();
    assert_eq!(app.wait(&task, "1m").await, Outcome::Done(42));

    // The task has two retries, whose pauses pass on the clock alone.
    let begun = app.now();
    let failing = record::enqueue(app.client(), "fails").await.unwrap();
    assert_eq!(app.wait(&failing, "1h").await, Outcome::Archived("broken".into()));
    assert!(app.now() - begun > chrono::TimeDelta::seconds(10), "{}", app.now() - begun);
    assert_eq!(seen.0.lock().unwrap().len(), 3);

    let begun = app.now();
    let later = record::enqueue_in(app.client(), "1h", "good").await.unwrap();
    assert_eq!(app.wait(&later, "59m").await, Outcome::StillRunning);
    assert_eq!(app.now() - begun, chrono::TimeDelta::minutes(59));
    assert_eq!(app.wait(&later, "1m").await, Outcome::Gone);
    let revoked = record::job("unwanted").awaited().enqueue(app.client()).await.unwrap();
    assert_eq!(app.wait(&revoked, "1m").await, Outcome::Revoked);
    // `wait` passes the time of a snooze, too.
    let snoozed = record::enqueue(app.client(), "later").await.unwrap();
    assert_eq!(app.wait(&snoozed, "14m").await, Outcome::StillRunning);
    assert_eq!(app.task(&snoozed).await.unwrap().retried, 0);
}

/// With a drain for each second of the thirty days, the wait would not end.
#[tokio::test]
async fn a_wait_steps_over_a_task_in_a_group_that_is_aggregated_late_or_never() {
    for (group, grace) in [("mails", "60d"), ("stranded", "1m")] {
        let app = app().await.0.server(|server| {
            let server = server.registry(Registry::only::<(record,)>().unwrap()).group_grace(grace);
            server.aggregate("mails", |_, _| Ok::<_, BoxError>(RawTask::new("many", "")))
        });
        record::job("grouped").group(group).enqueue(app.client()).await.unwrap();
        let later = record::enqueue_in(app.client(), "60d", "good").await.unwrap();
        let begun = app.now();
        assert_eq!(soon(app.wait(&later, "30d")).await, Outcome::StillRunning);
        assert_eq!(app.now() - begun, chrono::TimeDelta::days(30));
    }
}

#[tokio::test]
async fn a_waiter_is_notified_while_the_application_runs_its_task() {
    let (app, _) = app().await;
    let task = double::enqueue(app.client(), 4).await.unwrap();
    // A broker in memory has no safety net: only the commit can end the wait.
    let (outcome, drained) = soon(async { tokio::join!(task.wait("1h"), app.drain()) }).await;
    assert_eq!((outcome.unwrap(), drained.succeeded), (Outcome::Done(8), 1));
}

#[job(retention = "1h", retry = 1)]
async fn relay(ctx: &JobContext, client: State<Client>, n: u64) -> JobResult<u32> {
    double::enqueue(&ctx.client()?, n).await?;
    double::enqueue(&client, n).await?;
    if ctx.attempt() == 1 { Err("once more".into()) } else { Ok(ctx.attempt()) }
}

#[tokio::test]
async fn a_job_reaches_its_own_broker_and_knows_which_attempt_it_is() {
    let (app, _) = app().await;
    let task = relay::enqueue(app.client(), 4).await.unwrap();
    assert_eq!(app.wait(&task, "1h").await, Outcome::Done(2));
    let doubled = app.tasks().await.into_iter().filter(|task| task.r#type == "double").count();
    assert_eq!(doubled, 4, "two of each attempt");
    let error = JobContext::detached().client().unwrap_err();
    assert!(error.to_string().contains("detached"), "{error}");
}

#[job]
async fn import(ctx: &JobContext, cursor: Checkpoint<u64>, rows: u64) -> JobResult {
    let begun_at = cursor.get().unwrap_or(0);
    cursor.save(rows / 2).await?;
    match ctx.attempt() {
        1 => Err(JobError::fail(format!("begun at {begun_at}"))),
        _ => Err(JobError::skip_retry(format!("went on at {begun_at}"))),
    }
}

#[tokio::test]
async fn a_checkpoint_is_kept_for_the_next_attempt() {
    let app = TestApp::new().await;
    import::enqueue(app.client(), 8).await.unwrap();
    assert_eq!(app.drain().await.failures[0].error, "begun at 0");
    app.advance("1h").await;
    assert_eq!(app.drain().await.failures[0].error, "went on at 4");
}

#[job(unique_by = "doc", debounce = "30s", debounce_max = "1m", retention = "1h")]
async fn index(doc: u64, text: String) -> JobResult<String> {
    Ok(format!("{doc} {text}"))
}

#[tokio::test]
async fn a_debounced_task_runs_once_with_the_last_arguments_when_it_is_quiet() {
    let app = TestApp::new().await;
    let first = index::enqueue(app.client(), 7, "draft").await.unwrap();
    assert_eq!((first.state, first.replaced()), (TaskState::Scheduled, None));
    app.advance("20s").await;
    let second = index::enqueue(app.client(), 7, "better").await.unwrap();
    assert_eq!((second.replaced(), second.state), (Some(&first.id), TaskState::Scheduled));
    index::enqueue(app.client(), 8, "other").await.unwrap();
    app.advance("20s").await;
    assert_eq!(app.drain().await.succeeded, 0, "it was not quiet for 30 s");
    let many = [index::job(7, "nearly"), index::job(7, "final")].map(PreparedTask::from);
    let outcomes = app.client().enqueue_many(many).await.unwrap();
    assert!(outcomes.into_iter().all(|outcome| outcome.is_ok_and(|task| task.replaced && task.id == first.id)));
    app.advance("20s").await;
    assert_eq!(app.drain().await.succeeded, 2, "a minute after the first, whatever came since");
    assert_eq!(app.client().result::<index>(&first.id).await.unwrap(), "7 final");
    assert_eq!(index::enqueue(app.client(), 7, "again").await.unwrap().replaced(), None);
}

/// The retry is due and pending when the next enqueue comes.
#[tokio::test]
async fn a_burst_begins_anew_after_a_failed_attempt() {
    #[job(unique_by = "doc", debounce = "30s", debounce_max = "1m")]
    async fn publish(doc: u64, text: String) -> JobResult {
        Err(JobError::fail(format!("{doc} {text}")))
    }
    let app = TestApp::new().await;
    publish::enqueue(app.client(), 7, "draft").await.unwrap();
    app.advance("31s").await;
    assert_eq!(app.drain().await.retried, 1);
    app.advance("5m").await;
    let queues = [QueueName::new("default").unwrap()];
    assert_eq!(app.client().broker().forward(&queues, RetryOrder::Last).await.unwrap().moved, 1);
    let next = publish::enqueue(app.client(), 7, "better").await.unwrap();
    assert_eq!((next.replaced().is_some(), next.state), (true, TaskState::Scheduled), "not at once");
}

#[job(unique = "1h", unique_by = "doc")]
async fn render(doc: u64, size: u32) -> JobResult {
    Err(JobError::skip_retry(format!("{doc} at {size}")))
}

#[tokio::test]
async fn a_unique_task_that_waits_takes_new_arguments_if_the_caller_allows_it() {
    let app = TestApp::new().await;
    render::enqueue_in(app.client(), "10m", 1, 80).await.unwrap();
    assert!(render::enqueue(app.client(), 1, 90).await.unwrap_err().is_duplicate());
    let sooner = render::job(1, 100).or_replace().enqueue(app.client()).await.unwrap();
    assert!(sooner.replaced().is_some());
    assert_eq!(app.drain().await.failures[0].error, "1 at 100");
}

#[tokio::test]
async fn on_archived_runs_for_each_archived_task_of_a_job() {
    let (app, seen) = app().await;
    breaks::enqueue(app.client(), 7).await.unwrap();
    assert_eq!(app.drain().await.retried, 1);
    assert_eq!(seen.0.lock().unwrap().len(), 0);
    app.advance("2m").await;
    assert_eq!(app.drain().await.archived, 1);
    assert_eq!(*seen.0.lock().unwrap(), ["gave 7 up: 7 is too much"]);
}

/// A drain that is dropped is the death of its worker.
#[tokio::test]
async fn an_attempt_that_is_cut_short_runs_again_when_its_lease_has_passed() {
    #[job(retention = "1d")]
    async fn cut_short(ctx: &JobContext, begun: State<std::sync::Arc<tokio::sync::Notify>>) -> JobResult<u32> {
        begun.notify_one();
        if ctx.crashes() == 0 {
            std::future::pending::<()>().await;
        }
        Ok(ctx.crashes())
    }
    let begun = std::sync::Arc::new(tokio::sync::Notify::new());
    let app = TestApp::new().await.state(std::sync::Arc::clone(&begun));
    let task = cut_short::enqueue(app.client()).await.unwrap();
    tokio::select! {
        _ = app.drain() => panic!("the job does not end"),
        () = begun.notified() => {}
    }
    app.advance("1h").await;
    assert_eq!(app.drain().await.succeeded, 1);
    assert_eq!(task.result().await.unwrap(), 1);
}

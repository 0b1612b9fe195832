//! A server on this broker: the effects of one bad task on itself, and none on its neighbours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use asynq_runtime::{
    Client, Registry, State,
    prelude::*,
    task::{Ending, Extra, TaskState, Unknown},
};
use asynq_tests::{
    Build as _, Store as _, default_queue, eventually,
    server::{Log, logged, server, start},
    soon, task, task_id,
};
use tokio::sync::Semaphore;

use super::Fixture;

type Gate = Arc<Semaphore>;

#[job]
async fn note(log: State<Log>, text: String) -> JobResult {
    log.send(text)?;
    Ok(())
}

#[job(unique = "1h", unique_by = "to")]
async fn greet(log: State<Log>, to: String, subject: String) -> JobResult {
    log.send(format!("{to}: {subject}"))?;
    Ok(())
}

#[job(max_crashes = 1, on_archive = given_up)]
async fn delicate(log: State<Log>) -> JobResult {
    log.send("delicate ran".into())?;
    Ok(())
}

async fn given_up(task: ArchivedTask<delicate>) {
    let log: State<Log> = task.ctx.state().unwrap();
    log.send(format!("{} given up: {}", task.ctx.id(), task.error)).unwrap();
}

#[job]
async fn waits(log: State<Log>, gate: State<Gate>, ctx: &JobContext) -> JobResult {
    log.send(ctx.id().to_string())?;
    gate.acquire().await?.forget();
    Ok(())
}

#[job]
async fn stumbles(log: State<Log>, ctx: &JobContext) -> JobResult {
    log.send(ctx.id().to_string())?;
    if ctx.retried() == 0 { Err("once".into()) } else { Ok(()) }
}

/// A retry does not wait behind tasks that were enqueued after its first attempt.
#[tokio::test]
async fn a_server_that_puts_retries_first_runs_them_before_all_that_wait() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    stumbles::job().task_id("stumbles").enqueue(&client).await.unwrap();
    for id in ["w1", "w2", "w3"] {
        waits::job().task_id(id).enqueue(&client).await.unwrap();
    }
    let (builder, mut log) = server::<(stumbles, waits)>(&t.shared());
    let gate = Gate::new(Semaphore::new(0));
    let builder = builder.state(gate.clone()).concurrency(1).retries_first().backoff(|_, _, _| Duration::ZERO);
    let _running = start(builder).await;
    let mut ran = vec![logged(&mut log).await];
    while ran.last().unwrap() != "w1" {
        ran.push(logged(&mut log).await);
    }
    eventually("the retry is due and moved, or over", async || {
        t.info("stumbles").await.is_none_or(|task| task.state == TaskState::Pending).then_some(())
    })
    .await;
    gate.add_permits(3);
    while ran.len() < 5 {
        ran.push(logged(&mut log).await);
    }
    let place = |id: &str| ran.iter().rposition(|ran| ran == id).unwrap();
    assert!(place("stumbles") < place("w2"), "{ran:?}");
}

#[tokio::test]
async fn bytes_that_are_not_a_message_are_archived_and_the_neighbours_run() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    for id in ["before", "bad", "after"] {
        note::job(id).task_id(id).enqueue(&client).await.unwrap();
    }
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xfe not a message");
    let (builder, mut log) = server::<(note,)>(&t.shared());
    let running = start(builder.concurrency(1)).await;
    assert_eq!((logged(&mut log).await, logged(&mut log).await), ("before".into(), "after".into()));
    soon(running.signals().settled.reached(3)).await;
    let bad = t.info("bad").await.unwrap();
    assert_eq!((bad.state, &bad.payload[..]), (TaskState::Archived, &b"\xff\xfe not a message"[..]));
    let reason = bad.last_error.unwrap();
    assert!(reason.starts_with("undecodable task message (16 bytes)"), "{reason}");
    let stats = t.broker().queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.size, stats.active), (1, 0), "the neighbours are done");
}

#[tokio::test]
async fn arguments_of_another_shape_wait_for_a_day_and_are_archived_with_both_shapes() {
    let t = Fixture::real_time().await;
    let theirs = |id: &str| {
        let mut new = task(id).with_payload(&b"\x01\xde\xad\xbe\xef\x05"[..]);
        new.message.r#type = "note".into();
        new
    };
    t.enqueue(theirs("new")).await;
    let yesterday = t.now().timestamp_millis() - 24 * 3600 * 1000;
    let unknown = Some(Unknown { since_ms: yesterday, times: 150, retried: Some(0) });
    t.enqueue(theirs("old").with_extra(Extra { unknown, ..Extra::default() })).await;
    let (builder, mut log) = server::<(note,)>(&t.shared());
    let running = start(builder).await;
    soon(running.signals().settled.reached(2)).await;

    let new = t.info("new").await.unwrap();
    assert_eq!((new.state, new.retried), (TaskState::Retry, 0));
    assert_eq!(&new.payload[..], b"\x01\xde\xad\xbe\xef\x05", "the arguments are untouched");
    let old = t.info("old").await.unwrap();
    assert_eq!((old.state, old.retried), (TaskState::Archived, 0));
    let ours = format!("{:08x}", Registry::only::<(note,)>().unwrap().get("note").unwrap().fingerprint().value);
    let (waits, given_up) = (new.last_error.unwrap(), old.last_error.unwrap());
    for part in ["efbeadde", &ours, "str"] {
        assert!(waits.contains(part) && given_up.contains(part), "{waits}\n{given_up}\n  should contain {part}");
    }
    assert!(given_up.contains("no worker has known it for a day"), "{given_up}");
    assert!(log.try_recv().is_err(), "neither ran");
}

#[tokio::test]
async fn unique_by_compares_the_named_arguments_alone_and_the_end_frees_the_lock() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    let first = greet::enqueue(&client, "ann", "Hi").await.unwrap();
    let refused = greet::enqueue(&client, "ann", "another subject").await.unwrap_err();
    assert!(refused.is_duplicate() && !refused.is_id_conflict() && !refused.is_ambiguous(), "{refused}");
    assert_eq!(refused.existing_id(), Some(&first.id));
    greet::enqueue(&client, "bob", "Hi").await.unwrap();
    let (builder, mut log) = server::<(greet,)>(&t.shared());
    let running = start(builder.concurrency(1)).await;
    assert_eq!((logged(&mut log).await, logged(&mut log).await), ("ann: Hi".into(), "bob: Hi".into()));
    soon(running.signals().settled.reached(2)).await;
    greet::enqueue(&client, "ann", "another subject").await.unwrap();
    assert_eq!(logged(&mut log).await, "ann: another subject");
}

#[tokio::test]
async fn a_jobs_own_max_crashes_limits_the_crashes_of_its_tasks() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    delicate::job().task_id("delicate").enqueue(&client).await.unwrap();
    note::job("note ran").task_id("note").enqueue(&client).await.unwrap();
    assert_eq!(t.take(9).await.len(), 2);
    t.let_leases_pass();
    assert_eq!(t.recover().await.len(), 2);
    let (builder, mut log) = server::<(delicate, note)>(&t.shared());
    let running = start(builder).await;
    let mut lines = [logged(&mut log).await, logged(&mut log).await];
    lines.sort();
    // The job's archive handler is called although the job did not run.
    assert_eq!(lines, ["delicate given up: worker died 1 times while this ran", "note ran"]);
    soon(running.signals().settled.reached(2)).await;
    let delicate = t.info("delicate").await.unwrap();
    assert_eq!((delicate.state, delicate.retried), (TaskState::Archived, 0));
    assert_eq!(delicate.last_error.as_deref(), Some("worker died 1 times while this ran"));
    assert!(log.try_recv().is_err(), "it was not run again");
}

#[tokio::test]
async fn a_poison_task_whose_hooks_met_two_deaths_is_archived_without_them() {
    for (crashes, is_called) in [(2, true), (3, false)] {
        let t = Fixture::start().await;
        let client = Client::new(t.shared());
        delicate::job().task_id("delicate").enqueue(&client).await.unwrap();
        for _ in 0..crashes {
            t.take_one().await;
            t.let_leases_pass();
            assert_eq!(t.recover().await.len(), 1);
        }
        let (builder, mut log) = server::<(delicate,)>(&t.shared());
        let called = Arc::new(AtomicBool::new(false));
        let hook = Arc::clone(&called);
        let running = start(builder.on_archive(move |_| {
            hook.store(true, SeqCst);
            async {}
        }))
        .await;
        soon(running.signals().settled.reached(1)).await;
        let delicate = t.info("delicate").await.unwrap();
        assert_eq!(delicate.last_error, Some(format!("worker died {crashes} times while this ran")));
        assert_eq!((log.try_recv().is_ok(), called.load(SeqCst)), (is_called, is_called), "{crashes} deaths");
    }
}

/// A newer task has the place of the replaced one, so no hook may undo what the job began.
#[tokio::test]
async fn a_replaced_task_whose_worker_died_is_deleted_and_no_hook_is_called() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    let again = || delicate::job().unique("1h").or_replace();
    let older = again().enqueue(&client).await.unwrap();
    t.take_one().await;
    again().enqueue(&client).await.unwrap();
    t.let_leases_pass();
    assert_eq!(t.recover().await, [older.id.as_str()]);
    let (builder, mut log) = server::<(delicate,)>(&t.shared());
    let running = start(builder).await;
    soon(running.signals().settled.reached(2)).await;
    assert_eq!(log.try_recv().unwrap(), "delicate ran", "the newer one");
    assert!(log.try_recv().is_err(), "nothing else");
    assert!(t.info(older.id.as_str()).await.is_none());
    assert_eq!(t.broker().queue_stats(&default_queue()).await.unwrap().failed, 0);
}

#[tokio::test]
async fn a_server_runs_one_quarantined_task_at_a_time_beside_innocents() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    for id in ["a", "b", "c"] {
        waits::job().task_id(id).enqueue(&client).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(t.take(9).await.len(), 3);
        t.let_leases_pass();
        assert_eq!(t.recover().await.len(), 3);
    }
    waits::job().task_id("innocent").enqueue(&client).await.unwrap();
    let gate = Gate::new(Semaphore::new(0));
    let (builder, mut log) = server::<(waits,)>(&t.shared());
    let running = start(builder.state(gate.clone())).await;
    let mut first = [logged(&mut log).await, logged(&mut log).await];
    first.sort();
    assert_eq!(first, ["a", "innocent"]);
    let seen = t.snapshot().await;
    assert_eq!(seen.stats.active, 2, "no worker has the other quarantined tasks");
    assert_eq!((seen.ids(TaskState::Pending), running.running()), (vec!["b", "c"], 2));
    gate.add_permits(2);
    assert_eq!(logged(&mut log).await, "b");
    assert!(log.try_recv().is_err(), "not both of them");
    gate.add_permits(1);
    assert_eq!(logged(&mut log).await, "c");
    gate.add_permits(1);
    soon(running.signals().settled.reached(4)).await;
    assert!(t.snapshot().await.is_empty());
}

/// How long a server waits for a notification before it asks the broker by itself.
const SAFETY_NET: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_paused_queue_keeps_its_tasks_and_a_resume_wakes_the_server() {
    // The notification brings a task that comes before the end of the first wait. If a slow machine leaves that open, the next
    // server may show it; without notifications no server ever does.
    eventually("a resume wakes the server before its safety net", async || {
        let t = Fixture::real_time().await;
        let client = Client::new(t.shared());
        t.broker().pause(&default_queue()).await.unwrap();
        let (builder, mut log) = server::<(note,)>(&t.shared());
        let began = Instant::now();
        let running = start(builder).await;
        note::job("paused").task_id("p").enqueue(&client).await.unwrap();
        soon(running.signals().idle.reached(1)).await;
        assert_eq!(t.info("p").await.unwrap().state, TaskState::Pending);
        assert!(log.try_recv().is_err());
        let elsewhere = t.another_broker().await;
        elsewhere.resume(&default_queue()).await.unwrap();
        assert_eq!(logged(&mut log).await, "paused");
        (began.elapsed() < SAFETY_NET).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_whose_deadline_has_passed_is_archived_without_running() {
    let t = Fixture::start().await;
    note::job("late")
        .task_id("late")
        .deadline(t.now() + Duration::from_secs(60))
        .enqueue(&Client::new(t.shared()))
        .await
        .unwrap();
    t.advance(Duration::from_secs(62));
    let (builder, mut log) = server::<(note,)>(&t.shared());
    let running = start(builder).await;
    soon(running.signals().settled.reached(1)).await;
    let late = t.info("late").await.unwrap();
    assert_eq!((late.state, late.retried), (TaskState::Archived, 0));
    assert_eq!(late.last_error.as_deref(), Some("deadline passed"));
    assert!(log.try_recv().is_err());
}

/// Go's tools leave the expiry that has passed, and the mark of the earlier end.
#[tokio::test]
async fn a_task_that_had_expired_runs_when_a_go_tool_says_so() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let late = note::job("late").task_id("late").expires(t.now() + Duration::from_secs(60));
    late.enqueue(&Client::new(t.shared())).await.unwrap();
    t.advance(Duration::from_secs(62));
    let (builder, mut log) = server::<(note,)>(&t.shared());
    let running = start(builder).await;
    soon(running.signals().settled.reached(1)).await;
    assert_eq!(t.info("late").await.unwrap().ending, Ending::Expired);
    assert!(log.try_recv().is_err());
    go.run("archived", "late");
    assert_eq!(logged(&mut log).await, "late");
}

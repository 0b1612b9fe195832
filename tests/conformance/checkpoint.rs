//! Contract `Settle`: the checkpoint that a run saves for the next run (docs/design/fence.md#extend-and-write).

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, Broker, BrokerErrorKind, BulkAction, Changed, PayloadEdit, Run, Settled, Wanted},
    task::Extra,
};
use asynq_tests::{
    Build as _, Store as _, archive, complete, default_queue, done, queue, requeue, retry, snooze, task, task_id,
};
use bytes::Bytes;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

async fn save(t: &Fixture, run: &Run, value: &'static str) -> Settled {
    t.broker().save_checkpoint(&run.key, &Bytes::from_static(value.as_bytes())).await.unwrap()
}

async fn saved_in(broker: &dyn Broker, run: &Run) -> Option<String> {
    broker.checkpoint(&run.key).await.unwrap().map(|bytes| String::from_utf8(bytes.into()).unwrap())
}

async fn saved(t: &Fixture, run: &Run) -> Option<String> {
    saved_in(t.broker(), run).await
}

/// Starts a run of the task `t1` that has saved "1".
async fn begun() -> (Fixture, Run) {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    assert_eq!(saved(&t, &run).await, None);
    assert_eq!(save(&t, &run, "0").await, Settled::Ok);
    assert_eq!(save(&t, &run, "1").await, Settled::Ok);
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "the last one counts");
    (t, run)
}

#[tokio::test]
async fn the_checkpoint_of_a_run_is_there_for_the_next_one_however_it_ended() {
    let (t, run) = begun().await;
    t.settle(&run, requeue()).await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "requeued");
    t.settle(&run, retry(SECOND, "boom")).await;
    t.advance(2 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "retried");
    t.settle(&run, snooze(SECOND, Extra { max_crashes: Some(9), ..Extra::default() })).await;
    t.advance(2 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "snoozed");
    t.let_leases_pass();
    t.recover().await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "its worker died");
    t.settle(&run, archive("fatal")).await;
    t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Run).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "archived, and run by a person");
}

#[tokio::test]
async fn a_run_that_has_lost_its_task_neither_saves_nor_reads() {
    let (t, late) = begun().await;
    t.let_leases_pass();
    t.recover().await;
    for someone_runs_it in [false, true] {
        if someone_runs_it {
            let rightful = t.take_one().await;
            assert_eq!(save(&t, &rightful, "2").await, Settled::Ok);
        }
        let before = t.store.dump();
        assert_eq!(save(&t, &late, "stale").await, Settled::Fenced);
        let refused = t.broker().checkpoint(&late.key).await.unwrap_err();
        assert_eq!(refused.kind(), BrokerErrorKind::RunEnded);
        assert_eq!(t.store.dump(), before, "nothing changes");
    }
}

#[tokio::test]
async fn it_ends_with_a_success() {
    for action in [done(), complete("42"), Action::Revoke { extra: Extra::default() }] {
        let (t, run) = begun().await;
        let is_gone = action == done();
        t.settle(&run, action).await;
        assert_eq!(save(&t, &run, "late").await, if is_gone { Settled::Gone } else { Settled::Fenced });
        if is_gone {
            t.enqueue(task("t1")).await;
        } else {
            t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Run).await.unwrap();
        }
        let run = t.take_one().await;
        assert_eq!(saved(&t, &run).await, None);
    }
}

#[tokio::test]
async fn another_payload_begins_without_it() {
    let (t, run) = begun().await;
    t.settle(&run, retry(SECOND, "boom")).await;
    let edit = PayloadEdit { payload: Bytes::from_static(b"new"), expected: None, unique_key: None };
    assert_eq!(t.broker().edit_payload(&default_queue(), &task_id("t1"), &edit).await.unwrap(), Changed::Done);
    t.advance(2 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await, None);
}

#[tokio::test]
async fn it_moves_to_another_queue_with_its_task() {
    let (t, run) = begun().await;
    t.settle(&run, requeue()).await;
    let moved = t.broker().move_task(&default_queue(), &task_id("t1"), &queue("low")).await.unwrap();
    assert_eq!(moved, Changed::Done);
    let runs = t.broker().dequeue(t.member(), &[Wanted { queue: queue("low"), n: 1 }]).await.unwrap();
    assert_eq!(saved(&t, &runs[0]).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn one_of_a_mebibyte_is_read_as_it_was_saved() {
    let (t, run) = begun().await;
    let large = Bytes::from(vec![0xfe; 1 << 20]);
    assert_eq!(t.broker().save_checkpoint(&run.key, &large).await.unwrap(), Settled::Ok);
    assert_eq!(t.broker().checkpoint(&run.key).await.unwrap(), Some(large));
}

#[tokio::test]
async fn go_workers_leave_it_alone_and_take_it_away_with_the_task() {
    let (t, _) = begun().await;
    let Some(go) = t.go() else { return };
    go.requeue("t1");
    go.dequeue(t.now().timestamp() + 30);
    go.recover("t1", t.now().timestamp());
    go.forward("t1", t.now().timestamp_nanos_opt().unwrap());
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await.as_deref(), Some("1"), "requeued, taken, retried and forwarded by Go");
    let mut message = run.message.clone().unwrap();
    t.settle(&run, requeue()).await;
    go.dequeue(t.now().timestamp() + 30);
    let now = t.now().timestamp();
    message.completed_at = now;
    go.complete(&message, now, now + 60);
    t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Run).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await, None, "it has got to its end with Go");
    assert_eq!(save(&t, &run, "2").await, Settled::Ok);
    t.settle(&run, requeue()).await;
    go.dequeue(t.now().timestamp() + 30);
    go.done("t1");
    t.enqueue(task("t1")).await;
    let run = t.take_one().await;
    assert_eq!(saved(&t, &run).await, None, "Go deletes the hash");
}

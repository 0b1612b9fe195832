//! Contract `Maintain::recover`: a crash is not a failure. The task is requeued at once, quarantined.

use std::time::Duration;

use asynq_runtime::{
    broker::{Recovered, Run, Settled, Wanted},
    task::{Extra, Progress, TaskState},
};
use asynq_tests::{
    Build as _, Entry, Need, Seeded as _, archive, complete, default_queue, done, queue, requeue, retry, snooze, task,
};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

/// Lets the worker of `t`'s only active task die, and takes the task again.
async fn crash(t: &Fixture) -> Run {
    t.let_leases_pass();
    assert_eq!(t.recover().await.len(), 1);
    t.take_one().await
}

#[tokio::test]
async fn a_task_whose_worker_died_is_pending_again_and_spent_no_retry() {
    let t = Fixture::start().await;
    let new = task("t1");
    t.start_run(new.clone()).await;
    t.let_leases_pass();

    let recovered = t.broker().recover(&[default_queue()]).await.unwrap();

    assert_eq!(recovered, Recovered { tasks: vec![(default_queue(), new.id.clone())], more: false });
    let seen = t.snapshot().await;
    assert_eq!(seen.pending, [Entry::of(&new).crashes(1)], "`retried` and the message stay");
    assert_eq!(seen.len(), 1);
    assert_eq!((seen.stats.processed, seen.stats.failed), (0, 0));
}

#[tokio::test]
async fn a_task_is_left_alone_until_its_lease_has_passed() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.advance(t.broker().lease() - 2 * SECOND);
    assert_eq!(t.broker().recover(&[default_queue()]).await.unwrap(), Recovered::default());
    assert_eq!(t.snapshot().await.stats.active, 1);
}

#[tokio::test]
async fn a_task_is_back_within_two_seconds_of_its_lease() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.advance(t.broker().lease() + 2 * SECOND);
    assert_eq!(t.recover().await, ["t1"]);
}

#[tokio::test]
async fn a_recovered_task_goes_to_the_head() {
    let t = Fixture::start().await;
    t.seed_active("first").await;
    t.seed_pending(&["second"]).await;
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(t.drain().await, ["first", "second"]);
}

#[tokio::test]
async fn recovered_tasks_are_in_the_order_in_which_they_were_taken() {
    let t = Fixture::start().await;
    // In an order that is neither that of ids nor that of enqueues; of one dequeue and of several.
    t.seed_scheduled("d", SECOND).await;
    t.seed_pending(&["c", "e"]).await;
    t.advance(SECOND);
    t.forward().await;
    t.seed_pending(&["b", "a"]).await;
    t.take(4).await;
    t.take_one().await;
    t.seed_pending(&["waiting"]).await;
    t.let_leases_pass();

    let recovered = t.recover().await;

    let taken = ["c", "e", "d", "b", "a"];
    assert_eq!(recovered, taken);
    assert_eq!(t.snapshot().await.ids(TaskState::Pending), [&taken[..], &["waiting"]].concat());
    assert_eq!(t.drain().await, [&taken[..], &["waiting"]].concat());
}

#[tokio::test]
async fn a_task_is_recovered_once() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    assert!(t.recover().await.is_empty());
    assert_eq!(t.snapshot().await.pending[0].crashes, 1);
}

#[tokio::test]
async fn dequeue_says_how_often_a_worker_died() {
    let t = Fixture::start().await;
    assert_eq!(t.seed_active("t1").await.crashes, 0);
    for crashes in 1..=4 {
        assert_eq!(crash(&t).await.crashes, crashes);
        assert_eq!(t.snapshot().await.active[0].crashes, crashes);
    }
}

#[tokio::test]
async fn a_quarantined_task_keeps_its_own_limit() {
    let t = Fixture::start().await;
    let extra = Extra { max_crashes: Some(1), ..Extra::default() };
    t.start_run(task("t1").with_extra(extra.clone())).await;
    let quarantined = crash(&t).await;
    assert_eq!((quarantined.crashes, quarantined.extra), (1, extra));
}

#[tokio::test]
async fn neighbours_in_the_same_dequeue_have_their_own_count() {
    let t = Fixture::start().await;
    t.seed_active("quarantined").await;
    t.let_leases_pass();
    t.recover().await;
    t.seed_pending(&["innocent"]).await;
    let runs = t.take(2).await;
    let counts: Vec<_> = runs.iter().map(|run| (run.key.id.as_str(), run.crashes)).collect();
    assert_eq!(counts, [("quarantined", 1), ("innocent", 0)]);
}

#[tokio::test]
async fn a_retry_ends_the_quarantine() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    let quarantined = crash(&t).await;
    t.settle(&quarantined, retry(Duration::ZERO, "boom")).await;
    assert_eq!(t.snapshot().await.retry[0].crashes, 0);
    t.advance(SECOND);
    t.forward().await;
    assert_eq!(t.take_one().await.crashes, 0);
}

#[tokio::test]
async fn a_snooze_clears_the_suspicion() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    let quarantined = crash(&t).await;
    t.settle(&quarantined, snooze(Duration::ZERO, Extra::default())).await;
    assert_eq!(t.snapshot().await.retry[0].crashes, 0);
}

#[tokio::test]
async fn success_clears_the_suspicion() {
    let t = Fixture::start().await;
    t.start_run(task("t1").with_retention(60)).await;
    let quarantined = crash(&t).await;
    t.settle(&quarantined, complete("42")).await;
    assert_eq!(t.snapshot().await.completed[0].crashes, 0);
}

#[tokio::test]
async fn the_archive_clears_the_suspicion() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    let quarantined = crash(&t).await;
    t.settle(&quarantined, archive("worker died")).await;
    assert_eq!(t.snapshot().await.archived[0].crashes, 0);
}

#[tokio::test]
async fn a_requeue_keeps_the_suspicion() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    let quarantined = crash(&t).await;
    t.settle(&quarantined, requeue()).await;
    assert_eq!(t.take_one().await.crashes, 1);
}

#[tokio::test]
async fn recovery_goes_in_slices_of_a_hundred_and_says_whether_there_is_more() {
    let t = Fixture::start().await;
    assert!(t.broker().enqueue((0..150).map(|i| task(&format!("t{i}"))).collect()).await.iter().all(Result::is_ok));
    t.take_exactly(150).await;
    t.let_leases_pass();

    let first = t.broker().recover(&[default_queue()]).await.unwrap();
    assert_eq!((first.tasks.len(), first.more), (100, true));
    let second = t.broker().recover(&[default_queue()]).await.unwrap();
    assert_eq!((second.tasks.len(), second.more), (50, false));
    assert_eq!(t.snapshot().await.stats.pending, 150);
}

#[tokio::test]
async fn every_given_queue_is_recovered() {
    let t = Fixture::start().await;
    let names = ["a", "b", "c"];
    for name in names {
        t.start_run(task("t1").in_queue(name)).await;
    }
    t.let_leases_pass();
    let recovered = t.broker().recover(&names.map(queue)).await.unwrap();
    let mut found: Vec<_> = recovered.tasks.iter().map(|(queue, _)| queue.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, names);
}

#[tokio::test]
async fn a_paused_queue_is_recovered_all_the_same() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.broker().pause(&default_queue()).await.unwrap();
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
}

#[tokio::test]
async fn a_written_result_and_progress_do_not_disturb_recovery() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.broker().write_result(&run.key, &bytes::Bytes::from_static(b"1")).await.unwrap();
    t.broker().write_progress(&run.key, &Progress::new(0.9, "nearly")).await.unwrap();
    let again = crash(&t).await;
    assert_eq!(again.crashes, 1);
    assert_eq!(t.snapshot().await.active[0].progress, None);
}

#[tokio::test]
async fn a_recovered_task_can_be_settled_by_its_new_worker_alone() {
    let t = Fixture::start().await;
    let dead = t.seed_active("t1").await;
    let other = t.another_member(2).await;
    t.let_leases_pass();
    t.recover().await;
    let rightful = t.take_one_as(&other).await;
    assert_eq!(t.settle(&dead, done()).await, Settled::Fenced);
    assert_eq!(t.settle(&rightful, done()).await, Settled::Ok);
}

#[tokio::test]
async fn a_server_that_left_properly_leaves_nothing_to_recover() {
    let t = Fixture::start().await;
    let other = t.another_member(2).await;
    t.seed_pending(&["t1"]).await;
    let run = t.take_one_as(&other).await;
    t.settle(&run, requeue()).await;
    t.broker().leave(&other).await.unwrap();
    assert!(t.recover().await.is_empty());
    assert_eq!(t.take_one().await.crashes, 0);
}

#[tokio::test]
async fn a_dead_servers_tasks_come_back_at_once() {
    let t = Fixture::start().await;
    if t.lacks(Need::LivenessLock) {
        return;
    }
    let dying = t.another_broker().await;
    let member = t.member_of(&*dying, 2).await;
    t.seed_pending(&["theirs", "ours"]).await;
    let wanted = [Wanted { queue: default_queue(), n: 1 }];
    assert_eq!(dying.dequeue(&member, &wanted).await.unwrap()[0].key.id, "theirs");
    t.take_one().await;
    assert!(t.recover().await.is_empty(), "its lock is held");

    dying.close().await;
    drop(dying);

    assert_eq!(t.recover().await, ["theirs"], "no lease had to pass");
    assert_eq!(t.take_one().await.crashes, 1);
}

#[tokio::test]
async fn a_quarantined_task_that_cannot_be_read_is_recovered_too() {
    use asynq_tests::Store as _;
    // The second and third one end inside of a field.
    for bytes in [&b"\xff\xff\xff"[..], b"\x0a", b"\x0a\x09four"] {
        let t = Fixture::start().await;
        let run = t.seed_active("bad").await;
        t.seed_pending(&["good"]).await;
        t.take_one().await;
        t.store.overwrite_message(&default_queue(), &run.key.id, bytes);
        t.let_leases_pass();
        let mut back = t.recover().await;
        back.sort();
        assert_eq!(back, ["bad", "good"]);
        let runs = t.take(2).await;
        assert_eq!(runs.iter().filter(|run| run.message.is_err()).count(), 1);
        assert!(runs.iter().all(|run| run.crashes == 1));
        let good = runs.iter().find(|run| run.message.is_ok()).unwrap();
        assert_eq!(good.text().id, "good");
    }
}

#[tokio::test]
async fn pending_and_waiting_tasks_are_none_of_recoverys_business() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.let_leases_pass();
    t.recover().await;
    let seen = t.snapshot().await;
    assert_eq!(seen.ids(TaskState::Pending), ["active", "pending"]);
    assert_eq!(seen.len(), 6);
}

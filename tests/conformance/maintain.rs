//! Contract `Maintain`: leases are extended and expired tasks deleted, always in slices.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{ArchivePolicy, Forwarded, RetryOrder, Settled, Swept, Wanted},
    clock::ManualClock,
    task::TaskState,
};
use asynq_tests::{
    Build as _, Need, Seeded as _, Store as _, archive, complete, default_queue, done, queue, retry, task, task_id,
};
use chrono::TimeDelta;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn an_extended_run_keeps_its_task() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    for _ in 0..5 {
        t.advance(t.broker().lease() / 2);
        assert_eq!(t.extend(&run.key).await, Settled::Ok);
        assert!(t.recover().await.is_empty());
    }
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
}

#[tokio::test]
async fn extending_gives_a_full_lease_from_now() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.advance(5 * SECOND);
    t.extend(&run.key).await;
    let info = t.broker().task(&default_queue(), &run.key.id).await.unwrap().unwrap();
    let lease = info.lease_until.unwrap() - t.now();
    let full = TimeDelta::from_std(t.broker().lease()).unwrap();
    assert!(lease <= full && lease > full - TimeDelta::seconds(1), "{lease}");
}

#[tokio::test]
async fn extending_answers_each_run_in_order() {
    let t = Fixture::start().await;
    t.seed_pending(&["lost", "ended", "mine"]).await;
    t.enqueue(task("other").in_queue("low")).await;
    let wanted = ["default", "low"].map(|name| asynq_runtime::broker::Wanted { queue: queue(name), n: 5 });
    let runs = t.broker().dequeue(t.member(), &wanted).await.unwrap();
    let [lost, ended, mine, other] = &runs[..] else { panic!("{runs:?}") };
    t.settle(ended, done()).await;
    t.let_leases_pass();
    t.extend(&mine.key).await;
    t.extend(&other.key).await;
    assert_eq!(t.recover().await, ["lost"]);
    t.take_one().await;

    let keys = [&mine.key, &lost.key, &other.key, &ended.key].map(Clone::clone);
    let answers: Vec<_> = t.broker().extend(&keys).await.into_iter().map(Result::unwrap).collect();

    assert_eq!(answers, [Settled::Ok, Settled::Fenced, Settled::Ok, Settled::Gone]);
}

#[tokio::test]
async fn extending_nothing_answers_nothing() {
    let t = Fixture::start().await;
    assert!(t.broker().extend(&[]).await.is_empty());
}

#[tokio::test]
async fn a_lapsed_lease_that_no_server_took_can_be_renewed() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.let_leases_pass();
    assert_eq!(t.extend(&run.key).await, Settled::Ok);
    assert!(t.recover().await.is_empty());
}

#[tokio::test]
async fn a_hundred_and_fifty_runs_can_be_extended_at_once() {
    let t = Fixture::start().await;
    assert!(t.broker().enqueue((0..150).map(|i| task(&format!("t{i}"))).collect()).await.iter().all(Result::is_ok));
    let mut keys: Vec<_> = t.take(100).await.into_iter().map(|run| run.key).collect();
    keys.extend(t.take(100).await.into_iter().map(|run| run.key));
    let answers: Vec<_> = t.broker().extend(&keys).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, vec![Settled::Ok; 150]);
}

#[tokio::test]
async fn a_healthy_queue_is_swept_without_a_change() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let before = t.store.dump();
    assert_eq!(t.broker().sweep(&default_queue()).await.unwrap(), Swept::default());
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn an_active_task_without_a_lease_is_found_and_recovered() {
    let t = Fixture::start().await;
    if t.lacks(Need::LostLease) {
        return;
    }
    t.seed_active("t1").await;
    t.store.lose_lease(&default_queue(), &task_id("t1"));
    let swept = t.broker().sweep(&default_queue()).await.unwrap();
    assert_eq!(swept, Swept { leases_restored: 1, ..Swept::default() });
    assert!(t.recover().await.is_empty(), "its worker may live, and extends the lease");
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
}

/// A server took the task and died, and then the broker's clock was set back.
#[tokio::test]
async fn a_lease_later_than_any_clock_can_have_given_it_ends() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let ahead = t.store.connect(Some(Arc::new(ManualClock::new(t.now() + TimeDelta::days(1))))).await;
    let taken =
        ahead.dequeue(&t.member_of(&*ahead, 2).await, &[Wanted { queue: default_queue(), n: 1 }]).await.unwrap();
    assert_eq!(taken.len(), 1);
    t.let_leases_pass();
    assert!(t.recover().await.is_empty());
    let swept = t.broker().sweep(&default_queue()).await.unwrap();
    assert_eq!(swept, Swept { leases_restored: 1, ..Swept::default() });
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
}

#[tokio::test]
async fn ghosts_are_swept_out_of_active_and_pending() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_active("ran").await;
    t.seed_pending(&["waited", "good"]).await;
    for id in ["ran", "waited"] {
        t.store.make_ghost(&default_queue(), &task_id(id));
    }
    assert_eq!(t.broker().sweep(&default_queue()).await.unwrap().ghosts_removed, 2);
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.active, stats.pending), (0, 1));
}

#[tokio::test]
async fn queues_with_something_to_clean_or_to_sweep_are_named() {
    let t = Fixture::start().await;
    let policies =
        ["default", "quiet"].map(|name| ArchivePolicy { queue: queue(name), max_age: 90 * DAY, max_size: 10 });
    let names = policies.each_ref().map(|policy| policy.queue.clone());
    let cleans = async |policies: &[ArchivePolicy]| {
        t.broker().worth_cleaning(policies).await.unwrap().contains(&default_queue())
    };
    let sweeps = async || t.broker().worth_sweeping(&names).await.unwrap().contains(&default_queue());
    for _ in 0..3 {
        t.broker().worth_cleaning(&policies).await.unwrap();
        t.broker().worth_sweeping(&names).await.unwrap();
    }
    t.seed_completed("t1", 60).await;
    t.advance(60 * SECOND);
    assert!(cleans(&policies).await, "its retention has passed");
    t.broker().delete_expired(&default_queue(), 100).await.unwrap();
    t.seed_archived("t2").await;
    assert!(cleans(&[ArchivePolicy { max_size: 0, ..policies[0].clone() }]).await, "the archive is too small");
    t.advance(90 * DAY);
    assert!(cleans(&policies).await, "it is too old");
    t.broker().trim_archive(&default_queue(), 90 * DAY, 10, 100).await.unwrap();
    t.seed_set(&["s1"]).await;
    t.advance(300 * SECOND);
    assert!(cleans(&policies).await, "a set that no server ended");
    t.seed_pending(&["t3"]).await;
    assert!(sweeps().await, "something is pending");
    t.take(9).await;
    assert!(sweeps().await, "something is active");
}

#[tokio::test]
async fn a_completed_task_is_deleted_when_its_retention_has_passed() {
    let t = Fixture::start().await;
    t.seed_completed("t1", 60).await;
    t.advance(59 * SECOND);
    assert_eq!(t.broker().delete_expired(&default_queue(), 100).await.unwrap(), 0);
    t.advance(SECOND);
    assert_eq!(t.broker().delete_expired(&default_queue(), 100).await.unwrap(), 1);
    assert!(t.snapshot().await.is_empty());
    t.enqueue(task("t1")).await;
}

#[tokio::test]
async fn an_id_that_lies_among_the_expired_by_mistake_costs_no_task_that_lives_elsewhere() {
    let t = Fixture::start().await;
    if t.lacks(Need::Ghosts) {
        return;
    }
    t.seed_every_state().await;
    let before = t.store.dump();
    for id in ["archived", "retry", "scheduled", "active", "pending"] {
        t.store.list_as_expired(&default_queue(), &task_id(id));
    }
    assert_eq!(t.broker().delete_expired(&default_queue(), 100).await.unwrap(), 5, "the ids are taken off the list");
    assert_eq!(t.store.dump(), before);
}

/// The number of records in the store.
fn records(t: &Fixture) -> usize {
    t.store.dump().lines().count()
}

#[tokio::test]
async fn the_counters_of_a_day_are_forgotten_after_ninety_days_and_those_of_all_time_never() {
    let t = Fixture::start().await;
    let run_one = async |days: u32| {
        t.advance(days * DAY);
        let run = t.seed_active("t1").await;
        t.settle(&run, archive("fatal")).await;
        t.broker().trim_archive(&default_queue(), 90 * DAY, 0, 10).await.unwrap();
        t.broker().sweep(&default_queue()).await.unwrap();
        (records(&t), t.snapshot().await.stats.failed_total)
    };
    let (one_day, _) = run_one(0).await;
    let (two_days, _) = run_one(89).await;
    assert!(two_days > one_day, "a day has counters of its own: {two_days} records");
    assert_eq!(run_one(3).await, (two_days, 3), "the first day is gone");
}

#[tokio::test]
async fn expired_tasks_are_deleted_oldest_first_up_to_the_limit() {
    let t = Fixture::start().await;
    for (id, seconds) in [("c", 30), ("a", 10), ("b", 20), ("kept", 3600)] {
        t.seed_completed(id, seconds).await;
    }
    t.advance(MINUTE);
    assert_eq!(t.broker().delete_expired(&default_queue(), 2).await.unwrap(), 2);
    assert_eq!(t.snapshot().await.ids(TaskState::Completed), ["c", "kept"]);
    assert_eq!(t.broker().delete_expired(&default_queue(), 2).await.unwrap(), 1);
    assert_eq!(t.snapshot().await.ids(TaskState::Completed), ["kept"]);
}

#[tokio::test]
async fn deleting_expired_tasks_touches_no_other_state() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.advance(3601 * SECOND);
    assert_eq!(t.broker().delete_expired(&default_queue(), 100).await.unwrap(), 1);
    assert_eq!(t.snapshot().await.len(), 5);
}

/// Archives a task per name, one second apart.
async fn archive_all(t: &Fixture, ids: &[&str]) {
    for id in ids {
        t.seed_archived(id).await;
        t.advance(SECOND);
    }
}

#[tokio::test]
async fn the_archive_is_trimmed_by_age() {
    let t = Fixture::start().await;
    archive_all(&t, &["old1", "old2"]).await;
    t.advance(90 * DAY);
    archive_all(&t, &["new"]).await;
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 10_000, 500).await.unwrap(), 2);
    assert_eq!(t.snapshot().await.ids(TaskState::Archived), ["new"]);
    t.enqueue(task("old1")).await;
}

#[tokio::test]
async fn a_task_that_was_archived_exactly_so_long_ago_is_old_enough() {
    let t = Fixture::start().await;
    let trim = async || t.broker().trim_archive(&default_queue(), DAY, 10_000, 500).await.unwrap();
    // `archive_all` lets a second pass after each task.
    archive_all(&t, &["a"]).await;
    t.advance(DAY - 2 * SECOND);
    assert_eq!(trim().await, 0);
    t.advance(SECOND);
    assert_eq!(trim().await, 1);
}

#[tokio::test]
async fn the_archive_is_trimmed_to_exactly_its_size() {
    let t = Fixture::start().await;
    archive_all(&t, &["1", "2", "3", "4", "5"]).await;
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 3, 500).await.unwrap(), 2);
    assert_eq!(t.snapshot().await.ids(TaskState::Archived), ["3", "4", "5"]);
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 3, 500).await.unwrap(), 0);
}

#[tokio::test]
async fn the_archive_is_trimmed_in_slices_oldest_first() {
    let t = Fixture::start().await;
    archive_all(&t, &["1", "2", "3", "4", "5"]).await;
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 0, 2).await.unwrap(), 2);
    assert_eq!(t.snapshot().await.ids(TaskState::Archived), ["3", "4", "5"]);
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 0, 2).await.unwrap(), 2);
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 0, 2).await.unwrap(), 1);
    assert!(t.snapshot().await.is_empty());
}

#[tokio::test]
async fn age_and_size_together_count_each_task_once() {
    let t = Fixture::start().await;
    archive_all(&t, &["1", "2", "3", "4"]).await;
    t.advance(90 * DAY);
    archive_all(&t, &["5", "6"]).await;
    assert_eq!(t.broker().trim_archive(&default_queue(), 90 * DAY, 1, 500).await.unwrap(), 5);
    assert_eq!(t.snapshot().await.ids(TaskState::Archived), ["6"]);
}

#[tokio::test]
async fn trimming_touches_no_other_state_and_no_other_queue() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let low = t.start_run(task("t1").in_queue("low")).await;
    t.settle(&low, archive("fatal")).await;
    assert_eq!(t.broker().trim_archive(&default_queue(), Duration::ZERO, 0, 500).await.unwrap(), 1);
    assert_eq!(t.snapshot().await.len(), 5);
    assert_eq!(t.broker().queue_stats(&queue("low")).await.unwrap().archived, 1);
}

#[tokio::test]
async fn archiving_never_fails_because_the_archive_is_large() {
    let t = Fixture::start().await;
    for slice in 0..6 {
        let batch = (0..500).map(|i| task(&format!("t{slice}-{i}"))).collect();
        assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
        let runs = t.take_exactly(500).await;
        let batch: Vec<_> = runs.iter().map(|run| run.ends_with(archive("fatal"))).collect();
        let answers = t.broker().settle(&batch).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Settled::Ok))));
    }
    t.advance(91 * DAY);
    t.seed_archived("after").await;
    let mut trimmed = 0;
    while let n @ 1.. = t.broker().trim_archive(&default_queue(), 90 * DAY, 10_000, 500).await.unwrap() {
        trimmed += n;
        assert!(trimmed <= 3_000, "{trimmed} of 3,000 were trimmed");
    }
    assert_eq!(trimmed, 3_000);
    assert_eq!(t.snapshot().await.ids(TaskState::Archived), ["after"]);
}

#[tokio::test]
async fn housekeeping_of_an_unknown_queue_does_nothing() {
    let t = Fixture::start().await;
    let none = queue("none");
    assert_eq!(t.broker().sweep(&none).await.unwrap(), Swept::default());
    assert_eq!(t.broker().delete_expired(&none, 100).await.unwrap(), 0);
    assert_eq!(t.broker().trim_archive(&none, DAY, 1, 100).await.unwrap(), 0);
    assert_eq!(t.broker().forward(&[none], RetryOrder::Last).await.unwrap(), Forwarded::default());
}

#[tokio::test]
async fn a_task_that_is_completed_again_is_kept_anew() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(60)).await;
    t.settle(&run, retry(SECOND, "boom")).await;
    t.advance(50 * SECOND);
    t.forward().await;
    let again = t.take_one().await;
    t.settle(&again, complete("42")).await;
    t.advance(50 * SECOND);
    assert_eq!(t.broker().delete_expired(&default_queue(), 100).await.unwrap(), 0);
}

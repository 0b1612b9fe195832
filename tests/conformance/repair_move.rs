//! Contract `Repair`: a task moves to another queue, is edited, or is taken from a worker that is gone.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, Changed, EditError, HeldLock, Page, PayloadEdit, Refused, RetryOrder, Settled, Wanted},
    task::{Extra, QueueName, TaskState, UniqueUntil},
};
use asynq_tests::{
    Build as _, Need, Seeded as _, Store as _, archive, default_queue, done, group, lock_key, queue, retry, snooze,
    task, task_id,
};
use bytes::Bytes;
use chrono::TimeDelta;

use super::{Fixture, repair::places};

const SECOND: Duration = Duration::from_secs(1);

async fn to_low(t: &Fixture, id: &str) -> Result<Changed, Refused> {
    t.broker().move_task(&default_queue(), &task_id(id), &queue("low")).await
}

async fn moved(t: &Fixture, id: &str) {
    assert_eq!(to_low(t, id).await.unwrap(), Changed::Done);
}

#[tokio::test]
async fn everything_of_a_task_moves_with_it() {
    let t = Fixture::start().await;
    let extra = Extra { max_crashes: Some(9), ..Extra::default() };
    let run = t.start_run(task("t1").with_header("trace", "abc").with_retention(90).with_extra(extra.clone())).await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"half")).await.unwrap();
    let failed = asynq_runtime::broker::Action::Retry {
        delay: 60 * SECOND,
        error: Some("boom".into()),
        counted: true,
        extra: extra.clone(),
    };
    assert_eq!(t.settle(&run, failed).await, Settled::Ok);
    let failures = t.broker().failures(&default_queue(), &task_id("t1")).await.unwrap();
    let before = t.info("t1").await.unwrap();
    moved(&t, "t1").await;
    let mut after = t.broker().task(&queue("low"), &task_id("t1")).await.unwrap().unwrap();
    assert_eq!(after.queue, queue("low"));
    after.queue = default_queue();
    assert_eq!(after, before);
    assert_eq!(t.broker().failures(&queue("low"), &task_id("t1")).await.unwrap(), failures);
    assert_eq!(failures.len(), 1);
    t.advance(61 * SECOND);
    assert_eq!(t.broker().forward(&[queue("low")], RetryOrder::Last).await.unwrap().moved, 1);
    let runs = t.broker().dequeue(t.member(), &[Wanted { queue: queue("low"), n: 1 }]).await.unwrap();
    assert_eq!((runs[0].extra.clone(), runs[0].message.as_ref().unwrap().queue.as_str()), (extra, "low"));
    assert_eq!(t.settle(&runs[0], done()).await, Settled::Ok);
    assert!(t.broker().queues().await.unwrap().contains(&queue("low")));
}

#[tokio::test]
async fn a_moved_task_waits_behind_those_of_its_new_queue_and_before_later_ones() {
    let t = Fixture::start().await;
    // Either queue may be the one that the broker knew first.
    for (n, [from, to]) in [[default_queue(), queue("low")], [queue("low"), default_queue()]].into_iter().enumerate() {
        let of = |name: &str, queue: &QueueName| task(&format!("{name}{n}")).in_queue(queue.as_str());
        t.enqueue(of("other", &from)).await;
        t.enqueue(of("first", &to)).await;
        t.enqueue(of("moved", &from)).await;
        let moved = t.broker().move_task(&from, &task_id(&format!("moved{n}")), &to).await;
        assert_eq!(moved.unwrap(), Changed::Done);
        t.enqueue(of("later", &to)).await;
        let runs = t.broker().dequeue(t.member(), &[Wanted { queue: to.clone(), n: 9 }]).await.unwrap();
        let ids: Vec<&str> =
            runs.iter().map(|run| run.key.id.as_str()).filter(|id| id.ends_with(&n.to_string())).collect();
        assert_eq!(ids, ["first", "moved", "later"].map(|name| format!("{name}{n}")));
    }
}

#[tokio::test]
async fn the_exact_due_time_moves_along() {
    let t = Fixture::start().await;
    t.seed_scheduled("t1", Duration::from_millis(1500)).await;
    moved(&t, "t1").await;
    let forward = async || t.broker().forward(&[queue("low"), default_queue()], RetryOrder::Last).await.unwrap().moved;
    t.advance(Duration::from_millis(1499));
    assert_eq!(forward().await, 0);
    t.advance(Duration::from_millis(1));
    assert_eq!(forward().await, 1);
}

#[tokio::test]
async fn crashes_move_along() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.let_leases_pass();
    t.recover().await;
    moved(&t, "t1").await;
    assert_eq!(t.broker().task(&queue("low"), &task_id("t1")).await.unwrap().unwrap().crashes, 1);
}

#[tokio::test]
async fn a_group_moves_its_task_by_task() {
    let t = Fixture::start().await;
    t.seed_group("g", &["a", "b"]).await;
    moved(&t, "a").await;
    let groups = t.broker().groups(&queue("low"), None, 10).await.unwrap().groups;
    assert_eq!((groups.len(), groups[0].group.as_str(), groups[0].size), (1, "g", 1));
    let left = t
        .broker()
        .list(&default_queue(), TaskState::Aggregating, Some(&group("g")), Page::default(), None)
        .await
        .unwrap();
    assert_eq!(left.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn a_pending_task_goes_last_in_the_new_line() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b"]).await;
    t.enqueue(task("there").in_queue("low")).await;
    moved(&t, "a").await;
    let runs = t.broker().dequeue(t.member(), &[Wanted { queue: queue("low"), n: 5 }]).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ["there", "a"]);
    assert_eq!(t.drain().await, ["b"]);
}

#[tokio::test]
async fn a_pending_task_waits_anew_in_its_new_queue() {
    let t = Fixture::start().await;
    t.seed_pending(&["a"]).await;
    t.advance(600 * SECOND);
    moved(&t, "a").await;
    t.advance(7 * SECOND);
    assert_eq!(t.broker().queue_stats(&queue("low")).await.unwrap().latency, 7 * SECOND);
}

#[tokio::test]
async fn the_lock_moves_along_with_the_time_it_has_left() {
    let t = Fixture::start().await;
    let there = "asynq:{low}:unique:email:send:a";
    t.enqueue(task("t1").locked(&lock_key("a"), 600)).await;
    t.advance(500 * SECOND);
    moved(&t, "t1").await;
    assert_eq!(t.holder_of(&lock_key("a")).await, None, "free where it was");
    let again = async || t.try_enqueue(task("t2").in_queue("low").locked(there, 60)).await;
    assert!(again().await.is_err(), "taken where it is");
    t.advance(101 * SECOND);
    again().await.unwrap();
    // A lock that another task took over stays with that task.
    t.enqueue(task("late").locked(&lock_key("b"), 5)).await;
    t.advance(6 * SECOND);
    t.enqueue(task("next").locked(&lock_key("b"), 600)).await;
    moved(&t, "late").await;
    assert_eq!(t.holder_of(&lock_key("b")).await, Some(task_id("next")));
    t.enqueue(task("t3").in_queue("low").locked("asynq:{low}:unique:email:send:b", 60)).await;
}

#[tokio::test]
async fn a_moved_task_frees_its_new_lock_when_it_is_done() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("a"), 600)).await;
    moved(&t, "t1").await;
    let runs = t.broker().dequeue(t.member(), &[Wanted { queue: queue("low"), n: 1 }]).await.unwrap();
    assert_eq!(t.settle(&runs[0], done()).await, Settled::Ok);
    t.enqueue(task("t2").in_queue("low").locked("asynq:{low}:unique:email:send:a", 60)).await;
}

#[tokio::test]
async fn a_move_takes_over_a_lock_whose_task_is_gone() {
    let t = Fixture::start().await;
    let there = "asynq:{low}:unique:email:send:a";
    t.enqueue(task("first").in_queue("low")).await;
    t.store.leave_lock(&queue("low"), there, &task_id("gone"), t.now() + TimeDelta::hours(1));
    t.enqueue(task("t1").locked(&lock_key("a"), 600)).await;
    moved(&t, "t1").await;
    match t.try_enqueue(task("t2").in_queue("low").locked(there, 60)).await {
        Err(Refused::Duplicate { holder }) => assert_eq!(holder, Some(task_id("t1"))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_move_that_is_refused_changes_nothing() {
    let t = Fixture::start().await;
    t.enqueue(task("taken").in_queue("low")).await;
    t.enqueue(task("holder").in_queue("low").locked("asynq:{low}:unique:email:send:a", 600)).await;
    t.seed_pending(&["first", "taken"]).await;
    t.enqueue(task("unique").locked(&lock_key("a"), 600)).await;
    let before = t.store.dump();
    assert!(matches!(to_low(&t, "taken").await, Err(Refused::IdConflict)));
    match to_low(&t, "unique").await {
        Err(Refused::Duplicate { holder }) => assert_eq!(holder, Some(task_id("holder"))),
        other => panic!("{other:?}"),
    }
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn to_its_own_queue_it_has_moved_already() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b"]).await;
    let before = t.store.dump();
    let changed = t.broker().move_task(&default_queue(), &task_id("a"), &default_queue()).await.unwrap();
    assert_eq!((changed, t.store.dump()), (Changed::Done, before));
}

#[tokio::test]
async fn two_simultaneous_moves_of_a_task_move_it_once() {
    let t = Fixture::start().await;
    let (mine, theirs) = (t.shared(), t.another_broker().await);
    for n in 0..20 {
        let id = task_id(&format!("t{n}"));
        t.enqueue(task(id.as_str()).locked(&lock_key(id.as_str()), 600)).await;
        let (from, low) = (default_queue(), queue("low"));
        let (a, b) = tokio::join!(mine.move_task(&from, &id, &low), theirs.move_task(&from, &id, &low));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!([a, b].contains(&Changed::Done), "{a:?} {b:?}");
        assert_eq!(places(&t, &["default", "low"], id.as_str()).await, ["low pending"]);
    }
}

#[tokio::test]
async fn two_moves_of_a_task_to_different_queues_leave_one_task() {
    let t = Fixture::start().await;
    let (mine, theirs) = (t.shared(), t.another_broker().await);
    for n in 0..20 {
        let id = task_id(&format!("t{n}"));
        t.seed_pending(&[id.as_str()]).await;
        let (from, low, high) = (default_queue(), queue("low"), queue("high"));
        let (a, b) = tokio::join!(mine.move_task(&from, &id, &low), theirs.move_task(&from, &id, &high));
        let expected = match (a.unwrap(), b.unwrap()) {
            (Changed::Done, Changed::Done) => panic!("it cannot be in both"),
            (Changed::Done, _) => "low pending",
            (_, Changed::Done) => "high pending",
            neither => panic!("one of them was first: {neither:?}"),
        };
        assert_eq!(places(&t, &["default", "low", "high"], id.as_str()).await, [expected]);
    }
}

#[tokio::test]
async fn a_task_is_either_moved_or_taken() {
    let t = Fixture::start().await;
    let mover = t.another_broker().await;
    for n in 0..20 {
        let id = task_id(&format!("t{n}"));
        t.seed_pending(&[id.as_str()]).await;
        let (from, low) = (default_queue(), queue("low"));
        let (moved, taken) = tokio::join!(mover.move_task(&from, &id, &low), t.take(1));
        let expected = match (moved.unwrap(), taken.len()) {
            (Changed::Done, 0) => "low pending",
            (Changed::Unfit(TaskState::Active), 1) => "default active",
            other => panic!("{other:?}"),
        };
        assert_eq!(places(&t, &["default", "low"], id.as_str()).await, [expected]);
        for run in taken {
            t.settle(&run, done()).await;
        }
    }
}

fn edit(payload: &'static str, expected: Option<&'static str>, key: Option<String>) -> PayloadEdit {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    PayloadEdit { payload: bytes(payload), expected: expected.map(bytes), unique_key: key }
}

async fn edited(t: &Fixture, id: &str, edit: PayloadEdit) -> Result<Changed, EditError> {
    t.broker().edit_payload(&default_queue(), &task_id(id), &edit).await
}

#[tokio::test]
async fn an_edited_task_runs_with_its_new_payload() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    assert_eq!(edited(&t, "t1", edit("new", Some("t1"), None)).await.unwrap(), Changed::Done);
    assert_eq!(&t.take_one().await.message.unwrap().payload[..], b"new");
}

#[tokio::test]
async fn an_edit_of_a_payload_that_has_changed_is_refused() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let before = t.store.dump();
    assert!(matches!(edited(&t, "t1", edit("new", Some("old"), None)).await, Err(EditError::Changed)));
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn of_two_edits_at_once_of_the_same_payload_one_is_refused() {
    let t = Fixture::start().await;
    let (mine, theirs) = (t.shared(), t.another_broker().await);
    for n in 0..10 {
        let id = task_id(&format!("t{n}"));
        t.enqueue(task(id.as_str()).with_payload("old")).await;
        let (q, a, b) = (default_queue(), edit("a", Some("old"), None), edit("b", Some("old"), None));
        let (one, other) = tokio::join!(mine.edit_payload(&q, &id, &a), theirs.edit_payload(&q, &id, &b));
        let payload = t.broker().task(&q, &id).await.unwrap().unwrap().payload;
        match (one, other) {
            (Ok(Changed::Done), Err(EditError::Changed)) => assert_eq!(&payload[..], b"a"),
            (Err(EditError::Changed), Ok(Changed::Done)) => assert_eq!(&payload[..], b"b"),
            both => panic!("{both:?}"),
        }
    }
}

#[tokio::test]
async fn an_edit_swaps_the_lock_and_keeps_its_time() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("old"), 600)).await;
    t.advance(500 * SECOND);
    assert_eq!(edited(&t, "t1", edit("new", None, Some(lock_key("new")))).await.unwrap(), Changed::Done);
    assert_eq!(t.holder_of(&lock_key("new")).await, Some(task_id("t1")));
    assert_eq!(t.holder_of(&lock_key("old")).await, None);
    t.advance(101 * SECOND);
    t.enqueue(task("t2").locked(&lock_key("new"), 60)).await;
}

#[tokio::test]
async fn the_new_lock_is_freed_at_the_end() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("old"), 600)).await;
    edited(&t, "t1", edit("new", None, Some(lock_key("new")))).await.unwrap();
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("new")).await, None);
}

#[tokio::test]
async fn an_edit_that_would_be_a_duplicate_changes_nothing() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("one"), 600)).await;
    t.enqueue(task("t2").locked(&lock_key("two"), 600)).await;
    let before = t.store.dump();
    match edited(&t, "t1", edit("new", None, Some(lock_key("two")))).await {
        Err(EditError::Duplicate { holder }) => assert_eq!(holder, Some(task_id("t2"))),
        other => panic!("{other:?}"),
    }
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn an_edit_takes_over_a_lock_whose_task_is_gone() {
    let t = Fixture::start().await;
    if t.lacks(Need::LeftLock) {
        return;
    }
    t.store.leave_lock(&default_queue(), &lock_key("new"), &task_id("gone"), t.now() + TimeDelta::hours(1));
    t.enqueue(task("t1").locked(&lock_key("old"), 600)).await;
    assert_eq!(edited(&t, "t1", edit("new", None, Some(lock_key("new")))).await.unwrap(), Changed::Done);
    assert_eq!(t.holder_of(&lock_key("new")).await, Some(task_id("t1")));
    assert_eq!(t.holder_of(&lock_key("old")).await, None);
    t.advance(602 * SECOND);
    assert_eq!(t.holder_of(&lock_key("new")).await, None, "its time is that of the old lock");
}

#[tokio::test]
async fn a_task_that_has_lost_its_lock_locks_its_new_arguments_when_it_runs() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").locked(&lock_key("old"), 600)).await;
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, archive("the arguments are wrong")).await, Settled::Ok);
    assert_eq!(edited(&t, "t1", edit("new", None, Some(lock_key("new")))).await.unwrap(), Changed::Done);
    assert_eq!(
        t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Run).await.unwrap(),
        Changed::Done
    );
    let run = t.take_one().await;
    assert_eq!(run.text().unique_key, lock_key("new"));
    // As the worker of a job with `unique_extend` does.
    let lock = HeldLock { run: run.key.clone(), key: run.text().unique_key.clone() };
    t.broker().extend_locks(&[lock]).await.unwrap();
    assert_eq!(t.holder_of(&lock_key("new")).await, Some(task_id("t1")));
    assert_eq!(t.holder_of(&lock_key("old")).await, None);
}

#[tokio::test]
async fn a_task_without_a_lock_gets_none_by_an_edit() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    assert_eq!(edited(&t, "t1", edit("new", None, Some(lock_key("new")))).await.unwrap(), Changed::Done);
    assert_eq!(t.holder_of(&lock_key("new")).await, None);
}

async fn end_orphan(t: &Fixture, id: &str) -> Changed {
    t.broker().end_orphan(&default_queue(), &task_id(id), "no worker runs it").await.unwrap()
}

#[tokio::test]
async fn a_task_whose_lease_holds_is_not_an_orphan() {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    // On Redis the first request is kept at the run, and nothing else of the tasks changes.
    let tasks = t.snapshot().await;
    assert_eq!(end_orphan(&t, "active").await, Changed::Unfit(TaskState::Active));
    assert_eq!(t.snapshot().await, tasks);
    let before = t.store.dump();
    for state in TaskState::ALL.into_iter().filter(|&state| state != TaskState::Aggregating) {
        assert_eq!(end_orphan(&t, state.as_str()).await, Changed::Unfit(state));
    }
    assert_eq!(t.store.dump(), before);
}

#[tokio::test]
async fn an_orphan_is_retried_and_its_old_run_is_fenced() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.let_leases_pass();
    t.advance(Duration::from_millis(250));
    assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
    assert_eq!(t.settle(&run, done()).await, Settled::Fenced);
    assert_eq!(t.resend(&run, retry(SECOND, "late")).await, Settled::Fenced);
    assert_eq!(t.extend(&run.key).await, Settled::Fenced);
    let info = t.info("t1").await.unwrap();
    assert_eq!((info.state, info.retried, info.crashes), (TaskState::Retry, 1, 0));
    assert_eq!(info.last_error.as_deref(), Some("no worker runs it"));
    let now = Some(t.now().timestamp());
    assert_eq!([info.last_failed_at, info.next_process_at].map(|at| at.map(|at| at.timestamp())), [now; 2]);
    assert_eq!(t.forward().await, 1, "it is due at once");
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn an_orphan_counts_as_a_failure() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.let_leases_pass();
    assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.processed, stats.failed, stats.processed_total, stats.failed_total), (1, 1, 1, 1));
    let failures = t.broker().failures(&default_queue(), &task_id("t1")).await.unwrap();
    let seen: Vec<_> = failures.iter().map(|failure| (failure.number, failure.error.as_str())).collect();
    assert_eq!(seen, [(1, "no worker runs it")]);
    t.forward().await;
    let run = t.take_one().await;
    t.settle(&run, retry(SECOND, "boom")).await;
    let failures = t.broker().failures(&default_queue(), &task_id("t1")).await.unwrap();
    assert_eq!(failures.len(), 2, "and is kept when the next attempt fails: {failures:?}");
}

#[tokio::test]
async fn an_orphan_without_a_retry_left_is_archived_and_frees_its_lock() {
    let t = Fixture::start().await;
    let mut new = task("t1").locked(&lock_key("a"), 600);
    new.message.retry = 0;
    let run = t.start_run(new).await;
    t.let_leases_pass();
    assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
    let info = t.info("t1").await.unwrap();
    assert_eq!((info.state, info.last_error.as_deref()), (TaskState::Archived, Some("no worker runs it")));
    let now = Some(t.now().timestamp());
    assert_eq!([info.last_failed_at, info.archived_at].map(|at| at.map(|at| at.timestamp())), [now; 2]);
    assert_eq!(t.holder_of(&lock_key("a")).await, None);
    assert_eq!(t.settle(&run, snooze(SECOND, Extra::default())).await, Settled::Fenced);
    assert!(t.recover().await.is_empty(), "nothing is left to recover");
}

#[tokio::test]
async fn an_archived_orphan_that_is_unique_until_success_keeps_its_lock() {
    let t = Fixture::start().await;
    let extra = Extra { unique_until: UniqueUntil::Success.into(), ..Extra::default() };
    let mut new = task("t1").locked(&lock_key("a"), 600).with_extra(extra);
    new.message.retry = 0;
    t.start_run(new).await;
    t.let_leases_pass();
    assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
    assert_eq!(t.holder_of(&lock_key("a")).await, Some(task_id("t1")));
}

#[tokio::test]
async fn an_unreadable_orphan_is_archived() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.store.overwrite_message(&default_queue(), &task_id("t1"), b"\xff\xff");
    t.let_leases_pass();
    assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
    let archived = t.snapshot().await.archived;
    let seen: Vec<_> = archived.iter().map(|task| (task.id.as_str(), &task.payload[..])).collect();
    assert_eq!(seen, [("t1", &b"\xff\xff"[..])], "with its bytes, for people to look at");
}

#[tokio::test]
async fn the_crashes_of_an_orphan_are_forgotten() {
    for (retries, state) in [(25, TaskState::Retry), (0, TaskState::Archived)] {
        let t = Fixture::start().await;
        let mut new = task("t1");
        new.message.retry = retries;
        t.start_run(new).await;
        t.let_leases_pass();
        t.recover().await;
        assert_eq!(t.take_one().await.crashes, 1);
        t.let_leases_pass();
        assert_eq!(end_orphan(&t, "t1").await, Changed::Done);
        let info = t.info("t1").await.unwrap();
        assert_eq!((info.state, info.crashes), (state, 0));
    }
}

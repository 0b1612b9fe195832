//! Contract `Repair`: an operator's changes of one task, in every state.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, Changed, Chosen, GroupRules, Page, PayloadEdit, SetOutcome, Settled, TaskSet},
    task::{Extra, TaskId, TaskState, UniqueUntil, Unknown},
};
use asynq_tests::{
    Build as _, Store as _, archive, complete, default_queue, done, lock_key, queue, requeue, retry, task, task_id,
};
use bytes::Bytes;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

/// A fixture with one task in each of the seven states, named after its state.
pub(super) async fn every_state() -> Fixture {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    t.enqueue(task("aggregating").grouped("g")).await;
    t
}

pub(super) async fn ids(t: &Fixture, name: &str, state: TaskState) -> Vec<String> {
    let tasks = t.broker().tasks(&queue(name), state, Page { number: 1, size: 1000 }).await.unwrap();
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

/// Every list of these queues that contains the task.
pub(super) async fn places(t: &Fixture, names: &[&str], id: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        for state in TaskState::ALL {
            let times = ids(t, name, state).await.into_iter().filter(|listed| listed == id).count();
            found.extend((0..times).map(|_| format!("{name} {state}")));
        }
    }
    found
}

/// An operator's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Run,
    Archive,
    Delete,
    Move,
    Edit,
}

impl Op {
    /// Whether the contract allows this operation in `state`.
    fn fits(self, state: TaskState) -> bool {
        use TaskState::{Active, Aggregating, Archived, Completed, Pending, Retry, Scheduled};
        match self {
            Self::Run => matches!(state, Scheduled | Retry | Archived | Completed | Aggregating),
            Self::Archive => matches!(state, Pending | Scheduled | Retry | Completed | Aggregating),
            Self::Delete => state != Active,
            Self::Move | Self::Edit => matches!(state, Pending | Scheduled | Retry | Archived | Aggregating),
        }
    }

    async fn does(self, t: &Fixture, id: &TaskId) -> Changed {
        let (broker, from) = (t.broker(), default_queue());
        match self {
            Self::Run => broker.change_task(&from, id, None, BulkAction::Run).await.unwrap(),
            Self::Archive => broker.change_task(&from, id, None, BulkAction::Archive).await.unwrap(),
            Self::Delete => broker.change_task(&from, id, None, BulkAction::Delete).await.unwrap(),
            Self::Move => broker.move_task(&from, id, &queue("low")).await.unwrap(),
            Self::Edit => broker.edit_payload(&from, id, &edit("new")).await.unwrap(),
        }
    }

    /// The place of a task of `state` afterwards.
    fn leads_to(self, state: TaskState) -> Option<String> {
        match self {
            Self::Run => Some("default pending".into()),
            Self::Archive => Some("default archived".into()),
            Self::Delete => None,
            Self::Move => Some(format!("low {state}")),
            Self::Edit => Some(format!("default {state}")),
        }
    }
}

fn edit(payload: &'static str) -> PayloadEdit {
    PayloadEdit { payload: Bytes::from_static(payload.as_bytes()), expected: None, unique_key: None }
}

async fn table(op: Op, state: TaskState) {
    let t = every_state().await;
    let (id, before, dump) = (task_id(state.as_str()), t.info(state.as_str()).await.unwrap(), t.store.dump());
    let changed = op.does(&t, &id).await;
    for other in TaskState::ALL.into_iter().filter(|&other| other != state) {
        assert_eq!(
            places(&t, &["default", "low"], other.as_str()).await,
            [format!("default {other}")],
            "the others stay"
        );
    }
    if !op.fits(state) {
        assert_eq!(changed, Changed::Unfit(state));
        assert_eq!(t.store.dump(), dump, "nothing was changed");
        return;
    }
    assert_eq!(changed, Changed::Done);
    assert_eq!(
        places(&t, &["default", "low"], state.as_str()).await,
        op.leads_to(state).into_iter().collect::<Vec<_>>()
    );
    let place = if op == Op::Move { queue("low") } else { default_queue() };
    let Some(after) = t.broker().task(&place, &id).await.unwrap() else {
        assert_eq!(op, Op::Delete);
        assert!(t.broker().failures(&default_queue(), &id).await.unwrap().is_empty());
        t.enqueue(task(id.as_str())).await;
        return;
    };
    // Undoes the changed fields; every other field must be equal.
    let mut undone = after.clone();
    match op {
        Op::Run | Op::Archive => {
            (undone.state, undone.next_process_at) = (before.state, before.next_process_at);
            undone.archived_at = before.archived_at;
        }
        Op::Edit => undone.payload = before.payload.clone(),
        _ => undone.queue = default_queue(),
    }
    if state == TaskState::Completed {
        // The time of success is a field of completed tasks; only some brokers keep it in other states.
        undone.completed_at = before.completed_at;
    }
    assert_eq!(undone, before);
    assert_ne!(after, before);
}

macro_rules! tables {
    ($($op:ident: $name:ident)*) => {$(
        mod $name {
            use super::{Op, TaskState, table};

            #[tokio::test] async fn pending() { table(Op::$op, TaskState::Pending).await; }
            #[tokio::test] async fn active() { table(Op::$op, TaskState::Active).await; }
            #[tokio::test] async fn scheduled() { table(Op::$op, TaskState::Scheduled).await; }
            #[tokio::test] async fn retry() { table(Op::$op, TaskState::Retry).await; }
            #[tokio::test] async fn archived() { table(Op::$op, TaskState::Archived).await; }
            #[tokio::test] async fn completed() { table(Op::$op, TaskState::Completed).await; }
            #[tokio::test] async fn aggregating() { table(Op::$op, TaskState::Aggregating).await; }
        }
    )*};
}

tables! { Run: run Archive: archive_ Delete: delete Move: move_ Edit: edit_ }

#[tokio::test]
async fn a_missing_task_is_not_found() {
    let t = every_state().await;
    let before = t.store.dump();
    for op in [Op::Run, Op::Archive, Op::Delete, Op::Move, Op::Edit] {
        assert_eq!(op.does(&t, &task_id("nobody")).await, Changed::NotFound, "{op:?}");
    }
    let orphan = t.broker().end_orphan(&default_queue(), &task_id("nobody"), "lost").await.unwrap();
    assert_eq!(orphan, Changed::NotFound);
    assert_eq!(
        t.broker().change_task(&queue("none"), &task_id("retry"), None, BulkAction::Run).await.unwrap(),
        Changed::NotFound
    );
    assert_eq!(t.store.dump(), before);
}

/// An operator decides by an older reading: a task that has changed its state since stays as it is.
#[tokio::test]
async fn a_change_on_condition_of_a_state_leaves_a_moved_task() {
    for action in [BulkAction::Run, BulkAction::Archive, BulkAction::Delete] {
        let t = every_state().await;
        let dump = t.store.dump();
        let change = async |id: &str, only| {
            t.broker().change_task(&default_queue(), &task_id(id), Some(only), action).await.unwrap()
        };
        for is in TaskState::ALL {
            for only in TaskState::ALL.into_iter().filter(|&only| only != is) {
                assert_eq!(change(is.as_str(), only).await, Changed::Unfit(is), "{action:?} of {is} as {only}");
            }
        }
        assert_eq!(change("nobody", TaskState::Retry).await, Changed::NotFound);
        assert_eq!(t.store.dump(), dump, "{action:?}: nothing was changed");
        for is in TaskState::ALL {
            let op = match action {
                BulkAction::Run => Op::Run,
                BulkAction::Archive => Op::Archive,
                BulkAction::Delete => Op::Delete,
            };
            let expected = if op.fits(is) { Changed::Done } else { Changed::Unfit(is) };
            assert_eq!(change(is.as_str(), is).await, expected, "{action:?} of {is}");
            let place = if op.fits(is) { op.leads_to(is) } else { Some(format!("default {is}")) };
            assert_eq!(
                places(&t, &["default", "low"], is.as_str()).await,
                place.into_iter().collect::<Vec<_>>(),
                "{action:?} of {is}"
            );
        }
    }
}

#[tokio::test]
async fn a_repeat_says_that_it_was_done_before() {
    let t = every_state().await;
    for (op, id, again) in [
        (Op::Run, "retry", Changed::Unfit(TaskState::Pending)),
        (Op::Archive, "scheduled", Changed::Unfit(TaskState::Archived)),
        (Op::Delete, "completed", Changed::NotFound),
        (Op::Move, "archived", Changed::NotFound),
    ] {
        assert_eq!(op.does(&t, &task_id(id)).await, Changed::Done, "{op:?}");
        assert_eq!(op.does(&t, &task_id(id)).await, again, "{op:?}");
    }
}

#[tokio::test]
async fn a_task_that_is_run_waits_last_and_from_now_on() {
    let t = every_state().await;
    t.advance(60 * SECOND);
    for id in ["retry", "archived", "scheduled"] {
        assert_eq!(Op::Run.does(&t, &task_id(id)).await, Changed::Done);
    }
    assert_eq!(ids(&t, "default", TaskState::Pending).await, ["pending", "retry", "archived", "scheduled"]);
    t.take(1).await;
    t.advance(3 * SECOND);
    assert_eq!(t.snapshot().await.stats.latency, 3 * SECOND);
}

#[tokio::test]
async fn a_task_that_was_run_by_hand_is_not_forwarded_again() {
    let t = Fixture::start().await;
    t.seed_retry("r", Duration::from_millis(1500)).await;
    t.seed_scheduled("s", Duration::from_millis(1500)).await;
    for id in ["r", "s"] {
        assert_eq!(Op::Run.does(&t, &task_id(id)).await, Changed::Done);
    }
    assert_eq!(t.drain().await, ["r", "s"]);
    t.advance(5 * SECOND);
    assert_eq!(t.forward().await, 0);
    assert!(t.drain().await.is_empty());
}

#[tokio::test]
async fn a_task_that_left_its_waiting_state_is_not_forwarded() {
    for op in [Op::Archive, Op::Delete, Op::Move] {
        let t = Fixture::start().await;
        t.seed_retry("r", Duration::from_millis(1500)).await;
        t.seed_scheduled("s", Duration::from_millis(1500)).await;
        for id in ["r", "s"] {
            assert_eq!(op.does(&t, &task_id(id)).await, Changed::Done);
        }
        t.advance(5 * SECOND);
        assert_eq!(t.forward().await, 0, "{op:?}");
        assert!(t.drain().await.is_empty(), "{op:?}");
    }
}

#[tokio::test]
async fn a_task_that_took_workers_down_gets_a_new_chance() {
    let t = Fixture::start().await;
    let mut run = t.seed_active("t1").await;
    for _ in 0..3 {
        t.let_leases_pass();
        t.recover().await;
        run = t.take_one().await;
    }
    assert_eq!(run.crashes, 3);
    assert_eq!(t.settle(&run, archive("worker died 3 times")).await, Settled::Ok);
    assert_eq!(Op::Run.does(&t, &run.key.id).await, Changed::Done);
    assert_eq!(t.take_one().await.crashes, 0);

    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.let_leases_pass();
    t.recover().await;
    assert_eq!(Op::Archive.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.take_one().await.crashes, 0, "archived by hand, run by hand");
}

/// In the archive no worker looks at the task, so that time does not count as one in which none knew it.
#[tokio::test]
async fn a_task_that_a_person_runs_has_a_new_day_to_find_a_worker_that_knows_it() {
    let t = Fixture::start().await;
    let since_ms = t.now().timestamp_millis() - 48 * 3_600_000;
    let unknown = Some(Unknown { since_ms, times: 1, retried: Some(0) });
    let extra = Extra { unknown, deferrals: 24, max_crashes: Some(7), ..Extra::default() };
    t.enqueue(task("t1").with_retention(600).with_extra(extra)).await;
    for _ in 0..2 {
        assert_eq!(Op::Archive.does(&t, &task_id("t1")).await, Changed::Done);
        assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
    }
    let run = t.take_one().await;
    let Extra { unknown, deferrals, max_crashes, .. } = run.extra.clone();
    // With another number of failures than the task has, the record is over.
    let is_over = unknown.is_none_or(|unknown| unknown.retried.is_some_and(|retried| retried != 0));
    assert_eq!((is_over, deferrals, max_crashes), (true, 0, Some(7)));
    t.settle(&run, complete("42")).await;
    assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.take_one().await.extra.max_crashes, Some(7), "the success has not changed it");
}

#[tokio::test]
async fn the_attempts_of_a_task_stay_counted() {
    let t = Fixture::start().await;
    t.seed_retry("t1", SECOND).await;
    assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, retry(SECOND, "again")).await, Settled::Ok);
    let info = t.info("t1").await.unwrap();
    assert_eq!((info.retried, info.last_error.as_deref()), (2, Some("again")));
}

#[tokio::test]
async fn an_archived_task_has_the_time_of_its_archive() {
    let t = Fixture::start().await;
    t.seed_pending(&["first", "second"]).await;
    for id in ["second", "first"] {
        assert_eq!(Op::Archive.does(&t, &task_id(id)).await, Changed::Done);
        t.advance(10 * SECOND);
    }
    assert_eq!(ids(&t, "default", TaskState::Archived).await, ["second", "first"]);
    let deleted = t.broker().trim_archive(&default_queue(), 15 * SECOND, 100, 100).await.unwrap();
    assert_eq!((deleted, ids(&t, "default", TaskState::Archived).await), (1, vec!["first".to_owned()]));
}

#[tokio::test]
async fn archiving_by_hand_counts_no_run_and_no_failure() {
    let t = every_state().await;
    let before = t.snapshot().await.stats;
    assert_eq!(Op::Archive.does(&t, &task_id("pending")).await, Changed::Done);
    let after = t.snapshot().await.stats;
    assert_eq!((after.processed, after.failed), (before.processed, before.failed));
    assert!(t.broker().failures(&default_queue(), &task_id("pending")).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_archived_task_frees_its_lock() {
    let t = Fixture::start().await;
    let key = lock_key("a");
    t.enqueue(task("t1").locked(&key, 600)).await;
    assert_eq!(Op::Archive.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, None);
}

#[tokio::test]
async fn a_task_that_is_unique_until_success_keeps_its_lock_in_the_archive() {
    let t = Fixture::start().await;
    let key = lock_key("a");
    let extra = Extra { max_crashes: Some(7), unique_until: UniqueUntil::Success.into(), ..Extra::default() };
    t.enqueue(task("t1").locked(&key, 600).with_extra(extra)).await;
    assert_eq!(Op::Archive.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, Some(task_id("t1")));
    assert_eq!(Op::Delete.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, None, "deleting frees it all the same");
}

#[tokio::test]
async fn a_deleted_task_frees_its_own_lock_only() {
    let t = Fixture::start().await;
    let key = lock_key("a");
    t.enqueue(task("old").locked(&key, 1)).await;
    t.advance(2 * SECOND);
    t.enqueue(task("new").locked(&key, 600)).await;
    assert_eq!(Op::Delete.does(&t, &task_id("old")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, Some(task_id("new")), "it had lost the lock to another");
    assert_eq!(Op::Delete.does(&t, &task_id("new")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, None);
}

#[tokio::test]
async fn a_task_that_is_run_keeps_the_lock_that_it_has() {
    let t = Fixture::start().await;
    let key = lock_key("a");
    t.enqueue(task("t1").locked(&key, 600).after(60 * SECOND)).await;
    assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
    assert_eq!(t.holder_of(&key).await, Some(task_id("t1")));
}

#[tokio::test]
async fn a_group_ends_when_its_last_task_leaves() {
    for op in [Op::Run, Op::Archive, Op::Delete, Op::Move] {
        let t = Fixture::start().await;
        t.seed_group("g", &["a", "b"]).await;
        assert_eq!(op.does(&t, &task_id("a")).await, Changed::Done);
        assert_eq!(t.group_sizes().await, [("g".to_owned(), 1)], "{op:?}");
        assert_eq!(op.does(&t, &task_id("b")).await, Changed::Done);
        assert!(t.group_sizes().await.is_empty(), "{op:?}");
    }
}

#[tokio::test]
async fn a_grouped_task_that_is_run_stays_alone_when_it_is_retried() {
    for (many, late) in [(false, false), (true, false), (false, true), (true, true)] {
        let t = Fixture::start().await;
        let new = task("t1").grouped("g").locked(&lock_key("k"), 600);
        t.enqueue(if late { new.after(60 * SECOND) } else { new }).await;
        if many {
            let chosen = Chosen::InState(if late { TaskState::Scheduled } else { TaskState::Aggregating });
            let slice = t.broker().change_some(&default_queue(), &chosen, BulkAction::Run, 10).await.unwrap();
            assert_eq!(slice.changed, 1);
        } else {
            assert_eq!(Op::Run.does(&t, &task_id("t1")).await, Changed::Done);
        }
        assert_eq!(t.settle(&t.take_one().await, retry(SECOND, "boom")).await, Settled::Ok);
        t.advance(2 * SECOND);
        assert_eq!(t.forward().await, 1);
        assert_eq!(t.holder_of(&lock_key("k")).await, Some(task_id("t1")));
        let run = t.take_one().await;
        assert_eq!(t.settle(&run, archive("no")).await, Settled::Ok, "many: {many}, late: {late}");
        assert_eq!(t.holder_of(&lock_key("k")).await, None);
    }
}

#[tokio::test]
async fn members_of_a_set_are_left_to_its_holder() {
    for op in [Op::Run, Op::Archive, Op::Delete, Op::Move, Op::Edit] {
        let t = Fixture::start().await;
        t.seed_group("g", &["a"]).await;
        let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
        let set = t.try_claim("g", &rules).await.unwrap();
        assert_eq!(op.does(&t, &task_id("a")).await, Changed::Unfit(TaskState::Aggregating), "{op:?}");
        t.advance(TaskSet::DEADLINE + SECOND);
        assert_eq!(op.does(&t, &task_id("a")).await, Changed::Unfit(TaskState::Aggregating), "{op:?}: late");
        assert_eq!(t.broker().reclaim_sets(&default_queue()).await.unwrap(), 1);
        assert_eq!(op.does(&t, &task_id("a")).await, Changed::Done, "{op:?}: it is back in its group");
        let lost = t.broker().finish_set(&set, &SetOutcome::default()).await;
        assert!(lost.is_err(), "{op:?}: the set has ended");
    }
}

#[tokio::test]
async fn a_repaired_task_runs_like_any_other() {
    let t = every_state().await;
    for id in ["completed", "aggregating", "archived"] {
        assert_eq!(Op::Run.does(&t, &task_id(id)).await, Changed::Done);
    }
    for run in t.take(10).await {
        assert_eq!(t.settle(&run, if run.key.id == "pending" { requeue() } else { done() }).await, Settled::Ok);
    }
    assert_eq!(ids(&t, "default", TaskState::Pending).await, ["pending"]);
    for id in ["completed", "aggregating", "archived"] {
        assert_eq!(places(&t, &["default", "low"], id).await, Vec::<String>::new(), "{id}");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_read_can_be_run_archived_moved_and_deleted() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b"]).await;
    for id in ["a", "b"] {
        t.store.overwrite_message(&default_queue(), &task_id(id), b"\xff\xff\xff");
    }
    assert_eq!(Op::Archive.does(&t, &task_id("a")).await, Changed::Done);
    assert_eq!(Op::Run.does(&t, &task_id("a")).await, Changed::Done);
    assert_eq!(Op::Delete.does(&t, &task_id("a")).await, Changed::Done);
    let refused = t.broker().edit_payload(&default_queue(), &task_id("b"), &edit("new")).await;
    assert!(refused.is_err(), "there is no payload to replace");
    assert_eq!(Op::Move.does(&t, &task_id("b")).await, Changed::Done);
    let wanted = [asynq_runtime::broker::Wanted { queue: queue("low"), n: 5 }];
    let runs = t.broker().dequeue(t.member(), &wanted).await.unwrap();
    let raw = runs[0].message.as_ref().unwrap_err().raw.clone();
    assert_eq!((runs.len(), &raw[..]), (1, &b"\xff\xff\xff"[..]), "no byte is lost");
}

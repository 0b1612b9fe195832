//! Repairs of tasks by an operator, as the file shows them: counts, locks and bodies stay right. The conformance suite has the
//! cases of every broker.

use asynq_runtime::{
    broker::{
        BulkAction, BulkSlice, Changed, Chosen, EditError, GroupRules, Groups as _, Inspect as _, Maintain as _, Page,
        PayloadEdit, QueueDeleted, Refused, Repair as _, RetryOrder,
    },
    clock::ManualClock,
    task::{GroupName, TaskState, UniqueUntil},
};
use chrono::SubsecRound as _;
use tempfile::TempDir;

use super::{others::check_whole, *};

const KEY: &str = "asynq:{default}:unique:test:1";
const OTHER_KEY: &str = "asynq:{other}:unique:test:1";

struct World {
    folder: TempDir,
    clock: ManualClock,
    broker: SqliteBroker,
    member: Member,
}

impl World {
    async fn new() -> Self {
        let ((folder, file), clock) = (new_file(), ManualClock::default());
        let broker = SqliteBroker::open(&url(&file), with_clock(clock.clone())).await.unwrap();
        let member = join(&broker).await;
        Self { folder, clock, broker, member }
    }

    fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }

    fn number(&self, sql: &str) -> i64 {
        rusqlite::Connection::open(self.file()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("jobs.db")
    }

    async fn change(&self, name: &str, action: BulkAction) -> Changed {
        self.broker.change_task(&queue(), &id(name), None, action).await.unwrap()
    }

    /// One task per state, named after it; all but the completed one with a unique lock.
    async fn every_state(&self) {
        for id in ["active", "completed", "retry", "archived"] {
            enqueue(&self.broker, locked(id)).await.unwrap();
        }
        for run in dequeue(&self.broker, &self.member, 9).await {
            let action = match run.key.id.as_str() {
                "completed" => Action::Complete { result: Some("done".into()) },
                "retry" => {
                    let error = Some("oh".to_owned());
                    Action::Retry { delay: HOUR, error, counted: true, extra: run.extra.clone() }
                }
                "archived" => Action::Archive { error: "no".into(), extra: run.extra.clone() },
                _ => continue,
            };
            let mut settlement = outcome(&run, action);
            let mut message = (*settlement.message).clone();
            message.retention = 60;
            settlement.message = Arc::new(message);
            assert_eq!(settle(&self.broker, settlement).await, Settled::Ok);
        }
        enqueue(&self.broker, NewTask { when: When::In(HOUR), ..locked("scheduled") }).await.unwrap();
        enqueue(&self.broker, locked("pending")).await.unwrap();
    }

    async fn ids(&self, queue: &QueueName, state: TaskState) -> Vec<String> {
        let tasks = self.broker.tasks(queue, state, Page { number: 1, size: 500 }).await.unwrap();
        tasks.iter().map(|task| task.id.to_string()).collect()
    }

    /// Returns the state of the task in the default queue.
    async fn state(&self, id: &str) -> Option<TaskState> {
        self.broker.task(&queue(), &TaskId::new(id).unwrap()).await.unwrap().map(|task| task.state)
    }
}

fn locked(id: &str) -> NewTask {
    unique(id, &format!("asynq:{{default}}:unique:test:{id}"))
}

fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn other() -> QueueName {
    QueueName::new("other").unwrap()
}

const STATES: [&str; 6] = ["active", "pending", "scheduled", "retry", "archived", "completed"];

#[tokio::test]
async fn every_repair_of_every_state_leaves_the_file_whole() {
    let to = other();
    for (action, done) in [
        ("run", &["scheduled", "retry", "archived", "completed"][..]),
        ("archive", &["pending", "scheduled", "retry", "completed"]),
        ("delete", &["pending", "scheduled", "retry", "archived", "completed"]),
        ("move", &["pending", "scheduled", "retry", "archived"]),
        ("edit", &["pending", "scheduled", "retry", "archived"]),
    ] {
        let t = World::new().await;
        t.every_state().await;
        let edit = PayloadEdit { payload: "new".into(), expected: None, unique_key: Some(KEY.into()) };
        for state in STATES {
            let changed = match action {
                "run" => t.change(state, BulkAction::Run).await,
                "archive" => t.change(state, BulkAction::Archive).await,
                "delete" => t.change(state, BulkAction::Delete).await,
                "move" => t.broker.move_task(&queue(), &id(state), &to).await.unwrap(),
                _ => {
                    let edit = PayloadEdit { unique_key: Some(format!("{KEY}{state}")), ..edit.clone() };
                    t.broker.edit_payload(&queue(), &id(state), &edit).await.unwrap()
                }
            };
            let expected = if done.contains(&state) { Changed::Done } else { Changed::Unfit(state.parse().unwrap()) };
            assert_eq!(changed, expected, "{action} {state}");
            check_whole(&t.file());
        }
        assert_eq!(t.change("nobody", BulkAction::Run).await, Changed::NotFound);
        assert_eq!(t.broker.change_task(&to, &id("nobody"), None, BulkAction::Run).await.unwrap(), Changed::NotFound);
    }
}

#[tokio::test]
async fn a_completed_task_that_is_run_or_archived_keeps_its_time_of_success() {
    let t = World::new().await;
    t.every_state().await;
    let before = t.broker.task(&queue(), &id("completed")).await.unwrap().unwrap();
    t.clock.advance(Duration::from_secs(30));
    assert_eq!(t.change("completed", BulkAction::Archive).await, Changed::Done);
    assert_eq!(t.change("completed", BulkAction::Run).await, Changed::Done);
    let after = t.broker.task(&queue(), &id("completed")).await.unwrap().unwrap();
    assert_eq!(after.completed_at, before.completed_at.map(|at| at.trunc_subsecs(0)), "in whole seconds");
    assert_eq!((after.state, after.result), (TaskState::Pending, before.result));
}

#[tokio::test]
async fn a_task_that_is_run_waits_last_and_is_not_quarantined_any_more() {
    let t = World::new().await;
    enqueue(&t.broker, task("a")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(dequeue(&t.broker, &t.member, 9).await.len(), 1);
        t.clock.advance(Duration::from_secs(11));
        t.broker.recover(&[queue()]).await.unwrap();
    }
    assert_eq!(t.change("a", BulkAction::Archive).await, Changed::Done);
    assert_eq!(t.number("SELECT crashes FROM task"), 2, "archived as it is");
    for n in ["b", "c"] {
        enqueue(&t.broker, task(n)).await.unwrap();
    }
    t.clock.advance(Duration::from_secs(1));
    assert_eq!(t.change("a", BulkAction::Run).await, Changed::Done);
    let runs = dequeue(&t.broker, &t.member, 9).await;
    assert_eq!(ids(&runs), ["b", "c", "a"]);
    assert_eq!(runs[2].crashes, 0);
    assert_eq!(t.number("SELECT since FROM task WHERE id = 'a'"), t.broker.now().timestamp_millis());
}

#[tokio::test]
async fn an_archived_task_frees_its_lock_unless_it_is_unique_until_success() {
    for (until, locks) in [(UniqueUntil::End, 0), (UniqueUntil::Success, 1), (UniqueUntil::Start, 0)] {
        let t = World::new().await;
        let extra = Extra { unique_until: until.into(), ..Extra::default() };
        enqueue(&t.broker, NewTask { extra, ..unique("a", KEY) }).await.unwrap();
        assert_eq!(t.change("a", BulkAction::Archive).await, Changed::Done);
        assert_eq!(t.number("SELECT count(*) FROM ulock"), locks, "{until:?}");
        assert_eq!(t.change("a", BulkAction::Delete).await, Changed::Done);
        assert_eq!(t.number("SELECT count(*) FROM ulock"), 0);
    }
}

#[tokio::test]
async fn a_moved_task_is_all_there_in_its_new_queue() {
    let t = World::new().await;
    t.every_state().await;
    let before = t.broker.task(&queue(), &id("retry")).await.unwrap().unwrap();
    for state in ["retry", "scheduled", "pending"] {
        assert_eq!(t.broker.move_task(&queue(), &id(state), &other()).await.unwrap(), Changed::Done);
        assert_eq!(t.state(state).await, None);
    }
    assert_eq!(t.broker.failures(&other(), &id("retry")).await.unwrap().len(), 1, "they went along");
    let after = t.broker.task(&other(), &id("retry")).await.unwrap().unwrap();
    assert_eq!((&after.queue, after.retried, &after.last_error), (&other(), 1, &Some("oh".to_owned())));
    assert_eq!((after.next_process_at, &after.payload), (before.next_process_at, &before.payload));
    assert_eq!(t.ids(&other(), TaskState::Scheduled).await, ["scheduled"]);
    assert_eq!(t.broker.queues().await.unwrap(), [queue(), other()]);
    let wanted = [Wanted { queue: other(), n: 9 }];
    let run = t.broker.dequeue(&t.member, &wanted).await.unwrap().remove(0);
    let message = run.message.as_ref().unwrap();
    assert_eq!((message.queue.as_str(), message.unique_key.as_str()), ("other", "asynq:{other}:unique:test:pending"));
    assert_eq!(t.number("SELECT count(*) FROM ulock JOIN queue USING(q) WHERE name = 'other'"), 3);
    assert_eq!(settle(&t.broker, outcome(&run, Action::Done)).await, Settled::Ok);
    assert_eq!(t.number("SELECT count(*) FROM ulock JOIN queue USING(q) WHERE name = 'other'"), 2);
    check_whole(&t.file());
}

#[tokio::test]
async fn a_move_that_is_refused_changes_nothing() {
    let t = World::new().await;
    enqueue(&t.broker, unique("a", KEY)).await.unwrap();
    let mut same = unique("b", OTHER_KEY);
    (same.queue, same.message.queue) = (other(), "other".into());
    enqueue(&t.broker, same.clone()).await.unwrap();
    let refused = t.broker.move_task(&queue(), &id("a"), &other()).await.unwrap_err();
    assert!(matches!(&refused, Refused::Duplicate { holder: Some(holder) } if *holder == "b"), "{refused:?}");
    same.unique = None;
    same.id = id("a");
    same.message.id = "a".into();
    enqueue(&t.broker, same).await.unwrap();
    let refused = t.broker.move_task(&queue(), &id("a"), &other()).await.unwrap_err();
    assert!(matches!(refused, Refused::IdConflict), "{refused:?}");
    assert_eq!(t.state("a").await, Some(TaskState::Pending));
    assert_eq!(t.number("SELECT count(*) FROM ulock JOIN queue USING(q) WHERE name = 'default'"), 1);
    assert_eq!(t.broker.move_task(&queue(), &id("a"), &queue()).await.unwrap(), Changed::Done, "where it is");
    check_whole(&t.file());
}

#[tokio::test]
async fn an_edit_swaps_the_lock_or_changes_nothing() {
    let t = World::new().await;
    enqueue(&t.broker, unique("a", "one")).await.unwrap();
    enqueue(&t.broker, unique("b", "two")).await.unwrap();
    enqueue(&t.broker, task("free")).await.unwrap();
    t.clock.advance(Duration::from_secs(10));
    let edit = |key: &str, expected: &'static str| PayloadEdit {
        payload: "new".into(),
        expected: Some(expected.into()),
        unique_key: Some(key.into()),
    };
    let refused = t.broker.edit_payload(&queue(), &id("a"), &edit("two", "payload")).await.unwrap_err();
    assert!(matches!(&refused, EditError::Duplicate { holder: Some(holder) } if *holder == "b"), "{refused:?}");
    let refused = t.broker.edit_payload(&queue(), &id("a"), &edit("three", "stale")).await.unwrap_err();
    assert!(matches!(refused, EditError::Changed), "{refused:?}");
    assert_eq!(t.number("SELECT count(*) FROM ulock WHERE key IN ('one', 'two')"), 2);

    let until = t.number("SELECT until FROM ulock WHERE key = 'one'");
    assert_eq!(t.broker.edit_payload(&queue(), &id("a"), &edit("three", "payload")).await.unwrap(), Changed::Done);
    assert_eq!(t.number("SELECT until FROM ulock WHERE key = 'three' AND id = 'a'"), until, "the time that was left");
    assert_eq!(t.broker.edit_payload(&queue(), &id("free"), &edit("four", "payload")).await.unwrap(), Changed::Done);
    assert_eq!(t.number("SELECT count(*) FROM ulock"), 2, "a task without a lock gets none");
    let runs = dequeue(&t.broker, &t.member, 9).await;
    let message = runs[0].message.as_ref().unwrap();
    assert_eq!((&message.payload[..], message.unique_key.as_str()), (&b"new"[..], "three"));
    assert_eq!(settle(&t.broker, outcome(&runs[0], Action::Done)).await, Settled::Ok);
    assert_eq!(t.number("SELECT count(*) FROM ulock WHERE key = 'three'"), 0);
    check_whole(&t.file());
}

#[tokio::test]
async fn the_row_of_a_lock_that_has_ended_goes_with_an_edit_and_with_a_move() {
    for moves in [false, true] {
        let t = World::new().await;
        enqueue(&t.broker, unique("a", KEY)).await.unwrap();
        t.clock.advance(Duration::from_secs(61));
        let changed = if moves {
            t.broker.move_task(&queue(), &id("a"), &other()).await.unwrap()
        } else {
            let edit = PayloadEdit { payload: "new".into(), expected: None, unique_key: Some(format!("{KEY}1")) };
            t.broker.edit_payload(&queue(), &id("a"), &edit).await.unwrap()
        };
        assert_eq!((changed, t.number("SELECT count(*) FROM ulock")), (Changed::Done, 0), "moves: {moves}");
        check_whole(&t.file());
    }
}

#[tokio::test]
async fn the_payload_of_an_unreadable_task_is_not_replaced() {
    let t = World::new().await;
    enqueue(&t.broker, task("a")).await.unwrap();
    t.sql("UPDATE body SET msg = X'ffffff'");
    let edit = PayloadEdit { payload: "new".into(), expected: None, unique_key: None };
    let error = t.broker.edit_payload(&queue(), &id("a"), &edit).await.unwrap_err().to_string();
    assert!(error.starts_with("task a: there is no payload to replace"), "{error}");
    assert_eq!(t.broker.move_task(&queue(), &id("a"), &other()).await.unwrap(), Changed::Done, "its bytes go along");
    assert_eq!(t.number("SELECT msg = X'ffffff' FROM body"), 1);
    t.sql("DELETE FROM body");
    let error = t.broker.edit_payload(&other(), &id("a"), &edit).await.unwrap_err().to_string();
    assert!(error.contains("the message is missing"), "{error}");
}

#[tokio::test]
async fn a_cancel_of_a_task_that_does_not_run_waits_for_no_writer() {
    let t = World::new().await;
    enqueue(&t.broker, task("a")).await.unwrap();
    let holder = rusqlite::Connection::open(t.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let unfit = Changed::Unfit(TaskState::Pending);
    for (name, expected) in [("missing", Changed::NotFound), ("a", unfit)] {
        assert_eq!(t.broker.end_orphan(&queue(), &id(name), "gone").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn an_orphan_is_retried_then_archived_and_its_old_run_is_fenced() {
    let t = World::new().await;
    let mut new = unique("a", KEY);
    new.message.retry = 1;
    enqueue(&t.broker, new).await.unwrap();
    for (state, locks) in [(TaskState::Retry, 1), (TaskState::Archived, 0)] {
        let run = dequeue(&t.broker, &t.member, 1).await.remove(0);
        t.clock.advance(Duration::from_millis(9_999));
        let refused = t.broker.end_orphan(&queue(), &id("a"), "gone").await.unwrap();
        assert_eq!(refused, Changed::Unfit(TaskState::Active), "its lease still holds");
        t.clock.advance(Duration::from_millis(1));
        assert_eq!(t.broker.end_orphan(&queue(), &id("a"), "gone").await.unwrap(), Changed::Done);
        let seen = t.broker.task(&queue(), &id("a")).await.unwrap().unwrap();
        assert_eq!((seen.state, seen.last_error.as_deref()), (state, Some("gone")));
        assert_eq!(t.number("SELECT count(*) FROM ulock"), locks);
        for action in [Action::Done, Action::Requeue] {
            assert_eq!(settle(&t.broker, outcome(&run, action)).await, Settled::Fenced);
        }
        assert_eq!(t.broker.end_orphan(&queue(), &id("a"), "gone").await.unwrap(), Changed::Unfit(state));
        t.broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
    }
    let stats = t.broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.processed_total, stats.failed_total), (2, 2));
    let mut numbers: Vec<_> =
        t.broker.failures(&queue(), &id("a")).await.unwrap().iter().map(|failure| failure.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    check_whole(&t.file());
}

#[tokio::test]
async fn a_bulk_call_goes_on_slice_by_slice_in_the_order_of_the_list() {
    let t = World::new().await;
    t.broker.enqueue((0..250).map(|n| locked(&format!("{n:03}"))).collect()).await;
    let some = |changed, more| BulkSlice { changed, ghosts: 0, more };
    let pending = Chosen::InState(TaskState::Pending);
    let archived = Chosen::InState(TaskState::Archived);
    for (limit, expected) in [(5, some(5, true)), (0, some(0, true)), (1_000, some(100, true))] {
        let slice = t.broker.change_some(&queue(), &pending, BulkAction::Archive, limit).await.unwrap();
        assert_eq!(slice, expected);
        t.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(t.number("SELECT count(*) FROM ulock"), 145);
    check_whole(&t.file());
    assert_eq!(t.ids(&queue(), TaskState::Archived).await, (0..105).map(|n| format!("{n:03}")).collect::<Vec<_>>());
    for expected in [some(100, true), some(5, false), some(0, false)] {
        assert_eq!(t.broker.change_some(&queue(), &archived, BulkAction::Run, 100).await.unwrap(), expected);
    }
    let line: Vec<_> = (105..250).chain(0..105).map(|n| format!("{n:03}")).collect();
    assert_eq!(t.ids(&queue(), TaskState::Pending).await, line);
    for expected in [some(100, true), some(100, true), some(50, false)] {
        assert_eq!(t.broker.change_some(&queue(), &pending, BulkAction::Delete, 100).await.unwrap(), expected);
    }
    assert_eq!(t.number("SELECT (SELECT count(*) FROM ulock) + (SELECT count(*) FROM body)"), 0);
    let unfit = t.broker.change_some(&queue(), &pending, BulkAction::Run, 100).await.unwrap();
    assert_eq!(unfit, BulkSlice::default());
    assert_eq!(t.broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::Done);
    assert_eq!(t.broker.change_some(&queue(), &pending, BulkAction::Delete, 1).await.unwrap(), BulkSlice::default());
}

#[tokio::test]
async fn members_of_a_set_are_left_to_its_holder() {
    let t = World::new().await;
    let group = GroupName::new("g").unwrap();
    let join = async |id: &str| {
        let mut new = task(id);
        new.message.group_key = "g".into();
        new.group = Some(group.clone());
        assert_eq!(enqueue(&t.broker, new).await.unwrap().state, TaskState::Aggregating);
    };
    join("staged").await;
    join("waits").await;
    let rules = GroupRules { max_size: Some(1), ..GroupRules::default() };
    let set = t.broker.claim_set(&queue(), &group, &rules).await.unwrap().unwrap();
    assert_eq!(set.members[0].id, "staged");

    let unfit = Changed::Unfit(TaskState::Aggregating);
    assert_eq!(t.change("staged", BulkAction::Run).await, unfit);
    assert_eq!(t.change("staged", BulkAction::Delete).await, unfit);
    assert_eq!(t.broker.move_task(&queue(), &id("staged"), &other()).await.unwrap(), unfit);
    for chosen in [Chosen::InState(TaskState::Aggregating), Chosen::InGroup(group.clone())] {
        let slice = t.broker.change_some(&queue(), &chosen, BulkAction::Run, 100).await.unwrap();
        assert_eq!((slice.changed, slice.more), (1, false), "{chosen:?}");
        assert_eq!(t.change("waits", BulkAction::Delete).await, Changed::Done);
        join("waits").await;
    }
    t.broker.release_set(&set).await.unwrap();
    assert_eq!(t.change("staged", BulkAction::Archive).await, Changed::Done);
    assert_eq!(t.broker.move_task(&queue(), &id("waits"), &other()).await.unwrap(), Changed::Done);
    let moved = t.broker.claim_set(&other(), &group, &rules).await.unwrap().unwrap();
    assert_eq!(moved.members[0].message.as_ref().unwrap().queue, "other", "it waits in the same group there");
    check_whole(&t.file());
}

#[tokio::test]
async fn an_empty_queue_is_deleted_with_all_that_is_left_of_it() {
    let t = World::new().await;
    assert_eq!(t.broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::NotFound);
    t.every_state().await;
    t.broker.pause(&queue()).await.unwrap();
    for state in STATES {
        assert_eq!(t.broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::NotEmpty, "{state}");
        if state != "active" {
            assert_eq!(t.change(state, BulkAction::Delete).await, Changed::Done);
        }
    }
    t.clock.advance(Duration::from_secs(10));
    t.broker.end_orphan(&queue(), &id("active"), "gone").await.unwrap();
    t.change("active", BulkAction::Delete).await;
    t.sql("INSERT INTO ulock(q, key, id, until) VALUES (1, 'left', 'nobody', 1)");
    assert_eq!(t.broker.delete_queue(&queue()).await.unwrap(), QueueDeleted::Done);
    for table in ["queue", "tally", "stat", "ulock", "task", "body"] {
        assert_eq!(t.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert!(t.broker.queues().await.unwrap().is_empty());
    enqueue(&t.broker, task("again")).await.unwrap();
    assert_eq!(dequeue(&t.broker, &t.member, 1).await.len(), 1, "a new one is not paused");
}

#[tokio::test]
async fn a_queue_deleted_in_the_middle_of_a_commit_leaves_no_counts_behind() {
    let t = World::new().await;
    enqueue(&t.broker, task("a")).await.unwrap();
    // While another connection holds the lock, all calls below queue up for one commit.
    let holder = rusqlite::Connection::open(t.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (queue, a) = (queue(), id("a"));
    let (_, deleted, gone, ()) = tokio::join!(
        biased;
        t.broker.pause(&queue),
        t.broker.change_task(&queue, &a, None, BulkAction::Delete),
        t.broker.delete_queue(&queue),
        async { holder.execute_batch("COMMIT").unwrap() },
    );
    assert_eq!((deleted.unwrap(), gone.unwrap()), (Changed::Done, QueueDeleted::Done));
    assert_eq!(t.number("SELECT (SELECT count(*) FROM tally) + (SELECT count(*) FROM queue)"), 0);
}

//! Ticks, leaders and histories in a file that several programs share.

use std::sync::Arc;

use asynq_runtime::{
    broker::{
        Candidate, EntryId, EntryPlan, Inspect as _, Lead, Maintain as _, Overlap, Page, Schedules as _,
        Semaphores as _, Tick, Ticked,
    },
    task::{SchedulerEnqueueEvent, SchedulerEntry, TaskState, Timestamp},
};
use asynq_test_support::soon;
use chrono::DateTime;

use super::{others::check_whole, *};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const TTL: Duration = Duration::from_secs(10);

fn plan() -> EntryPlan {
    EntryPlan {
        queue: queue(),
        entry: EntryId::of("report", ""),
        spec: "@every 1s".into(),
        zone: "UTC".into(),
        revision: 0,
        supersedes: None,
        keep: 30 * DAY,
    }
}

/// Returns the tick at this Unix second.
fn tick(at: i64, overlap: Overlap) -> Tick {
    let (plan, at) = (plan(), DateTime::from_timestamp(at, 0).unwrap());
    let mut task = task(plan.entry.task_id(at).as_str());
    task.id_is_ours = true;
    Tick { plan, at, marker: 600 * SECOND, known: None, overlap, task }
}

fn candidate(token: &str, revision: u64) -> Candidate {
    Candidate { program: "shop".into(), token: token.into(), revision }
}

fn event(at: i64) -> SchedulerEnqueueEvent {
    let enqueue_time = Some(Timestamp { seconds: at, nanos: 0 });
    SchedulerEnqueueEvent { task_id: format!("cron:{at}"), enqueue_time }
}

fn entry_of(id: &str) -> SchedulerEntry {
    SchedulerEntry { id: id.into(), spec: "@every 1s".into(), ..SchedulerEntry::default() }
}

impl World {
    fn rows(&self, table: &str) -> i64 {
        let connection = self.sql();
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Fires the tick this many seconds after the start, when it is time.
    async fn fire(&self, after: i64, overlap: Overlap) -> Ticked {
        self.broker.tick(&tick(START + after, overlap)).await.unwrap()
    }

    /// Fires the first tick, whose task waits then.
    async fn first(&self) -> TaskId {
        assert!(matches!(self.fire(0, Overlap::Skip).await, Ticked::Enqueued(_)));
        self.clock.advance(SECOND);
        tick(START, Overlap::Skip).task.id
    }

    async fn state(&self, id: &TaskId) -> Option<TaskState> {
        self.broker.task(&queue(), id).await.unwrap().map(|task| task.state)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_fire_the_same_ticks_at_once_fire_each_once() {
    const TICKS: i64 = 40;
    let (_folder, file) = new_file();
    let first = chrono::Utc::now().timestamp() - TICKS - 5;
    let mut schedulers = Vec::new();
    for _ in 0..4 {
        let broker = open(&file).await;
        schedulers.push(tokio::spawn(async move {
            let mut fired = 0;
            for at in first..first + TICKS {
                match broker.tick(&tick(at, Overlap::Allow)).await.unwrap() {
                    Ticked::Enqueued(_) => fired += 1,
                    Ticked::Duplicate => {}
                    other => panic!("{other:?}"),
                }
            }
            broker.close().await;
            fired
        }));
    }
    let mut fired = 0;
    for scheduler in schedulers {
        fired += scheduler.await.unwrap();
    }
    assert_eq!(fired, TICKS);
    let broker = open(&file).await;
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, TICKS as u64);
    broker.close().await;
    check_whole(&file);
}

#[tokio::test]
async fn a_run_of_a_living_program_is_asked_to_stop_and_one_of_a_dead_program_is_deleted() {
    let w = World::new().await;
    let id = w.first().await;
    let worker = w.another_broker().await;
    let member = join(&worker).await;
    assert_eq!(dequeue(&worker, &member, 1).await.len(), 1);
    assert!(matches!(w.fire(1, Overlap::Skip).await, Ticked::Skipped(running) if running == id));
    // The worker closes while it has the task, long before the lease has passed.
    worker.close().await;
    w.clock.advance(SECOND);
    assert!(matches!(w.fire(2, Overlap::Skip).await, Ticked::Skipped(waiting) if waiting == id));
    assert_eq!(w.state(&id).await, Some(TaskState::Active), "it is the recoverer's");
    w.clock.advance(SECOND);
    assert!(matches!(w.fire(3, Overlap::Replace).await, Ticked::Enqueued(_)));
    assert_eq!(w.state(&id).await, None);
    w.end().await;
}

#[tokio::test]
async fn a_replaced_task_is_deleted_with_its_lock_and_its_failures() {
    let locked = |after: i64| {
        let mut tick = tick(START + after, Overlap::Replace);
        tick.task.message.unique_key = "k".into();
        tick.task.unique = Some(UniqueLock { key: "k".into(), ttl: 60 * SECOND });
        tick
    };
    let w = World::new().await;
    let member = join(&w.broker).await;
    assert!(matches!(w.broker.tick(&locked(0)).await.unwrap(), Ticked::Enqueued(_)));
    let first = locked(0).task.id;
    let run = dequeue(&w.broker, &member, 1).await.remove(0);
    let again = Action::Retry { delay: 60 * SECOND, error: Some("no".into()), counted: true, extra: Extra::default() };
    settle(&w.broker, outcome(&run, again)).await;
    assert_eq!(w.rows("failure"), 1);
    w.clock.advance(SECOND);
    assert!(matches!(w.broker.tick(&locked(1)).await.unwrap(), Ticked::Enqueued(_)));
    assert_eq!(w.state(&first).await, None);
    assert_eq!((w.rows("failure"), w.rows("task"), w.rows("ulock")), (0, 1, 1));
    // The task that runs now holds the lock, and keeps it.
    dequeue(&w.broker, &member, 1).await;
    w.clock.advance(SECOND);
    assert!(matches!(w.broker.tick(&locked(2)).await.unwrap(), Ticked::Refused(Refused::Duplicate { .. })));
    let second = locked(1).task.id;
    w.clock.advance(SECOND);
    let ticked = w.fire(3, Overlap::Replace).await;
    assert!(matches!(ticked, Ticked::Enqueued(_)), "nothing is in its way: {ticked:?}");
    let requests: i64 =
        w.sql().query_row("SELECT count(*) FROM signal WHERE id = ?1", [second.as_str()], |row| row.get(0)).unwrap();
    assert_eq!(requests, 1, "the one that runs is asked to stop");
    w.end().await;
}

#[tokio::test]
async fn a_clock_that_was_a_day_ahead_stops_neither_ticks_nor_leaders() {
    let w = World::new().await;
    let now = w.broker.now();
    w.clock.advance(DAY);
    assert!(matches!(w.fire(86_400, Overlap::Allow).await, Ticked::Enqueued(_)));
    assert_eq!(w.broker.lead(&candidate("ahead", 0), TTL).await.unwrap(), Lead::Ours { wanted: false });
    w.clock.set(now);
    assert!(matches!(w.fire(0, Overlap::Allow).await, Ticked::Enqueued(_)), "of this moment");
    w.clock.advance(SECOND);
    assert!(matches!(w.fire(1, Overlap::Allow).await, Ticked::Enqueued(_)));
    assert_eq!(w.broker.lead(&candidate("b", 0), TTL).await.unwrap(), Lead::Ours { wanted: false });
    assert!(matches!(w.broker.lead(&candidate("c", 0), TTL).await.unwrap(), Lead::Another(_)));
    w.clock.set(now + DAY);
    assert!(matches!(w.fire(86_400, Overlap::Allow).await, Ticked::Duplicate), "its marker is still there");
    w.end().await;
}

#[tokio::test]
async fn the_janitor_deletes_expired_rows_and_no_others() {
    let w = World::new().await;
    w.first().await;
    w.broker.show_entries("s", &[entry_of("a"), entry_of("b")], TTL).await.unwrap();
    w.broker.record_enqueue("e", &event(1)).await.unwrap();
    w.broker.lead(&candidate("a", 1), TTL / 2).await.unwrap();
    w.broker.lead(&candidate("b", 2), TTL).await.unwrap();
    // Workers died with these, and no task asks for one of their scopes again.
    for scope in ["export:a", "export:b", "export:c"] {
        let task = TaskId::new("t").unwrap();
        let until = w.broker.now() + TTL;
        assert!(w.broker.acquire_token(scope, 1, &task, until, TTL, false).await.unwrap().is_some());
    }
    let tables = ["tick", "cron", "shown", "lead", "enqueued", "history", "token"];
    let rows = || tables.map(|table| w.rows(table));
    let nowhere = QueueName::new("nowhere").unwrap();
    for (after, left) in [
        (Duration::ZERO, [1, 1, 2, 1, 1, 1, 3]),
        (TTL / 2, [1, 1, 2, 1, 1, 1, 3]),
        (TTL / 2, [1, 1, 0, 0, 1, 1, 0]),
        (600 * SECOND, [0, 1, 0, 0, 1, 1, 0]),
        (30 * DAY, [0, 0, 0, 0, 1, 1, 0]),
        (90 * DAY, [0; 7]),
    ] {
        w.clock.advance(after);
        w.broker.sweep(&nowhere).await.unwrap();
        assert_eq!(rows(), left, "after {after:?}");
    }
    w.end().await;
}

#[tokio::test]
async fn expired_rows_are_invisible_before_the_janitor_runs() {
    let w = World::new().await;
    w.first().await;
    w.broker.show_entries("s", &[entry_of("a")], TTL).await.unwrap();
    w.broker.record_enqueue("e", &event(1)).await.unwrap();
    assert_eq!(w.broker.scheduler_entries().await.unwrap(), [entry_of("a")]);
    w.clock.advance(90 * DAY);
    assert_eq!(w.broker.scheduler_entries().await.unwrap(), []);
    assert_eq!(w.broker.enqueue_history("e", Page::default()).await.unwrap(), []);
    assert_eq!(w.broker.entry(&queue(), &plan().entry).await.unwrap(), None);
    assert!(!w.broker.pause_entry(&queue(), &plan().entry, true).await.unwrap());
    // Later rows do not bring the old ones back.
    w.broker.record_enqueue("e", &event(2)).await.unwrap();
    assert_eq!(w.broker.enqueue_history("e", Page::default()).await.unwrap(), [event(2)]);
    w.broker.show_entries("t", &[entry_of("b")], TTL).await.unwrap();
    assert_eq!(w.rows("shown"), 1);
    w.end().await;
}

#[tokio::test]
async fn a_waiter_in_another_program_is_notified_of_a_resignation_at_once() {
    let (_folder, file) = new_file();
    let (leader, waiter) = (open(&file).await, Arc::new(open(&file).await));
    let (old, new) = (candidate("old", 1), candidate("new", 1));
    // The first round has no notification, so that the safety net sees the change; the second has one.
    for with_notification in [false, true] {
        if with_notification {
            join(&waiter).await;
        }
        assert_eq!(leader.lead(&old, HOUR).await.unwrap(), Lead::Ours { wanted: false });
        assert!(matches!(waiter.lead(&new, HOUR).await.unwrap(), Lead::Another(left) if left > HOUR / 2));
        let waits = tokio::spawn({
            let waiter = Arc::clone(&waiter);
            async move { waiter.wait_for_lead("shop", HOUR).await }
        });
        waiter.resign(&new).await.unwrap();
        leader.resign(&old).await.unwrap();
        soon(waits).await.unwrap().unwrap();
        assert_eq!(waiter.lead(&new, HOUR).await.unwrap(), Lead::Ours { wanted: false });
        waiter.resign(&new).await.unwrap();
    }
}

#[tokio::test]
async fn a_waiter_in_the_same_program_needs_no_safety_net() {
    // A broker in memory has no safety net.
    let broker = SqliteBroker::in_memory(patient()).await.unwrap();
    let leader = candidate("a", 1);
    broker.lead(&leader, HOUR).await.unwrap();
    // The waiter has asked who leads before the leader resigns.
    let both = async { tokio::join!(biased; broker.wait_for_lead("shop", HOUR), broker.resign(&leader)) };
    let (waited, resigned) = soon(both).await;
    waited.unwrap();
    resigned.unwrap();
}

#[tokio::test]
async fn a_lead_that_is_not_renewed_is_free_when_its_time_is_over() {
    let w = World::new().await;
    let other = w.another_broker().await;
    w.broker.lead(&candidate("a", 0), TTL).await.unwrap();
    assert_eq!(other.lead(&candidate("b", 0), TTL).await.unwrap(), Lead::Another(TTL));
    other.wait_for_lead("shop", Duration::from_millis(20)).await.unwrap();
    assert_eq!(other.lead(&candidate("b", 0), TTL).await.unwrap(), Lead::Another(TTL), "the limit was reached");
    let clock = w.clock.clone();
    let turned = async move { clock.advance(TTL) };
    let (waited, ()) = soon(async { tokio::join!(other.wait_for_lead("shop", HOUR), turned) }).await;
    waited.unwrap();
    assert_eq!(other.lead(&candidate("b", 0), TTL).await.unwrap(), Lead::Ours { wanted: false });
    w.end().await;
}

#[tokio::test]
async fn it_works_in_another_programs_file_and_in_memory() {
    let w = World::with("?shared=1").await;
    let memory = SqliteBroker::in_memory(with_clock(w.clock.clone())).await.unwrap();
    for broker in [&w.broker, &memory] {
        let state = broker.plan_entry(&plan()).await.unwrap().state;
        assert_eq!((state.last, state.now), (broker.now(), broker.now()));
        w.clock.advance(2 * SECOND);
        let at = broker.now().timestamp();
        let fired = broker.tick(&tick(at, Overlap::Replace)).await.unwrap();
        assert!(matches!(fired, Ticked::Enqueued(_)), "{fired:?}");
        let again = broker.tick(&tick(at, Overlap::Replace)).await.unwrap();
        assert!(matches!(again, Ticked::Duplicate), "{again:?}");
        assert!(broker.pause_entry(&queue(), &plan().entry, true).await.unwrap());
        broker.show_entries("s", &[entry_of("b"), entry_of("a")], TTL).await.unwrap();
        assert_eq!(broker.scheduler_entries().await.unwrap(), [entry_of("b"), entry_of("a")]);
        broker.withdraw_entries("s").await.unwrap();
        assert_eq!(broker.scheduler_entries().await.unwrap(), []);
        let entry = plan().entry;
        broker.record_enqueue(entry.as_str(), &event(1)).await.unwrap();
        broker.sweep(&queue()).await.unwrap();
        broker.forget_entry(&queue(), &entry).await.unwrap();
        assert_eq!(broker.entry(&queue(), &entry).await.unwrap(), None);
        assert_eq!(broker.enqueue_history(entry.as_str(), Page::default()).await.unwrap(), []);
        assert_eq!(broker.lead(&candidate("a", 0), TTL).await.unwrap(), Lead::Ours { wanted: false });
        assert_eq!(broker.lead(&candidate("b", 0), TTL).await.unwrap(), Lead::Another(TTL));
        broker.resign(&candidate("a", 0)).await.unwrap();
        soon(broker.wait_for_lead("shop", HOUR)).await.unwrap();
    }
    w.broker.close().await;
}

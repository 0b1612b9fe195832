//! A task's way through the file.

use std::pin::pin;

use asynq_runtime::{
    broker::{Diagnose as _, Inspect as _, Maintain as _, OddityKind, Quarantined, RetryOrder, RunToken},
    clock::{Clock as _, ManualClock},
    task::TaskState,
};
use asynq_test_support::soon;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::answered;

async fn both() -> (tempfile::TempDir, [SqliteBroker; 2]) {
    let (folder, file) = new_file();
    (folder, [SqliteBroker::in_memory(patient()).await.unwrap(), open(&file).await])
}

#[tokio::test]
async fn a_task_goes_in_comes_out_and_is_gone_when_done() {
    let (_folder, brokers) = both().await;
    for broker in brokers {
        let member = join(&broker).await;
        assert!(dequeue(&broker, &member, 10).await.is_empty());
        for id in ["a", "b", "c"] {
            assert_eq!(enqueue(&broker, task(id)).await.unwrap().state, TaskState::Pending);
        }
        let runs = dequeue(&broker, &member, 2).await;
        assert_eq!(ids(&runs), ["a", "b"]);
        assert_eq!(runs[0].message.as_ref().unwrap(), &task("a").message);
        assert_eq!(settle(&broker, outcome(&runs[0], Action::Done)).await, Settled::Ok);
        assert_eq!(settle(&broker, outcome(&runs[0], Action::Done)).await, Settled::Gone);
        assert_eq!(settle(&broker, Settlement { resend: true, ..outcome(&runs[0], Action::Done) }).await, Settled::Ok);
        let stats = broker.queue_stats(&queue()).await.unwrap();
        assert_eq!(
            (stats.size, stats.pending, stats.active, stats.processed_total, stats.failed_total),
            (2, 1, 1, 1, 0)
        );
        broker.close().await;
    }
}

/// A server extends the lease of a task before its start where the task was taken long ago.
#[tokio::test]
async fn a_task_that_came_late_in_a_wait_was_taken_when_it_came() {
    let clock = clock();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    let member = join(&broker).await;
    let (wanted, never) = ([Wanted { queue: queue(), n: 1 }], CancellationToken::new());
    let mut wait = pin!(broker.wait_and_dequeue(&member, &wanted, Quarantined::All, HOUR, &never));
    assert!(wait.as_mut().now_or_never().is_none());
    clock.advance(HOUR);
    enqueue(&broker, task("a")).await.unwrap();
    let run = soon(wait).await.unwrap().remove(0);
    assert_eq!(run.taken_at, clock.now());
}

#[tokio::test]
async fn a_stale_run_changes_nothing_and_a_receipt_recognises_a_repeat() {
    let (_folder, brokers) = both().await;
    for broker in brokers {
        let member = join(&broker).await;
        enqueue(&broker, task("a")).await.unwrap();
        let first = dequeue(&broker, &member, 1).await.remove(0);
        let retry = |run| {
            let action = Action::Retry {
                delay: Duration::ZERO,
                error: Some("no luck".into()),
                counted: true,
                extra: Extra::default(),
            };
            outcome(run, action)
        };
        let mut forged = first.clone();
        forged.key.token = RunToken(first.key.token.0 - 1);
        assert_eq!(settle(&broker, retry(&forged)).await, Settled::Fenced);
        assert_eq!(settle(&broker, retry(&first)).await, Settled::Ok);
        assert_eq!(settle(&broker, Settlement { resend: true, ..retry(&first) }).await, Settled::Ok);
        assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
        let second = dequeue(&broker, &member, 1).await.remove(0);
        assert!(second.key.token > first.key.token);
        let message = second.message.as_ref().unwrap();
        assert_eq!((message.retried, message.error_msg.as_str()), (1, "no luck"));
        assert_eq!(
            settle(&broker, Settlement { resend: true, ..retry(&first) }).await,
            Settled::Ok,
            "the first's receipt"
        );
        assert_eq!(settle(&broker, outcome(&first, Action::Done)).await, Settled::Fenced, "it has ended otherwise");
        assert_eq!(
            answered(broker.extend(&[first.key.clone(), second.key.clone()]).await),
            [Settled::Fenced, Settled::Ok]
        );
        assert_eq!(settle(&broker, outcome(&second, Action::Done)).await, Settled::Ok);
        assert_eq!(answered(broker.extend(std::slice::from_ref(&second.key)).await), [Settled::Gone]);
    }
}

#[tokio::test]
async fn tasks_become_due_to_the_millisecond_and_in_due_order() {
    let clock = ManualClock::default();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    let member = join(&broker).await;
    for (id, ms) in [("late", 30), ("early", 10), ("middle", 20)] {
        let task = NewTask { when: When::In(Duration::from_millis(ms)), ..task(id) };
        let placed = enqueue(&broker, task).await.unwrap();
        assert_eq!(placed.state, TaskState::Scheduled);
        assert_eq!(placed.process_at.timestamp_millis(), clock.now().timestamp_millis() + ms as i64);
    }
    clock.advance(Duration::from_millis(9));
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 0);
    clock.advance(Duration::from_millis(1));
    soon(broker.wait_for_due(&[queue()], HOUR)).await.unwrap();
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    enqueue(&broker, task("new")).await.unwrap();
    clock.advance(Duration::from_millis(100));
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 2);
    enqueue(&broker, task("newest")).await.unwrap();
    assert_eq!(ids(&dequeue(&broker, &member, 10).await), ["early", "new", "middle", "late", "newest"]);
}

#[tokio::test]
async fn more_than_one_slice_is_forwarded_in_due_order() {
    let clock = ManualClock::default();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    let member = join(&broker).await;
    let count = 250;
    let batch = (0..count)
        .rev()
        .map(|n| NewTask { when: When::In(Duration::from_millis(n + 1)), ..task(&format!("{n:03}")) })
        .collect();
    assert!(broker.enqueue(batch).await.iter().all(Result::is_ok));
    clock.advance(Duration::from_secs(1));
    for (moved, more) in [(100, true), (100, true), (50, false)] {
        let forwarded = broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
        assert_eq!((forwarded.moved, forwarded.more), (moved, more));
    }
    enqueue(&broker, task("new")).await.unwrap();
    let expected: Vec<_> = (0..count).map(|n| format!("{n:03}")).chain(["new".into()]).collect();
    let mut runs = dequeue(&broker, &member, 1_000).await;
    assert_eq!(ids(&runs), expected);
    runs.truncate(1);
    settle(&broker, outcome(&runs[0], Action::Done)).await;
}

#[tokio::test]
async fn a_wait_for_a_due_time_follows_a_clock_turned_by_hand() {
    let clock = ManualClock::default();
    let broker = Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap());
    enqueue(&broker, NewTask { when: When::In(Duration::from_secs(3_600)), ..task("a") }).await.unwrap();
    // The limit of this wait is real time.
    soon(broker.wait_for_due(&[queue()], Duration::from_millis(20))).await.unwrap();
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 0);
    let waiting = tokio::spawn({
        let broker = Arc::clone(&broker);
        async move { broker.wait_for_due(&[queue()], Duration::MAX).await }
    });
    clock.advance(Duration::from_secs(3_600));
    soon(waiting).await.unwrap().unwrap();
    assert_eq!(broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
}

#[tokio::test]
async fn of_several_requeued_tasks_the_last_is_the_next() {
    let broker = SqliteBroker::in_memory(patient()).await.unwrap();
    let member = join(&broker).await;
    for id in ["a", "b", "c"] {
        enqueue(&broker, task(id)).await.unwrap();
    }
    let runs = dequeue(&broker, &member, 2).await;
    // A server requeues tasks in this order, so that their old order is kept.
    let requeues: Vec<_> = runs.iter().rev().map(|run| outcome(run, Action::Requeue)).collect();
    broker.settle(&requeues).await.into_iter().for_each(|settled| assert_eq!(settled.unwrap(), Settled::Ok));
    assert_eq!(ids(&dequeue(&broker, &member, 3).await), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_unique_lock_is_held_until_the_task_ends_and_an_id_conflict_leaves_none() {
    let broker = SqliteBroker::in_memory(patient()).await.unwrap();
    let member = join(&broker).await;
    enqueue(&broker, unique("a", "k")).await.unwrap();
    match enqueue(&broker, unique("b", "k")).await {
        Err(Refused::Duplicate { holder }) => assert_eq!(holder, TaskId::new("a").ok()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(enqueue(&broker, unique("a", "other")).await, Err(Refused::IdConflict)));
    let action = Action::Archive { error: "enough".into(), extra: Extra::default() };
    let run = dequeue(&broker, &member, 1).await.remove(0);
    settle(&broker, outcome(&run, action)).await;
    enqueue(&broker, unique("b", "k")).await.unwrap();
    enqueue(&broker, unique("c", "other")).await.unwrap();
    let counts = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((counts.pending, counts.archived, counts.size), (2, 1, 3));
}

#[tokio::test]
async fn our_own_first_send_is_recognised_by_id_and_message() {
    let broker = SqliteBroker::in_memory(patient()).await.unwrap();
    let ours = NewTask { id_is_ours: true, ..task("a") };
    enqueue(&broker, ours.clone()).await.unwrap();
    assert_eq!(enqueue(&broker, ours.clone()).await.unwrap().state, TaskState::Pending);
    let mut other = ours;
    other.message.payload = b"other".as_slice().into();
    assert!(matches!(enqueue(&broker, other).await, Err(Refused::IdConflict)));
    assert!(matches!(enqueue(&broker, task("a")).await, Err(Refused::IdConflict)), "a user's id is taken");
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 1);
}

#[tokio::test]
async fn archives_are_trimmed_by_age_and_exactly_to_their_size() {
    let clock = ManualClock::default();
    let broker = SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap();
    let member = join(&broker).await;
    broker.enqueue((0..20).map(|n| task(&format!("{n:02}"))).collect()).await;
    for run in dequeue(&broker, &member, 20).await {
        clock.advance(Duration::from_secs(1));
        let action = Action::Archive { error: "enough".into(), extra: Extra::default() };
        settle(&broker, outcome(&run, action)).await;
    }
    assert_eq!(broker.trim_archive(&queue(), Duration::from_secs(60), 100, 500).await.unwrap(), 0);
    assert_eq!(broker.trim_archive(&queue(), Duration::from_secs(60), 15, 3).await.unwrap(), 3);
    assert_eq!(broker.trim_archive(&queue(), Duration::from_secs(60), 15, 500).await.unwrap(), 2);
    assert_eq!(broker.trim_archive(&queue(), Duration::from_millis(9_500), 15, 500).await.unwrap(), 5);
    let left = broker.tasks(&queue(), TaskState::Archived, Default::default()).await.unwrap();
    assert_eq!(left.len(), 10);
    assert_eq!(left[0].id, "10");
    assert_eq!(left[0].last_error.as_deref(), Some("enough"));
}

/// Tasks that are lost in a salvage, or that an operator deletes by SQL, stay in the counts.
#[tokio::test]
async fn a_count_that_is_too_high_deletes_no_task_and_holds_up_no_wait() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    for id in ["a", "b", "c"] {
        enqueue(&broker, task(id)).await.unwrap();
        let run = dequeue(&broker, &member, 1).await.remove(0);
        let action = Action::Archive { error: "enough".into(), extra: Extra::default() };
        settle(&broker, outcome(&run, action)).await;
    }
    let other = rusqlite::Connection::open(&file).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute("UPDATE tally SET n = n + 100", []).unwrap();
    for (max_size, deleted) in [(10, 0), (3, 0), (2, 1)] {
        assert_eq!(broker.trim_archive(&queue(), HOUR, max_size, 500).await.unwrap(), deleted, "at most {max_size}");
    }
    let left = broker.tasks(&queue(), TaskState::Archived, Default::default()).await.unwrap();
    assert_eq!(left.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(soon(broker.wait_until_idle(&[queue()], HOUR)).await.unwrap());
}

/// The statement is that of the guide. A salvage may leave counts too high, and a queue is not deleted then.
#[tokio::test]
async fn the_tasks_of_a_salvaged_file_can_be_counted_anew() {
    let page = include_str!("../../../docs/operations.md");
    let statement = page.lines().find_map(|line| line.strip_prefix("sqlite3 /var/lib/new.db '")?.strip_suffix('\''));
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    enqueue(&broker, task("a")).await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    let low = QueueName::new("low").unwrap();
    let mut lost = task("b");
    (lost.message.queue, lost.queue) = ("low".into(), low.clone());
    enqueue(&broker, lost).await.unwrap();
    other.execute("UPDATE tally SET n = n + 100", []).unwrap();
    other.execute("DELETE FROM tally WHERE q = (SELECT q FROM queue WHERE name = 'low')", []).unwrap();
    let wrong = async || broker.examine(&queue(), 100).await.unwrap().count(OddityKind::WrongCount);
    assert!(wrong().await > 0);
    other.execute_batch(statement.unwrap()).unwrap();
    assert_eq!((wrong().await, broker.queue_stats(&queue()).await.unwrap().pending), (0, 1));
    assert_eq!(broker.queue_stats(&low).await.unwrap().pending, 1);
}

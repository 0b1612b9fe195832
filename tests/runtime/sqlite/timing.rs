//! The duration of wake-ups. `scripts/lanes` runs these tests at the end, one at a time.

use std::{fs, time::Instant};

use asynq_runtime::{
    Client, RawTask,
    broker::{BrokerErrorKind, Quarantined},
    rusqlite::{Connection, TransactionBehavior::Immediate},
};
use asynq_test_support::{eventually, soon};

use super::*;
use crate::timing::half_are_below;

/// The limit for a wake-up by a notification; the safety net alone takes 50 ms on average.
const QUIET: Duration = Duration::from_millis(20);

/// Waits in the other program, while `write` commits a task; returns how long after `write` began the wait ended, and how
/// long `write` took.
async fn wake_up(worker: &Arc<SqliteBroker>, write: impl AsyncFnOnce()) -> (Duration, Duration) {
    let waiting = tokio::spawn({
        let worker = Arc::clone(worker);
        async move {
            worker.wait_for_work(&[queue()], Quarantined::All, HOUR).await.unwrap();
            Instant::now()
        }
    });
    // The worker sleeps after this time.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let begun = Instant::now();
    write().await;
    let written = begun.elapsed();
    (soon(waiting).await.unwrap().saturating_duration_since(begun), written)
}

async fn run_one(worker: &SqliteBroker, member: &Member) {
    let run = dequeue(worker, member, 1).await.remove(0);
    settle(worker, outcome(&run, Action::Done)).await;
}

#[tokio::test]
async fn half_of_all_wake_ups_of_another_program_take_less_than_twenty_milliseconds() {
    let (_folder, file) = new_file();
    let (producer, worker) = (open(&file).await, Arc::new(open(&file).await));
    let member = join(&worker).await;
    let (mut took, mut writes) = (Vec::new(), Vec::new());
    for n in 0..41 {
        let enqueues = async || assert!(enqueue(&producer, task(&n.to_string())).await.is_ok());
        let (woken, written) = wake_up(&worker, enqueues).await;
        took.push(woken);
        writes.push(written);
        run_one(&worker, &member).await;
    }
    half_are_below(took, QUIET, writes);
}

#[tokio::test]
async fn half_of_all_wake_ups_after_a_transaction_of_the_caller_take_less_than_twenty_milliseconds() {
    let (_folder, file) = new_file();
    let (client, worker) = (Client::new(Arc::new(open(&file).await)), Arc::new(open(&file).await));
    let member = join(&worker).await;
    let mut theirs = Connection::open(&file).unwrap();
    let (mut took, mut writes) = (Vec::new(), Vec::new());
    for n in 0..41 {
        let commits = async || {
            let tx = theirs.transaction_with_behavior(Immediate).unwrap();
            client.enqueue_in_tx(&tx, RawTask::new("mail", "x").task_id(n.to_string())).unwrap();
            tx.commit().unwrap();
            client.wake();
        };
        let (woken, written) = wake_up(&worker, commits).await;
        took.push(woken);
        writes.push(written);
        run_one(&worker, &member).await;
    }
    half_are_below(took, QUIET, writes);
}

#[tokio::test]
async fn a_deleted_file_is_noticed_within_seconds() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    fs::remove_file(&file).unwrap();
    let begun = Instant::now();
    let error = eventually("the watch notices it", async || broker.ping().await.err()).await;
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    // The file watcher looks once a second.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

//! Faults of a file: locks held by others, files that vanish, contents that are damaged.

use std::fs;

use asynq_runtime::{
    broker::{BrokerErrorKind, Inspect as _, Maintain as _, Page},
    task::TaskState,
};

use asynq_test_support::{eventually, soon};

use super::*;

#[tokio::test]
async fn a_call_that_ends_while_another_program_holds_the_lock_never_happens() {
    let (_folder, file) = new_file();
    let broker = open_brief(&file).await;
    let member = join(&broker).await;
    for id in ["a", "b", "c"] {
        enqueue(&broker, task(id)).await.unwrap();
    }
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();

    // The lock is held until both calls have returned.
    let error = soon(broker.dequeue(&member, &[Wanted { queue: queue(), n: 2 }])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_ambiguous()), (BrokerErrorKind::Timeout, false), "{error}");
    let Err(Refused::Broker(error)) = soon(enqueue(&broker, task("never"))).await else {
        panic!("the writer is stuck")
    };
    assert!(error.is_unavailable() && !error.is_ambiguous(), "{error}");
    let stats = eventually("a reader answers in time", async || broker.queue_stats(&queue()).await.ok()).await;
    assert_eq!(stats.pending, 3, "readers do not care");

    holder.execute_batch("COMMIT").unwrap();
    let mut runs = eventually("the writer goes on", async || {
        let runs = broker.dequeue(&member, &[Wanted { queue: queue(), n: 1 }]).await.unwrap_or_default();
        (!runs.is_empty()).then_some(runs)
    })
    .await;
    assert_eq!(ids(&runs), ["a"]);
    runs.extend(broker.dequeue(&member, &[Wanted { queue: queue(), n: 2 }]).await.unwrap());
    assert_eq!(ids(&runs), ["a", "b", "c"]);
    for run in &runs {
        assert_eq!(settle(&broker, outcome(run, Action::Done)).await, Settled::Ok);
    }
    assert_eq!(
        broker.queue_stats(&queue()).await.unwrap().size,
        0,
        "a call that was given up before it began never happens"
    );
}

#[tokio::test]
async fn a_broker_whose_writer_is_stuck_can_be_closed_in_time() {
    let (_folder, file) = new_file();
    let broker = open_brief(&file).await;
    let member = join(&broker).await;
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(broker.beat(&member, &ServerInfo::default(), &[]).await.unwrap_err().is_unavailable());
    // The lock is held until the broker is closed.
    soon(broker.close()).await;
    holder.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn the_write_ahead_log_is_emptied_when_there_is_time() {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let wal = folder.path().join("jobs.db-wal");
    let reader = rusqlite::Connection::open(&file).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM task;").unwrap();
    let large = |n: usize| {
        let mut large = task(&n.to_string());
        large.message.payload = vec![7; 20_000].into();
        large
    };
    assert!(broker.enqueue((0..600).map(large).collect()).await.iter().all(Result::is_ok));
    assert!(fs::metadata(&wal).unwrap().len() > 8 << 20, "the reader keeps it from being emptied");
    // The writer checkpoints after one idle second, and must not wait for the reader then, which reads until this call is done.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    enqueue(&broker, task("small")).await.unwrap();
    reader.execute_batch("COMMIT").unwrap();
    let is_small = async || (fs::metadata(&wal).unwrap().len() <= 4 << 20).then_some(());
    eventually("the log is emptied", is_small).await;
}

#[tokio::test]
async fn tasks_taken_for_a_caller_that_went_away_come_with_the_next_call() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    enqueue(&broker, task("a")).await.unwrap();
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let wanted = [Wanted { queue: queue(), n: 1 }];
    assert!(tokio::time::timeout(Duration::from_millis(200), broker.dequeue(&member, &wanted)).await.is_err());
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(ids(&dequeue(&broker, &member, 1).await), ["a"]);
}

#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_stops_every_call_with_the_reason() {
    for replace in [false, true] {
        let (folder, file) = new_file();
        let broker = open(&file).await;
        let member = join(&broker).await;
        enqueue(&broker, task("a")).await.unwrap();
        fs::rename(&file, folder.path().join("moved")).unwrap();
        if replace {
            fs::write(&file, "").unwrap();
        }
        // No call writes meanwhile, so only the file watcher can notice it.
        let error = eventually("the watch notices it", async || broker.ping().await.err()).await;
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
        let reason = if replace { "was replaced" } else { "was deleted or moved away" };
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(
            broker.dequeue(&member, &[Wanted { queue: queue(), n: 1 }]).await.unwrap_err().kind(),
            BrokerErrorKind::Corrupt
        );
        let Err(Refused::Broker(error)) = enqueue(&broker, task("b")).await else { panic!("nothing is accepted") };
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
        broker.close().await;
    }
}

/// A program that follows the link would have a log of its own beside the file: two logs of one database.
#[tokio::test]
async fn a_file_that_is_moved_and_linked_to_stops_every_call_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (file, moved) = (folder.path().join("jobs.db"), folder.path().join("moved.db"));
    let broker = open(&file).await;
    enqueue(&broker, task("a")).await.unwrap();
    fs::rename(&file, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &file).unwrap();
    let error = soon(broker.broken()).await;
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    assert!(error.to_string().contains("was deleted or moved away"), "{error}");
    let Err(Refused::Broker(error)) = enqueue(&broker, task("b")).await else { panic!("nothing is accepted") };
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    assert!(fs::metadata(folder.path().join("jobs.db-wal")).is_ok(), "the log with the last commits stays");
    broker.close().await;
}

/// `cp` of the wrong file has this effect: the name stays, and so does the inode.
#[tokio::test]
async fn a_file_that_is_overwritten_stops_every_call_with_the_reason() {
    for (bytes, reason) in
        [("the wrong file", "was overwritten or damaged while it was in use, or its disk failed"), ("", "was emptied")]
    {
        overwritten(bytes, reason).await;
    }
}

async fn overwritten(bytes: &str, reason: &str) {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    enqueue(&broker, task("a")).await.unwrap();
    if !bytes.is_empty() {
        // All tasks are in the file, and none in the log.
        rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    }
    fs::write(&file, bytes).unwrap();
    // The first read of the file fails. Until then a connection may answer from the pages that it keeps.
    eventually("it is noticed", async || broker.queue_stats(&queue()).await.err()).await;
    let stopped = soon(broker.broken()).await;
    assert_eq!(stopped.kind(), BrokerErrorKind::Corrupt);
    assert!(stopped.to_string().contains(reason), "{stopped}");
    let Err(Refused::Broker(error)) = enqueue(&broker, task("b")).await else { panic!("nothing is accepted") };
    assert_eq!(error.to_string(), stopped.to_string());
    let wanted = [Wanted { queue: queue(), n: 1 }];
    assert_eq!(broker.dequeue(&member, &wanted).await.unwrap_err().to_string(), stopped.to_string());
    assert_eq!(broker.ping().await.unwrap_err().to_string(), stopped.to_string());
    // Commits that are in the log alone are not deleted with the file.
    let log = fs::metadata(folder.path().join("jobs.db-wal")).unwrap();
    assert_eq!(log.len() > 0, bytes.is_empty());
    broker.close().await;
}

#[tokio::test]
async fn a_heartbeat_notices_at_once_that_the_file_is_gone() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    fs::remove_file(&file).unwrap();
    let error = broker.beat(&member, &ServerInfo::default(), &[]).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
}

#[tokio::test]
async fn bytes_that_are_not_a_message_are_delivered_with_the_reason_and_archived_readable() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    for id in ["bad", "swapped", "lost", "good"] {
        enqueue(&broker, task(id)).await.unwrap();
    }
    let damage = rusqlite::Connection::open(&file).unwrap();
    let of = |id: &str| format!("(SELECT seq FROM task WHERE id = '{id}')");
    damage.execute_batch(&format!("UPDATE body SET msg = x'ffff' WHERE seq = {}", of("bad"))).unwrap();
    let good: Vec<u8> = task("good").message.encode();
    damage.execute(&format!("UPDATE body SET msg = ?1 WHERE seq = {}", of("swapped")), [good]).unwrap();
    damage.execute_batch(&format!("DELETE FROM body WHERE seq = {}", of("lost"))).unwrap();

    let runs = dequeue(&broker, &member, 3).await;
    assert_eq!(ids(&runs), ["bad", "swapped", "good"]);
    let bad = runs[0].message.as_ref().unwrap_err();
    assert_eq!(&bad.raw[..], b"\xff\xff");
    assert!(runs[1].message.as_ref().unwrap_err().reason.contains("its id is \"good\""));
    assert!(runs[2].message.is_ok());

    let mut in_its_place = task("bad").message;
    in_its_place.payload = bad.raw.clone();
    let action = Action::Archive { error: bad.to_string(), extra: Extra::default() };
    let run = runs[0].key.clone();
    let archive = Settlement { run, message: Arc::new(in_its_place), action, resend: false };
    assert_eq!(settle(&broker, archive).await, Settled::Ok);
    let mut archived = broker.tasks(&queue(), TaskState::Archived, Page::default()).await.unwrap();
    archived.sort_by_key(|task| task.id == "bad");
    let shown: Vec<_> = archived.iter().map(|task| (&*task.r#type, &task.payload[..])).collect();
    assert_eq!(shown, [("undecodable", &b""[..]), ("test", b"\xff\xff")]);
    let reason = |n: usize| archived[n].last_error.as_deref().unwrap();
    assert!(reason(0).starts_with("the message of this task is missing"), "{}", reason(0));
    assert!(archived[0].archived_at.is_some() && archived[0].last_failed_at == archived[0].archived_at);
    assert!(reason(1).starts_with("undecodable task message (2 bytes)"), "{}", reason(1));
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!((stats.archived, stats.active, stats.pending), (2, 2, 0), "the lost one is set aside");
}

#[tokio::test]
async fn a_sweep_removes_tasks_without_their_message_and_ends_leases_of_another_age() {
    let (_folder, file) = new_file();
    let mut options = patient();
    options.lease = Duration::from_millis(100);
    let broker = SqliteBroker::open(&url(&file), options).await.unwrap();
    let member = join(&broker).await;
    for id in ["a", "b", "c"] {
        enqueue(&broker, task(id)).await.unwrap();
    }
    let other = QueueName::new("other").unwrap();
    enqueue(&broker, NewTask { queue: other.clone(), ..task("d") }).await.unwrap();
    assert_eq!(dequeue(&broker, &member, 2).await.len(), 2);
    let damage = rusqlite::Connection::open(&file).unwrap();
    damage.execute_batch("DELETE FROM body WHERE seq IN (SELECT seq FROM task WHERE id IN ('b', 'c', 'd'))").unwrap();
    damage.execute_batch("UPDATE task SET at = at + 86400000 WHERE id = 'a'").unwrap();
    let swept = broker.sweep(&queue()).await.unwrap();
    assert_eq!((swept.leases_restored, swept.ghosts_removed), (1, 2));
    assert_eq!(broker.sweep(&other).await.unwrap().ghosts_removed, 1, "each queue by its own sweep");
    // The server of the run lives, so that a second look is needed, a lease later.
    let recovered = eventually("the run is recovered", async || {
        let recovered = broker.recover(&[queue()]).await.unwrap();
        (!recovered.tasks.is_empty()).then_some(recovered)
    })
    .await;
    assert_eq!(recovered.tasks, [(queue(), TaskId::new("a").unwrap())]);
    broker.close().await;
    super::others::check_whole(&file);
}

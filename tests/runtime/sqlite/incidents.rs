//! Events of ordinary operation: a backup is restored, the file, its log or the index of the log is taken away, and a wall clock or
//! a locked file makes every lease look lapsed.

use std::{fs, time::SystemTime};

use asynq_runtime::{
    broker::{BrokerErrorKind, Inspect as _, Maintain as _, Page},
    prelude::*,
    server::ServerError,
    task::TaskState,
};
use asynq_test_support::{eventually, soon};

use super::*;
use crate::answered;

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

#[tokio::test]
async fn a_backup_by_vacuum_into_is_restored_at_its_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("jobs.db"), folder.path().join("backup.db"));
    let broker = open(&file).await;
    enqueue(&broker, task("kept")).await.unwrap();
    let backup = rusqlite::Connection::open(&file).unwrap();
    backup.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    broker.close().await;
    let restored = open(&copy).await;
    let member = join(&restored).await;
    assert_eq!(ids(&dequeue(&restored, &member, 9).await), ["kept"]);
}

/// An operator who then puts a backup in the place of the file, and forgets the log beside it, has the backup and
/// nothing else.
#[tokio::test]
async fn a_worker_that_leaves_in_order_leaves_an_empty_log() {
    let (folder, file) = new_file();
    let server = Server::builder(url(&file)).registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    nothing::job().enqueue(&running.client()).await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    let log = folder.path().join("jobs.db-wal");
    assert!(fs::metadata(&log).unwrap().len() > 0);
    soon(running.shutdown()).await.unwrap();
    assert_eq!(fs::metadata(&log).map_or(0, |log| log.len()), 0);
    super::others::check_whole(&file);
}

/// SQLite would read the log of the old file into the new one, which then has the contents of the old one.
#[tokio::test]
async fn a_backup_that_replaces_a_file_in_use_is_not_overwritten_by_the_log_of_that_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("jobs.db"), folder.path().join("other.db"));
    let copy = folder.path().join("backup.db");
    let broker = open(&other).await;
    enqueue(&broker, task("kept")).await.unwrap();
    rusqlite::Connection::open(&other).unwrap().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    broker.close().await;

    // The broker lives on, as in a web server that only enqueues.
    let broker = open(&file).await;
    enqueue(&broker, task("lost")).await.unwrap();
    fs::rename(&copy, &file).unwrap();
    let error = eventually("it is noticed", async || broker.ping().await.err()).await;
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt);
    assert!(error.to_string().contains("was replaced"), "{error}");
    let restored = open(&file).await;
    let member = join(&restored).await;
    assert_eq!(ids(&dequeue(&restored, &member, 9).await), ["kept"]);
    // No file is deleted that an operator may miss.
    assert!(fs::metadata(folder.path().join("jobs.db-wal-replaced")).unwrap().len() > 0);
    broker.close().await;
    restored.close().await;
    super::others::check_whole(&file);
}

#[tokio::test]
async fn a_second_restore_leaves_the_log_that_the_first_one_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("jobs.db"), folder.path().join("backup.db"));
    let mut kept = Vec::new();
    for name in ["jobs.db-wal-replaced", "jobs.db-wal-replaced-2"] {
        open(&copy).await.close().await;
        let broker = open(&file).await;
        enqueue(&broker, task(&format!("lost{}", kept.len()))).await.unwrap();
        fs::rename(&copy, &file).unwrap();
        eventually("it is noticed", async || broker.ping().await.err()).await;
        broker.close().await;
        kept.push(fs::read(folder.path().join(name)).unwrap());
        assert_eq!(fs::read(folder.path().join("jobs.db-wal-replaced")).unwrap(), kept[0], "{name}");
    }
    assert_ne!(kept[0], kept[1]);
}

/// The program that opens the file waits meanwhile, because another one writes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_replaced_while_a_program_opens_it_is_not_taken_for_the_one_that_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let [file, copy, log] = ["jobs.db", "backup.db", "jobs.db-wal"].map(|name| place.join(name));
    rusqlite::Connection::open(&copy).unwrap().execute_batch("CREATE TABLE a(x)").unwrap();
    let backup = fs::read(&copy).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("PRAGMA journal_mode=wal; BEGIN IMMEDIATE").unwrap();
    let url = url(&file);
    let opening = tokio::spawn(async move { SqliteBroker::open(&url, patient()).await });
    let logs_open = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|open| open == log)).count()
    };
    eventually("the broker reads the file", async || (logs_open() == 2).then_some(())).await;
    fs::rename(&copy, &file).unwrap();
    drop(other);
    let error = soon(opening).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("jobs.db was replaced"), "{error}");
    // SQLite would read the log into the backup.
    assert!(fs::read(&file).unwrap() == backup && !log.exists());
}

/// No row of another file names the lock file, so that no program would ever remove it.
#[tokio::test]
async fn a_server_whose_file_was_replaced_or_removed_takes_its_lock_file_along() {
    for is_replaced in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("jobs.db"), folder.path().join("other.db"));
        open(&other).await.close().await;
        let broker = open(&file).await;
        join(&broker).await;
        if is_replaced {
            fs::rename(&other, &file).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
        }
        eventually("it is noticed", async || broker.ping().await.err()).await;
        broker.close().await;
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = names.filter(|name| name.contains("-srv-")).collect();
        assert!(left.is_empty(), "replaced: {is_replaced}, {left:?}");
    }
}

/// A trigger that refuses has the effect of a row that cannot be written.
#[tokio::test]
async fn a_row_that_cannot_be_written_holds_up_no_other_outcome() {
    let (_folder, file) = new_file();
    let server = Server::builder(url(&file)).registry(Registry::only::<(nothing,)>().unwrap()).concurrency(50);
    let server = server.build().await.unwrap();
    let broker = server.broker().clone();
    let client = Client::new(broker.clone());
    nothing::job().task_id("damaged").enqueue(&client).await.unwrap();
    client.enqueue_many((0..40).map(|_| nothing::job())).await.unwrap();
    let raw = rusqlite::Connection::open(&file).unwrap();
    raw.busy_timeout(Duration::from_secs(60)).unwrap();
    raw.execute_batch(
        "CREATE TRIGGER refuse BEFORE DELETE ON task WHEN old.id = 'damaged' BEGIN SELECT RAISE(ABORT, 'damaged'); END",
    )
    .unwrap();
    let running = server.start().await.unwrap();
    let processed = async |n: u64| {
        let stats = broker.queue_stats(&queue()).await.unwrap();
        (stats.processed_total == n).then_some(stats)
    };
    let stats = eventually("the others are done", async || processed(40).await).await;
    assert_eq!((stats.active, stats.failed_total), (1, 0));
    raw.execute_batch("DROP TRIGGER refuse").unwrap();
    eventually("it is done, too", async || processed(41).await).await;
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_worker_whose_file_or_log_is_gone_ends_with_the_error() {
    for suffix in ["", "-wal", "-shm"] {
        let (_folder, file) = new_file();
        let registry = Registry::only::<(nothing,)>().unwrap();
        let server = Server::builder(url(&file)).registry(registry).shutdown_timeout(Duration::ZERO);
        let server = server.build().await.unwrap();
        let broker = server.broker().clone();
        let run = tokio::spawn(server.run());
        eventually("the server is listed", async || {
            broker.servers().await.is_ok_and(|all| !all.is_empty()).then_some(())
        })
        .await;
        fs::remove_file(format!("{}{suffix}", file.display())).unwrap();
        let ended = soon(run).await.unwrap();
        let Err(ServerError::Broker(error)) = ended else { panic!("{suffix:?}: it ended with {ended:?}") };
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("while it was in use"), "{error}");
    }
}

/// A web server that is left running while its workers are started on a backup.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_broker_whose_log_is_gone_closes_the_file_and_leaves_the_log_of_another_program_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("jobs.db");
    let broker = open(&file).await;
    enqueue(&broker, task("a")).await.unwrap();
    broker.ping().await.unwrap();
    let is_open = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|open| open == file)
    };
    assert!(is_open());
    let log = file.with_file_name("jobs.db-wal");
    fs::remove_file(&log).unwrap();
    fs::remove_file(file.with_file_name("jobs.db-shm")).unwrap();
    fs::write(&log, "of another program").unwrap();
    // The last connection that is closed would delete the log.
    eventually("its connections are closed", async || (!is_open()).then_some(())).await;
    assert_eq!(fs::read_to_string(&log).unwrap(), "of another program");
    for error in [broker.ping().await.unwrap_err(), broker.queue_stats(&queue()).await.unwrap_err()] {
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error}");
    }
    let Err(Refused::Broker(error)) = enqueue(&broker, task("b")).await else { panic!("nothing is accepted") };
    assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error}");
    broker.close().await;
}

#[tokio::test]
async fn a_worker_that_leaves_without_its_log_writes_nothing_into_a_backup_in_the_place_of_its_file() {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    join(&broker).await;
    enqueue(&broker, task("a")).await.unwrap();
    for name in ["jobs.db-wal", "jobs.db-shm"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let before = fs::read(&file).unwrap();
    fs::write(&file, &before).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    // The watch has not looked since.
    broker.close().await;
    assert!(fs::read(&file).unwrap() == before);
}

/// The clock was set back since the last beat.
#[tokio::test]
async fn a_dead_server_whose_last_beat_is_to_come_is_not_listed() {
    let (_folder, file) = new_file();
    let (broker, dying) = (open(&file).await, open(&file).await);
    let member = join(&dying).await;
    enqueue(&dying, task("a")).await.unwrap();
    assert_eq!(dequeue(&dying, &member, 1).await.len(), 1);
    let raw = rusqlite::Connection::open(&file).unwrap();
    raw.busy_timeout(Duration::from_secs(60)).unwrap();
    raw.execute("UPDATE server SET beat_at = beat_at + 3600000", []).unwrap();
    assert_eq!(broker.servers().await.unwrap().len(), 1, "its lock tells that it lives");
    dying.close().await;
    let rows: i64 = raw.query_row("SELECT count(*) FROM server", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "it holds a task");
    assert!(broker.servers().await.unwrap().is_empty());
}

/// Returns a broker with a short lease by the machine's clock, and a run that its member took.
async fn one_run(file: &Path) -> (SqliteBroker, Run) {
    let mut options = patient();
    options.lease = Duration::from_secs(2);
    let broker = SqliteBroker::open(&url(file), options).await.unwrap();
    enqueue(&broker, task("a")).await.unwrap();
    let member = join(&broker).await;
    let run = dequeue(&broker, &member, 1).await.remove(0);
    (broker, run)
}

/// Makes the lease lapse, as a step of the wall clock, a machine that resumes, or a file that was locked for long does.
fn lapse(file: &Path) {
    let other = rusqlite::Connection::open(file).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    assert_eq!(other.execute("UPDATE task SET at = at - 3600000 WHERE state = 1", []).unwrap(), 1);
}

#[tokio::test]
async fn a_lease_that_lapsed_by_the_clock_alone_is_extended_and_the_run_goes_on() {
    let (_folder, file) = new_file();
    let (broker, run) = one_run(&file).await;
    let other = open(&file).await;
    lapse(&file);
    // The server of the run holds its lock, so that one look proves nothing: neither to itself nor to another program.
    for recoverer in [&broker, &other] {
        assert!(recoverer.recover(&[queue()]).await.unwrap().tasks.is_empty());
    }
    assert_eq!(answered(broker.extend(std::slice::from_ref(&run.key)).await), [Settled::Ok]);
    assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty());
    assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Ok);
}

#[tokio::test]
async fn a_lease_that_is_not_extended_for_another_lease_is_lapsed() {
    let (_folder, file) = new_file();
    let (broker, run) = one_run(&file).await;
    lapse(&file);
    let recovered = eventually("the run is recovered", async || {
        let recovered = broker.recover(&[queue()]).await.unwrap();
        (!recovered.tasks.is_empty()).then_some(recovered)
    });
    assert_eq!(recovered.await.tasks, [(queue(), TaskId::new("a").unwrap())]);
    assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Fenced);
    let pending = broker.tasks(&queue(), TaskState::Pending, Page::default()).await.unwrap();
    assert_eq!((pending.len(), pending[0].crashes), (1, 1));
}

#[tokio::test]
async fn a_lease_is_extended_before_thousands_of_enqueues_that_wait() {
    const CALLS: usize = 3_000;
    const TASKS: usize = 20;
    let (_folder, file) = new_file();
    let broker = Arc::new(open(&file).await);
    let member = join(&broker).await;
    enqueue(&broker, task("runs")).await.unwrap();
    let run = dequeue(&broker, &member, 1).await.remove(0);

    // While another program holds the file, callers of this one enqueue.
    let theirs = rusqlite::Connection::open(&file).unwrap();
    theirs.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let stored = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut enqueues = tokio::task::JoinSet::new();
    for call in 0..CALLS {
        let (broker, called, stored) = (Arc::clone(&broker), called.clone(), Arc::clone(&stored));
        enqueues.spawn(async move {
            let tasks = (0..TASKS).map(|n| task(&format!("{call}-{n}"))).collect();
            called.send(()).unwrap();
            assert!(broker.enqueue(tasks).await.iter().all(Result::is_ok));
            stored.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
    }
    for _ in 0..CALLS {
        soon(calls.recv()).await.unwrap();
    }
    let extends = tokio::spawn({
        let (broker, key) = (Arc::clone(&broker), run.key.clone());
        async move { broker.extend(&[key]).await }
    });
    tokio::task::yield_now().await;
    theirs.execute_batch("ROLLBACK").unwrap();
    assert_eq!(answered(soon(extends).await.unwrap()), [Settled::Ok]);
    let before = stored.load(std::sync::atomic::Ordering::SeqCst);
    assert!(before < CALLS / 3, "{before} of {CALLS} enqueues were answered before the lease was extended");
    while let Some(enqueued) = enqueues.try_join_next() {
        enqueued.unwrap();
    }
    // The end of the test aborts the rest of the calls: a wait for sixty thousand tasks would measure this machine.
}

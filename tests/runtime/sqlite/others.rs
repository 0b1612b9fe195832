//! Several programs on one file.

use std::{fs, os::unix::net::UnixDatagram, time::SystemTime};

use asynq_runtime::broker::{Diagnose as _, Inspect as _, Maintain as _, Quarantined, RetryOrder, WriteRefusal};
use asynq_test_support::soon;

use super::*;
use crate::{answered, child::Program};

/// The child's part: takes all tasks and says so, then waits to be killed.
pub(crate) async fn takes_everything(file: &Path) {
    let broker = open_tenacious(file).await;
    let member = join(&broker).await;
    let runs = dequeue(&broker, &member, 100).await;
    println!("\ntaken {}", runs.len());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn tasks_of_a_killed_program_come_back_with_the_next_call_and_wait_for_no_lease() {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    broker.enqueue((0..16).map(|n| task(&format!("{n:02}"))).collect()).await;
    let mut child = Program::start("taker", &file);
    child.prints("taken 16");
    assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty(), "it lives");
    enqueue(&broker, task("new")).await.unwrap();

    child.kill();
    let recovered = broker.recover(&[queue()]).await.unwrap();
    assert_eq!((recovered.tasks.len(), recovered.more), (16, false));
    let runs = dequeue(&broker, &member, 100).await;
    let expected: Vec<_> = (0..16).map(|n| format!("{n:02}")).chain(["new".into()]).collect();
    assert_eq!(ids(&runs), expected, "at the head, in their old order");
    assert_eq!(runs.iter().map(|run| run.crashes).collect::<Vec<_>>(), [&[1; 16][..], &[0]].concat());
    assert_eq!(runs[0].message.as_ref().unwrap().retried, 0);
    assert_eq!(broker.servers().await.unwrap().len(), 1, "the dead server is off the list");
    let files: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("-srv-"))
        .collect();
    assert_eq!(files.len(), 2, "our own lock file and bell: {files:?}");
}

/// The files of a program that was killed while it joined: no row names them.
#[tokio::test]
async fn a_server_that_joins_removes_the_files_of_programs_that_died_unlisted() {
    let (folder, file) = new_file();
    let dead = format!("jobs.db-srv-{}", "0".repeat(32));
    for name in [dead.clone(), format!("{dead}.sock")] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let lock_file = fs::File::options().write(true).open(folder.path().join(&dead)).unwrap();
    lock_file.set_modified(SystemTime::now() - HOUR).unwrap();
    drop(lock_file);
    let broker = open(&file).await;
    join(&broker).await;
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name.starts_with(&dead)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn nothing_can_be_recovered_before_the_first_lease_passes_unless_another_program_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (file, clock) = (folder.path().join("jobs.db"), clock());
    let broker = SqliteBroker::open(&url(&file), with_clock(clock.clone())).await.unwrap();
    let quiet = async || broker.until_lapse(&[queue()]).await.unwrap();
    let member = join(&broker).await;
    // Another program may come and die meanwhile.
    let longest = quiet().await;
    assert!(!longest.is_zero() && longest < Duration::from_secs(1), "{longest:?}");
    enqueue(&broker, task("a")).await.unwrap();
    assert_eq!(dequeue(&broker, &member, 1).await.len(), 1);
    assert_eq!(quiet().await, longest, "its lease has just begun");
    clock.advance(broker.lease() - Duration::from_millis(3));
    assert_eq!(quiet().await, Duration::from_millis(3));

    let other = open(&file).await;
    let guest = join(&other).await;
    assert_eq!(quiet().await, Duration::ZERO, "only its lock file shows whether the other lives");
    other.leave(&guest).await.unwrap();
    assert_eq!(quiet().await, Duration::from_millis(3));
    clock.advance(Duration::from_millis(3));
    assert_eq!(quiet().await, Duration::ZERO);
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
    assert_eq!(quiet().await, longest);
}

#[tokio::test]
async fn a_write_lock_that_keeps_a_server_from_reporting_is_told_and_a_look_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, clock) = (folder.path().join("jobs.db"), clock());
    let broker = SqliteBroker::open(&url(&file), with_clock(clock.clone())).await.unwrap();
    join(&broker).await;
    let refusal = async || broker.write_refusal().await.unwrap();
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(refusal().await, None, "the lock may be held for a moment: the last beat is recent");
    clock.advance(Duration::from_secs(11));
    assert_eq!(refusal().await, Some(WriteRefusal::Locked));
    let node = broker.nodes().await.unwrap().remove(0);
    assert_eq!(node.refuses_writes, Some(WriteRefusal::Locked));
    for words in ["held the write lock", "short, and pause between them"] {
        assert!(node.fact("write_error").is_some_and(|error| error.contains(words)), "{node:?}");
    }
    holder.execute_batch("ROLLBACK").unwrap();
    let log = || fs::metadata(folder.path().join("jobs.db-wal")).unwrap().len();
    let before = log();
    assert_eq!(refusal().await, None, "a server may be late for another reason, such as a debugger");
    assert!(log() <= before);
}

#[tokio::test]
async fn a_broker_that_went_away_with_tasks_is_found_by_its_file() {
    let (_folder, file) = new_file();
    let (gone, broker) = (open(&file).await, open(&file).await);
    let member = join(&gone).await;
    enqueue(&broker, task("a")).await.unwrap();
    let run = dequeue(&gone, &member, 1).await.remove(0);
    gone.close().await;
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
    assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Fenced);
}

#[tokio::test]
async fn more_than_one_slice_of_a_dead_program_comes_back_call_by_call() {
    let (_folder, file) = new_file();
    let (gone, broker) = (open(&file).await, open(&file).await);
    let member = join(&gone).await;
    let other = QueueName::new("other").unwrap();
    let elsewhere = NewTask { queue: other.clone(), ..task("elsewhere") };
    broker.enqueue((0..250).map(|n| task(&n.to_string())).chain([elsewhere]).collect()).await;
    let wanted = [Wanted { queue: queue(), n: 250 }, Wanted { queue: other.clone(), n: 1 }];
    assert_eq!(gone.dequeue(&member, &wanted).await.unwrap().len(), 251);
    gone.close().await;
    for (count, more) in [(100, true), (100, true), (50, false), (0, false)] {
        let recovered = broker.recover(&[queue()]).await.unwrap();
        assert_eq!((recovered.tasks.len(), recovered.more), (count, more));
    }
    let recovered = broker.recover(&[queue(), other.clone()]).await.unwrap();
    assert_eq!(recovered.tasks, [(other, TaskId::new("elsewhere").unwrap())]);
    check_whole(&file);
}

#[tokio::test]
async fn tasks_of_a_dead_program_come_back_in_the_order_in_which_they_waited() {
    let t = World::new().await;
    let gone = t.another_broker().await;
    let member = join(&gone).await;
    for id in ["a", "b"] {
        enqueue(&t.broker, task(id)).await.unwrap();
    }
    let first = dequeue(&gone, &member, 1).await.remove(0);
    t.clock.advance(Duration::from_secs(1));
    assert_eq!(settle(&gone, outcome(&first, Action::Requeue)).await, Settled::Ok);
    assert_eq!(ids(&dequeue(&gone, &member, 2).await), ["a", "b"]);
    gone.close().await;
    assert_eq!(t.broker.recover(&[queue()]).await.unwrap().tasks.len(), 2);
    let member = join(&t.broker).await;
    assert_eq!(ids(&dequeue(&t.broker, &member, 2).await), ["a", "b"]);
    t.end().await;
}

#[tokio::test]
async fn the_lapse_of_a_lease_counts_at_once_where_its_server_has_left() {
    let (_folder, file) = new_file();
    let broker = open_tenacious(&file).await;
    let (stays, leaves) = (join(&broker).await, join(&broker).await);
    for (member, id) in [(&stays, "a"), (&leaves, "b")] {
        enqueue(&broker, task(id)).await.unwrap();
        assert_eq!(dequeue(&broker, member, 1).await.len(), 1);
    }
    broker.leave(&leaves).await.unwrap();
    rusqlite::Connection::open(&file).unwrap().execute("UPDATE task SET at = 0", []).unwrap();
    let recovered = broker.recover(&[queue()]).await.unwrap();
    assert_eq!(recovered.tasks, [(queue(), TaskId::new("b").unwrap())]);
}

#[tokio::test]
async fn a_hung_program_loses_its_tasks_when_the_lease_has_passed() {
    let (_folder, file) = new_file();
    let clock = asynq_runtime::clock::ManualClock::default();
    let options = with_clock(clock.clone());
    let hung = SqliteBroker::open(&url(&file), options.clone()).await.unwrap();
    let broker = SqliteBroker::open(&url(&file), options).await.unwrap();
    let member = join(&hung).await;
    enqueue(&broker, task("a")).await.unwrap();
    let run = dequeue(&hung, &member, 1).await.remove(0);
    clock.advance(Duration::from_millis(9_999));
    assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty());
    assert_eq!(answered(hung.extend(std::slice::from_ref(&run.key)).await), [Settled::Ok]);
    clock.advance(Duration::from_millis(9_999));
    assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty());
    clock.advance(Duration::from_millis(1));
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
    assert_eq!(answered(hung.extend(std::slice::from_ref(&run.key)).await), [Settled::Fenced]);
    assert_eq!(settle(&hung, outcome(&run, Action::Done)).await, Settled::Fenced);
}

#[tokio::test]
async fn a_server_whose_lock_file_was_taken_away_counts_as_dead_only_when_it_is_silent() {
    let (folder, file) = new_file();
    let clock = asynq_runtime::clock::ManualClock::default();
    let mut options = with_clock(clock.clone());
    options.lease = Duration::from_secs(3_600);
    let beating = SqliteBroker::open(&url(&file), options.clone()).await.unwrap();
    let broker = SqliteBroker::open(&url(&file), options).await.unwrap();
    let member = join(&beating).await;
    enqueue(&broker, task("a")).await.unwrap();
    assert_eq!(dequeue(&beating, &member, 1).await.len(), 1);
    remove_lock_files(folder.path());
    for _ in 0..3 {
        clock.advance(Duration::from_secs(59));
        assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty());
        beating.beat(&member, &ServerInfo::default(), &[]).await.unwrap();
    }
    clock.advance(Duration::from_secs(60));
    assert_eq!(broker.recover(&[queue()]).await.unwrap().tasks.len(), 1);
    beating.beat(&member, &ServerInfo::default(), &[]).await.unwrap();
    assert_eq!(broker.servers().await.unwrap().len(), 1, "it was only slow, and is on the list again");
}

/// A server that ended with tasks in its hands stays on the list beside others of its broker object.
#[tokio::test]
async fn a_server_that_beats_is_not_dead_because_a_silent_one_shares_its_lock_file_that_was_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let (file, clock) = (folder.path().join("jobs.db"), clock());
    let mut options = with_clock(clock.clone());
    options.lease = HOUR;
    let beating = SqliteBroker::open(&url(&file), options.clone()).await.unwrap();
    let broker = SqliteBroker::open(&url(&file), options).await.unwrap();
    let silent = join(&beating).await;
    let member = join(&beating).await;
    for (member, id) in [(&silent, "silent"), (&member, "beating")] {
        enqueue(&broker, task(id)).await.unwrap();
        assert_eq!(dequeue(&beating, member, 1).await.len(), 1);
    }
    remove_lock_files(folder.path());
    for _ in 0..2 {
        clock.advance(Duration::from_secs(30));
        beating.beat(&member, &ServerInfo::default(), &[]).await.unwrap();
    }
    let recovered = broker.recover(&[queue()]).await.unwrap();
    assert_eq!(recovered.tasks, [(queue(), TaskId::new("silent").unwrap())]);
}

/// Removes the lock files of all servers, as a program that cleans up would.
fn remove_lock_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().contains("-srv-") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// A machine that was suspended, or a step of the wall clock, makes every server look silent.
#[tokio::test]
async fn one_look_at_the_wall_clock_takes_no_task_from_a_server_whose_lock_file_was_taken_away() {
    let (folder, file) = new_file();
    let beating = SqliteBroker::open(&url(&file), patient()).await.unwrap();
    let broker = SqliteBroker::open(&url(&file), patient()).await.unwrap();
    let member = join(&beating).await;
    enqueue(&broker, task("a")).await.unwrap();
    assert_eq!(dequeue(&beating, &member, 1).await.len(), 1);
    remove_lock_files(folder.path());
    rusqlite::Connection::open(&file).unwrap().execute("UPDATE server SET beat_at = beat_at - 120000", []).unwrap();
    for _ in 0..3 {
        assert!(broker.recover(&[queue()]).await.unwrap().tasks.is_empty());
    }
}

/// Puts a socket in the place of the one by which a program that has joined is notified of commits.
pub(super) fn intercept(folder: &Path) -> UnixDatagram {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sockets: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    let [socket] = &sockets[..] else { panic!("one program has joined: {sockets:?}") };
    fs::remove_file(socket).unwrap();
    let intercepted = UnixDatagram::bind(socket).unwrap();
    intercepted.set_read_timeout(Some(PATIENCE)).unwrap();
    intercepted
}

// The wake-up by a notification alone is tested beside the thread that receives it.
#[tokio::test]
async fn a_commit_notifies_the_other_programs_and_a_call_that_changes_nothing_does_not() {
    let (folder, file) = new_file();
    let (producer, consumer) = (open(&file).await, open(&file).await);
    join(&consumer).await;
    let notified = intercept(folder.path());
    for n in 0..3 {
        enqueue(&producer, task(&n.to_string())).await.unwrap();
        notified.recv(&mut [0; 8]).unwrap();
        assert_eq!(producer.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 0);
        notified.set_nonblocking(true).unwrap();
        assert!(notified.recv(&mut [0; 8]).is_err(), "one commit, one notification");
        notified.set_nonblocking(false).unwrap();
    }
}

#[tokio::test]
async fn a_commit_of_another_program_wakes_a_waiting_worker() {
    let (_folder, file) = new_file();
    let (producer, consumer) = (open(&file).await, open(&file).await);
    let member = join(&consumer).await;
    for id in ["a", "b", "c"] {
        let queues = [queue()];
        let both = async {
            tokio::join!(biased; consumer.wait_for_work(&queues, Quarantined::All, HOUR), enqueue(&producer, task(id)))
        };
        let (woken, placed) = soon(both).await;
        woken.unwrap();
        placed.unwrap();
        let run = dequeue(&consumer, &member, 1).await.remove(0);
        settle(&consumer, outcome(&run, Action::Done)).await;
    }
}

#[tokio::test]
async fn a_writer_without_notifications_is_noticed_by_the_safety_net() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    enqueue(&broker, task("a")).await.unwrap();
    broker.pause(&queue()).await.unwrap();
    let write = async {
        // The worker most likely waits by then; it has to be woken in either case.
        tokio::time::sleep(Duration::from_millis(50)).await;
        rusqlite::Connection::open(&file).unwrap().execute("UPDATE queue SET paused_at = NULL", []).unwrap();
    };
    let queues = [queue()];
    let (woken, ()) = soon(async { tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), write) }).await;
    woken.unwrap();
}

#[tokio::test]
async fn a_cancel_request_reaches_listeners_in_every_program_and_none_is_lost() {
    let (_folder, file) = new_file();
    let (one, other) = (open(&file).await, open(&file).await);
    one.cancel(&TaskId::new("before").unwrap()).await.unwrap();
    let mut listeners = [one.cancellations().await.unwrap(), other.cancellations().await.unwrap()];
    for id in ["a", "b"] {
        one.cancel(&TaskId::new(id).unwrap()).await.unwrap();
    }
    for listener in &mut listeners {
        for id in ["a", "b"] {
            assert_eq!(soon(listener.next()).await.unwrap(), id);
        }
        assert!(tokio::time::timeout(Duration::from_millis(20), listener.next()).await.is_err());
    }
    one.close().await;
    assert!(soon(listeners[0].next()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_share_the_file_leave_it_whole() {
    const CYCLES: usize = 40;
    let (_folder, file) = new_file();
    let mut writers = Vec::new();
    for writer in 0..3 {
        let broker = open(&file).await;
        writers.push(tokio::spawn(async move {
            let member = join(&broker).await;
            for number in 0..CYCLES {
                cycle(&broker, &member, writer, number).await;
            }
            broker
        }));
    }
    let mut brokers = Vec::new();
    for writer in writers {
        brokers.push(soon(writer).await.unwrap());
    }
    let stats = brokers[0].queue_stats(&queue()).await.unwrap();
    assert_eq!(stats.pending + stats.processed_total, 3 * 16 * CYCLES as u64);
    for broker in &brokers {
        broker.close().await;
    }
    check_whole(&file);
}

/// Enqueues, takes and settles 16 tasks. The settled tasks may be those of other writers.
async fn cycle(broker: &SqliteBroker, member: &Member, writer: usize, number: usize) {
    let batch = (0..16).map(|n| task(&format!("{writer}-{number}-{n}"))).collect();
    assert!(broker.enqueue(batch).await.iter().all(Result::is_ok));
    let runs = dequeue(broker, member, 16).await;
    let done: Vec<_> = runs.iter().map(|run| outcome(run, Action::Done)).collect();
    for settled in broker.settle(&done).await {
        assert_eq!(settled.unwrap(), Settled::Ok);
    }
}

/// Checks facts that `integrity_check` cannot know: every task has its body, and the counts are right.
pub(super) fn check_whole(file: &Path) {
    let connection = rusqlite::Connection::open(file).unwrap();
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    assert_eq!(number("SELECT count(*) FROM task WHERE seq NOT IN (SELECT seq FROM body)"), 0);
    assert_eq!(number("SELECT count(*) FROM body WHERE seq NOT IN (SELECT seq FROM task)"), 0);
    let wrong = "SELECT count(*) FROM (
        SELECT q, state, n FROM tally WHERE n <> 0
        EXCEPT SELECT q, state, count(*) FROM task GROUP BY q, state)";
    assert_eq!(number(wrong), 0, "the counts are those of the tasks");
    // An archived task may have asked to keep its lock.
    assert_eq!(number("SELECT count(*) FROM ulock WHERE id NOT IN (SELECT id FROM task WHERE state <> 6)"), 0);
    assert_eq!(number("SELECT count(*) FROM failure WHERE seq NOT IN (SELECT seq FROM task)"), 0);
    let homeless = "SELECT count(*) FROM task WHERE batch IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM batch WHERE batch.batch = task.batch AND batch.q = task.q AND batch.grp = task.grp AND NOT ended)";
    assert_eq!(number(homeless), 0, "a task in a set is in one that a program may end");
    assert_eq!(
        number("SELECT count(*) FROM task WHERE (state = 7 AND grp IS NULL) OR (state <> 7 AND batch IS NOT NULL)"),
        0
    );
    let miscounted = "SELECT count(*) FROM (
        SELECT entry, n FROM history WHERE n NOT BETWEEN 1 AND 1000
        UNION ALL SELECT * FROM (SELECT entry, n FROM history EXCEPT SELECT entry, count(*) FROM enqueued GROUP BY entry)
        UNION ALL SELECT * FROM (SELECT entry, count(*) FROM enqueued GROUP BY entry EXCEPT SELECT entry, n FROM history))";
    assert_eq!(number(miscounted), 0, "the histories are as long as they say");
}

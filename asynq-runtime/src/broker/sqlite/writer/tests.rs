use std::{
    fs, io, iter,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use asynq_test_support::{Log, PATIENCE, eventually_blocking};
use parking_lot::Mutex;
use rusqlite::ffi;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{tidy::Rest, *};
use crate::{
    broker::BrokerErrorKind,
    clock::SystemClock,
    task::{QueueName, TaskState},
};

use super::super::{
    SqliteOptions,
    command::{Caller, Ready, WriteCommand},
    migrate, set_up, sql,
    url::Location,
};

fn writer() -> Writer {
    let mut connection = connection::open_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, ":memory:", |_| Ok(())).unwrap();
    let common = Arc::new(SharedState::in_memory(names, Arc::new(SystemClock)));
    let connection = common.guard(connection);
    let (inbox, ended) = (mpsc::channel().1, CancellationToken::new().drop_guard());
    uncut(Writer::new(common, connection, None, None, OtherThreads::default(), inbox, ended))
}

/// Returns a writer of a file that has no tables yet.
fn writer_of_an_empty_file(file: &std::path::Path) -> Writer {
    let writer = writer();
    Writer { connection: writer.common.guard(connection::open_untouched(file).unwrap()), ..writer }
}

/// Makes a batch one transaction, on a busy machine, too.
fn uncut(writer: Writer) -> Writer {
    Writer { most_time: Duration::MAX, ..writer }
}

pub(super) type Answer<T> = oneshot::Receiver<Result<T, BrokerError>>;

pub(super) fn call<T: Send + 'static>(command: WriteCommand<T>) -> (Command, Answer<T>) {
    let (caller, answer) = Caller::of_a_test();
    (command.called_by(caller), answer)
}

/// Returns a call that adds a row of `bytes` bytes to a queue that `name` names.
fn insert(priority: Priority, name: &'static str, bytes: usize) -> (Command, Answer<()>) {
    call(WriteCommand::new(priority, 1, move |tx| {
        let q = tx.queue_or_new(&QueueName::from_wire(name))?;
        tx.view.execute(&sql::body::STORE, rusqlite::params![q, vec![7_u8; bytes]])?;
        tx.came(q, TaskState::Pending);
        Ok(())
    }))
}

fn kind<T>(mut answer: Answer<T>) -> Option<BrokerErrorKind> {
    answer.try_recv().unwrap().err().map(|error| error.kind())
}

fn queues(writer: &Writer) -> i64 {
    writer.connection.query_row("SELECT count(*) FROM queue", [], |row| row.get(0)).unwrap()
}

#[test]
fn when_there_is_no_room_inserts_are_refused_and_outcomes_still_go_through() {
    let mut writer = writer();
    writer.connection.execute_batch("PRAGMA max_page_count = 60").unwrap();
    let (large, large_answer) = insert(Priority::Insert, "large", 1 << 20);
    let (small, small_answer) = insert(Priority::Insert, "small", 10);
    let (outcome, outcome_answer) = insert(Priority::Settle, "outcome", 10);
    let left = writer.process(vec![small, large, outcome]);
    assert!(left.is_empty());
    assert_eq!(kind(large_answer), Some(BrokerErrorKind::Full));
    assert_eq!(kind(small_answer), Some(BrokerErrorKind::Full), "the whole batch was rolled back");
    assert_eq!(kind(outcome_answer), None);
    assert_eq!(queues(&writer), 1);
    let (small, answer) = insert(Priority::Insert, "small", 10);
    writer.process(vec![small]);
    assert_eq!(kind(answer), None, "a task that fits is accepted again");
}

/// SQLite takes a quota of the user that is exceeded for a write that failed.
#[test]
fn after_a_failed_write_outcomes_go_through_until_one_of_them_fails_too() {
    let mut writer = writer();
    let failing = |priority| {
        let error = ffi::Error::new(ffi::SQLITE_IOERR_WRITE);
        call(WriteCommand::<()>::new(priority, 1, move |_| Err(rusqlite::Error::SqliteFailure(error, None))))
    };
    let (task, task_answer) = failing(Priority::Insert);
    let (outcome, outcome_answer) = insert(Priority::Settle, "outcome", 1);
    assert!(writer.process(vec![task, outcome]).is_empty());
    assert_eq!((kind(task_answer), kind(outcome_answer)), (Some(BrokerErrorKind::Unavailable), None));
    let (task, _task_answer) = failing(Priority::Insert);
    let (outcome, outcome_answer) = failing(Priority::Settle);
    let (next, next_answer) = insert(Priority::Settle, "next", 1);
    assert!(writer.process(vec![task, outcome, next]).is_empty());
    let failed = Some(BrokerErrorKind::Unavailable);
    assert_eq!((kind(outcome_answer), kind(next_answer), queues(&writer)), (failed, failed, 1));
}

#[test]
fn a_call_that_fails_takes_no_other_with_it() {
    let mut writer = writer();
    let (good, good_answer) = insert(Priority::Insert, "good", 1);
    let (bad, bad_answer) = call(WriteCommand::new(Priority::Insert, 1, |tx| {
        tx.queue_or_new(&QueueName::from_wire("never"))?;
        tx.view.execute(&sql::body::STORE, rusqlite::params![1, rusqlite::types::Null])?;
        Ok(())
    }));
    let (other, other_answer) = insert(Priority::Settle, "other", 1);
    writer.process(vec![good, bad, other]);
    assert_eq!(kind(good_answer), None);
    assert_eq!(kind(bad_answer), Some(BrokerErrorKind::Unexpected));
    assert_eq!(kind(other_answer), None);
    assert_eq!(queues(&writer), 2, "nothing is left of the one that failed");
}

#[test]
fn a_parked_claim_that_fails_takes_no_insert_with_it_that_is_run_alone() {
    let mut writer = writer();
    let damaged = ffi::Error::new(ffi::SQLITE_CORRUPT);
    let claim =
        WriteCommand::<()>::new(Priority::Claim, 1, move |_| Err(rusqlite::Error::SqliteFailure(damaged, None)));
    let (parked, claimed) = call(claim.once(|view| {
        let is_any = view.count("SELECT count(*) FROM queue")? > 0;
        Ok(if is_any { Ready::Now } else { Ready::AfterNotification })
    }));
    writer.parked.add(parked);
    let view = writer.common.view(&writer.connection);
    assert!(writer.parked.ready(&view).is_empty(), "there is no task");
    let (bad, bad_answer) = call(WriteCommand::new(Priority::Insert, 1, |tx| {
        tx.view.execute(&sql::body::STORE, rusqlite::params![1, rusqlite::types::Null])?;
        Ok(())
    }));
    let (good, good_answer) = insert(Priority::Insert, "good", 1);
    assert!(writer.process(vec![bad, good]).is_empty());
    assert_eq!(kind(bad_answer), Some(BrokerErrorKind::Unexpected));
    assert_eq!(kind(good_answer), None);
    assert!(writer.parked.is_eager(), "the claim is asked next");
    let batch = writer.parked.drain().collect();
    writer.process(batch);
    assert_eq!(kind(claimed), Some(BrokerErrorKind::Corrupt));
}

#[test]
fn a_long_transaction_is_cut_and_nothing_is_lost() {
    // Each call takes all the time of a transaction.
    let mut writer = Writer { most_time: Duration::ZERO, ..writer() };
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut answers = Vec::new();
    let mut batch = Vec::new();
    for n in 0..3 {
        let done = Arc::clone(&done);
        let (work, answer) = call(WriteCommand::new(Priority::Settle, 1, move |_| {
            done.lock().push(n);
            Ok(())
        }));
        batch.push(work);
        answers.push(answer);
    }
    let mut rounds = 0;
    while !batch.is_empty() {
        batch = writer.process(batch);
        rounds += 1;
    }
    assert_eq!(rounds, 3);
    assert_eq!(*done.lock(), [0, 1, 2]);
    assert!(answers.into_iter().all(|answer| kind(answer).is_none()));
}

#[test]
fn the_statements_of_a_look_see_the_same_commits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let mut writer = writer_of_an_empty_file(&file);
    let names = migrate::settle_in(&mut writer.connection, false, "here", |_| Ok(())).unwrap();
    writer.connection.pragma_update(None, "journal_mode", "wal").unwrap();
    let add = move |connection: &rusqlite::Connection, n: i64| {
        connection.execute(sql::body::STORE.text(names), rusqlite::params![n, [7_u8]]).unwrap()
    };
    add(&writer.connection, 1);
    let other = rusqlite::Connection::open(&file).unwrap();
    let command = WriteCommand::new(Priority::Settle, 1, |_| panic!("the look has the answer"));
    let (look, mut answer) = call(command.unless(move |view| {
        let before = view.count("SELECT count(*) FROM body")?;
        add(&other, 2);
        Ok(Some((before, view.count("SELECT count(*) FROM body")?)))
    }));
    assert!(writer.process(vec![look]).is_empty());
    assert_eq!(answer.try_recv().unwrap().unwrap(), (1, 1));
    assert_eq!(writer.view().count("SELECT count(*) FROM body").unwrap(), 2);
}

/// Returns a call that sends another of its kind before it ends.
fn flood(inbox: mpsc::Sender<Message>, done: Arc<Mutex<Vec<&'static str>>>, left: u32) -> Command {
    let command = WriteCommand::new(Priority::Settle, 1, move |_| {
        done.lock().push("flood");
        let next = match left.checked_sub(1) {
            Some(left) => Message::Command(flood(inbox.clone(), Arc::clone(&done), left)),
            None => Message::Stop,
        };
        inbox.send(next).map_err(|_| rusqlite::Error::InvalidQuery)
    });
    let (flood, answer) = call(command);
    // It has a caller as long as the test runs.
    std::mem::forget(answer);
    flood
}

#[test]
fn a_leftover_command_comes_before_a_flood_of_higher_priorities() {
    let (sender, inbox) = mpsc::channel();
    let done = Arc::new(Mutex::new(Vec::new()));
    let claimed = Arc::clone(&done);
    let (claim, answer) = call(WriteCommand::new(Priority::Claim, 1, move |_| {
        claimed.lock().push("claim");
        Ok(())
    }));
    for work in [flood(sender.clone(), Arc::clone(&done), 5), claim] {
        assert!(sender.send(Message::Command(work)).is_ok());
    }
    // Each call takes all the time of a transaction.
    Writer { inbox, most_time: Duration::ZERO, ..writer() }.run();
    assert_eq!(done.lock()[..2], ["flood", "claim"]);
    assert_eq!(kind(answer), None);
}

#[test]
fn a_call_that_met_a_held_lock_has_no_effect_and_one_whose_commit_failed_may_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let mut writer = writer_of_an_empty_file(&file);
    migrate::settle_in(&mut writer.connection, false, "here", |_| Ok(())).unwrap();
    writer.connection.busy_timeout(Duration::ZERO).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    // Without a write-ahead log a transaction that reads does not let another one commit.
    for (held, is_ambiguous) in [("BEGIN IMMEDIATE", false), ("BEGIN; SELECT count(*) FROM queue", true)] {
        other.execute_batch(held).unwrap();
        let (insert, mut answer) = insert(Priority::Insert, "held", 1);
        assert!(writer.process(vec![insert]).is_empty());
        let error = answer.try_recv().unwrap().unwrap_err();
        assert_eq!((error.is_unavailable(), error.is_ambiguous()), (true, is_ambiguous), "{held}: {error}");
        other.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn a_call_that_was_given_up_is_never_begun() {
    let mut writer = writer();
    let (caller, answer) = Caller::of_a_test();
    assert!(caller.cancel_flag.give_up());
    let command = WriteCommand::<()>::new(Priority::Insert, 1, |_| panic!("the call was cancelled"));
    writer.process(vec![command.called_by(caller)]);
    drop(answer);
}

#[test]
fn counts_are_written_once_per_commit_and_state() {
    let mut writer = writer();
    let (one, _a) = insert(Priority::Insert, "a", 1);
    let (two, _b) = call(WriteCommand::new(Priority::Settle, 1, |tx| {
        let q = tx.queue_or_new(&QueueName::from_wire("a"))?;
        tx.left(q, TaskState::Pending);
        for failed in [true, false] {
            tx.ended(q, failed);
        }
        Ok(())
    }));
    writer.process(vec![one, two]);
    let row = |sql: &str| {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        writer.connection.query_row(sql, [], read).unwrap()
    };
    assert_eq!(row("SELECT state, n FROM tally"), (2, 0), "the queue has been used");
    assert_eq!(row("SELECT processed, failed FROM stat WHERE day = -1"), (2, 1));
    assert_eq!(row("SELECT count(*), sum(processed) FROM stat"), (2, 4), "today and all time");
}

/// Returns a writer of a file whose disk counts its syncs in `syncs`, and fails while `refuses`.
pub(super) fn writer_of(folder: &tempfile::TempDir, syncs: &Arc<AtomicU32>, refuses: &Arc<AtomicBool>) -> Writer {
    let file = folder.path().join("jobs.db");
    let mut connection = connection::open_untouched(&file).unwrap();
    migrate::settle_in(&mut connection, false, "here", connection::make_writer).unwrap();
    let (syncs, refuses) = (Arc::clone(syncs), Arc::clone(refuses));
    let disk = Disk::with("here".into(), move || {
        syncs.fetch_add(1, Ordering::SeqCst);
        if refuses.load(Ordering::SeqCst) { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    });
    let write_lock = FairWriteLock::open(&file).unwrap();
    let common = SharedState::of_file(file);
    let connection = common.guard(connection);
    let (inbox, ended) = (mpsc::channel().1, CancellationToken::new().drop_guard());
    uncut(Writer::new(common, connection, Some(write_lock), Some(disk), OtherThreads::default(), inbox, ended))
}

fn claim() -> (Command, Answer<()>) {
    call(WriteCommand::new(Priority::Claim, 1, |_| Ok(())).may_be_lost())
}

#[test]
fn only_a_durable_answer_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let syncs = Arc::default();
    let mut writer = writer_of(&folder, &syncs, &Arc::default());
    let mut queues = ["a", "b", "c", "d"].into_iter();
    for (case, promises, claims, synced) in [
        ("an outcome", 1, 0, 1),
        ("a claim", 0, 1, 0),
        ("two outcomes", 2, 0, 1),
        ("an outcome and two claims", 1, 2, 1),
    ] {
        let promised = queues.by_ref().take(promises).map(|queue| insert(Priority::Settle, queue, 1));
        let (mut batch, mut promised): (Vec<_>, Vec<_>) = promised.unzip();
        let (taken, claimed): (Vec<_>, Vec<_>) = iter::repeat_with(claim).take(claims).unzip();
        batch.extend(taken);
        let before = syncs.load(Ordering::SeqCst);
        assert!(writer.process(batch).is_empty());
        assert_eq!(syncs.load(Ordering::SeqCst), before, "{case}");
        assert!(claimed.into_iter().all(|answer| kind(answer).is_none()), "{case}: a claim is answered at once");
        assert!(promised.iter_mut().all(|answer| answer.try_recv().is_err()), "{case}: nothing is promised yet");
        writer.disk.as_mut().unwrap().answer(true);
        for answer in promised {
            assert!(answer.blocking_recv().unwrap().is_ok(), "{case}");
        }
        assert_eq!(syncs.load(Ordering::SeqCst) - before, synced, "{case}");
    }
}

#[test]
fn after_a_failed_sync_nothing_is_promised_before_the_log_began_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (syncs, refuses) = (Arc::default(), Arc::new(AtomicBool::new(true)));
    let mut writer = writer_of(&folder, &syncs, &refuses);
    let settle = |writer: &mut Writer, queue| {
        let (work, answer) = insert(Priority::Settle, queue, 1);
        let (claim, mut claimed) = claim();
        writer.process(vec![work, claim]);
        assert!(claimed.try_recv().unwrap().is_ok(), "tasks can be taken all the same");
        writer.disk.as_mut().unwrap().answer(true);
        (answer.blocking_recv().unwrap().err(), queues(writer))
    };
    let (error, queues) = settle(&mut writer, "a");
    let error = error.unwrap();
    assert_eq!(error.kind(), BrokerErrorKind::Unavailable);
    assert!(error.to_string().contains("whether the call took effect is unknown"), "{error}");
    assert_eq!(queues, 1, "it can be read");

    refuses.store(false, Ordering::SeqCst);
    let reader = connection::open_reader(&folder.path().join("jobs.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue").unwrap();
    let (error, queues) = settle(&mut writer, "b");
    assert_eq!(error.unwrap().kind(), BrokerErrorKind::Unavailable, "a reader needs the log as it is");
    assert_eq!(queues, 1, "nothing was done");

    reader.execute_batch("COMMIT").unwrap();
    let log = folder.path().join("jobs.db-wal");
    assert!(fs::metadata(&log).unwrap().len() > 0);
    assert_eq!(writer.tidy(), Rest::Tidy);
    assert_eq!(fs::metadata(&log).unwrap().len(), 0, "commits that may be missing in the log are in the database");
    let (error, queues) = settle(&mut writer, "c");
    assert!(error.is_none(), "{error:?}");
    assert_eq!(queues, 2);
}

#[test]
fn others_write_while_the_disk_is_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, inbox) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let (goes_on, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    let writer = writer_of(&folder, &Arc::default(), &Arc::default());
    let disk = Disk::with("here".into(), move || {
        begins.send(()).unwrap();
        go_on.lock().recv_timeout(PATIENCE).map_err(io::Error::other)
    });
    let other = std::thread::spawn(move || Writer { inbox, disk: Some(disk), ..writer }.run());
    let (work, mut answer) = insert(Priority::Settle, "a", 1);
    assert!(sender.send(Message::Command(work)).is_ok());
    begun.recv_timeout(PATIENCE).unwrap();

    let file = folder.path().join("jobs.db");
    let mut write_lock = FairWriteLock::open(&file).unwrap();
    eventually_blocking("the write lock is free", || write_lock.take().then_some(()));
    let second = connection::reopen_writer(&file).unwrap();
    second.execute_batch("BEGIN IMMEDIATE; INSERT INTO queue(name) VALUES ('b'); COMMIT").unwrap();
    assert!(answer.try_recv().is_err());
    goes_on.send(()).unwrap();
    assert!(answer.blocking_recv().unwrap().is_ok());
    drop(write_lock);
    assert!(sender.send(Message::Stop).is_ok());
    other.join().unwrap();
}

/// A sync keeps the data that was written before it began: a copy of that moment is the least that a power cut leaves.
#[test]
fn an_answered_commit_survives_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let writer = writer_of(&folder, &Arc::default(), &Arc::default());
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    let (from, to) = (folder.path().to_owned(), copy.clone());
    let disk = Disk::with("here".into(), move || {
        ["jobs.db", "jobs.db-wal"].iter().try_for_each(|file| fs::copy(from.join(file), to.join(file)).map(drop))
    });
    let (sender, inbox) = mpsc::channel();
    let thread = std::thread::spawn(move || Writer { inbox, disk: Some(disk), ..writer }.run());
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (n, name) in names.into_iter().enumerate() {
        let (work, answer) = insert(Priority::Insert, name, 1);
        // With a claim in the commit, the sync thread answers.
        let claims = if n % 2 == 0 { vec![] } else { vec![claim().0] };
        for work in iter::once(work).chain(claims) {
            assert!(sender.send(Message::Command(work)).is_ok());
        }
        assert!(answer.blocking_recv().unwrap().is_ok());
        let after = rusqlite::Connection::open(copy.join("jobs.db")).unwrap();
        let found: Vec<String> = after
            .prepare("SELECT name FROM queue ORDER BY q")
            .and_then(|mut queues| queues.query_map([], |row| row.get(0))?.collect())
            .unwrap();
        assert_eq!(found, names[..=n]);
    }
    assert!(sender.send(Message::Stop).is_ok());
    thread.join().unwrap();
}

#[tokio::test]
async fn only_files_whose_commits_shall_last_have_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("jobs.db");
    for (query, waits) in [("", true), ("?durability=full", true), ("?durability=normal", false)] {
        let location = Location::parse(&format!("sqlite://{}{query}", place.display())).unwrap();
        let (store, writer) = set_up(&location, &SqliteOptions::default()).unwrap();
        assert_eq!(writer.disk.is_some(), waits, "{query}");
        #[cfg(target_os = "linux")]
        assert_eq!(
            files_open("jobs.db-wal", folder.path()),
            1 + usize::from(waits),
            "ours is the one that SQLite writes"
        );
        store.stop();
        writer.run();
    }
    let (_, writer) = set_up(&Location::memory(), &SqliteOptions::default()).unwrap();
    assert!(writer.disk.is_none());
}

/// How often this process has the file `name` in `folder` open to write.
#[cfg(target_os = "linux")]
fn files_open(name: &str, folder: &std::path::Path) -> usize {
    let path = folder.canonicalize().unwrap().join(name);
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|file| file == path)).count()
}

/// Returns a writer, and a call that makes its log longer than one that is reported. The reader keeps the log from beginning anew.
fn with_a_long_log(folder: &tempfile::TempDir) -> (Writer, Command, rusqlite::Connection) {
    let writer = writer_of(folder, &Arc::default(), &Arc::default());
    let reader = connection::open_reader(&folder.path().join("jobs.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue").unwrap();
    let (work, answer) = insert(Priority::Settle, "long", 65 << 20);
    // It has a caller as long as the test runs.
    std::mem::forget(answer);
    (writer, work, reader)
}

const REPORT: &str = "the log of the SQLite file grows";

#[test]
fn a_writer_at_work_reports_a_long_log() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::keep());
    let (writer, work, _reader) = with_a_long_log(&folder);
    let (sender, inbox) = mpsc::channel();
    for message in [Message::Command(work), Message::Stop] {
        assert!(sender.send(message).is_ok());
    }
    Writer { inbox, ..writer }.run();
    assert_eq!(log.with(REPORT).len(), 1);
}

#[test]
fn a_writer_without_work_reports_a_long_log() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::keep());
    let (mut writer, work, _reader) = with_a_long_log(&folder);
    writer.process(vec![work]);
    assert!(log.with(REPORT).is_empty());
    assert_eq!(writer.tidy(), Rest::Untidy);
    assert_eq!(log.with(REPORT).len(), 1);
}

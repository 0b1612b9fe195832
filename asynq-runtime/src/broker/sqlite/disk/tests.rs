use std::sync::atomic::AtomicBool;

use asynq_test_support::PATIENCE;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    super::{
        command::{Caller, Priority, WriteCommand},
        sql::Names,
        tx::{Tx, View},
    },
    *,
};
use crate::broker::BrokerErrorKind;

type Answer = oneshot::Receiver<Result<(), BrokerError>>;

/// Returns a call that a commit has done, with its answer.
fn committed(command: WriteCommand<()>) -> (Command, Answer) {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let (caller, answer) = Caller::of_a_test();
    let mut command = command.called_by(caller);
    command.call.run(&mut Tx::new(View::new(&connection, Names::Plain, 0))).unwrap();
    (command, answer)
}

/// Has the disk keep an outcome.
fn keep(disk: &mut Disk) -> Answer {
    let (outcome, answer) = committed(WriteCommand::new(Priority::Settle, 1, |_| Ok(())));
    assert!(disk.keep(vec![outcome]).is_empty());
    answer
}

fn kind(answer: Answer) -> Option<BrokerErrorKind> {
    answer.blocking_recv().unwrap().err().map(|error| error.kind())
}

#[test]
fn the_sync_thread_answers_all_that_came_meanwhile_after_one_sync() {
    let ((begins, begun), (ends, end)) = (mpsc::channel(), mpsc::channel::<()>());
    let end = Mutex::new(end);
    let mut disk = Disk::with("here".into(), move || {
        begins.send(()).unwrap();
        end.lock().recv_timeout(PATIENCE).map_err(io::Error::other)
    });
    let mut first = keep(&mut disk);
    disk.answer(false);
    begun.recv_timeout(PATIENCE).unwrap();
    // The sync thread is busy with the first: the next ones wait, also the one for which the writer would have time.
    let mut later = Vec::new();
    for has_time in [false, false, true] {
        later.push(keep(&mut disk));
        disk.answer(has_time);
    }
    assert!(disk.is_busy());
    assert!(first.try_recv().is_err());
    ends.send(()).unwrap();
    assert_eq!(kind(first), None);
    begun.recv_timeout(PATIENCE).unwrap();
    assert!(later.iter_mut().all(|answer| answer.try_recv().is_err()));
    ends.send(()).unwrap();
    assert!(later.into_iter().all(|answer| kind(answer).is_none()));
    drop(disk);
    assert!(begun.try_recv().is_err(), "two syncs in all");
}

/// The system refuses to sync a device that keeps nothing. So an answer that fails shows that the sync of [`Disk::open`] asks
/// the system, which no test can see otherwise: written data can be read back with or without a sync.
#[test]
fn a_log_is_synced_by_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("jobs.db");
    let log = folder.path().join("jobs.db-wal");
    std::fs::write(&log, "a file can be synced").unwrap();
    for has_time in [true, false] {
        let mut disk = Disk::open(&database).unwrap();
        let answer = keep(&mut disk);
        disk.answer(has_time);
        assert_eq!(kind(answer), None);
    }
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink("/dev/null", &log).unwrap();
    for has_time in [true, false] {
        let mut disk = Disk::open(&database).unwrap();
        let answer = keep(&mut disk);
        disk.answer(has_time);
        assert_eq!(kind(answer), Some(BrokerErrorKind::Unavailable));
        assert!(disk.is_dirty());
        assert!(disk.repair(|| Ok(true)).is_err(), "nor can it be repaired without the system");
    }
}

#[test]
fn a_writer_with_time_answers_without_the_sync_thread() {
    let mut disk = Disk::with("here".into(), || Ok(()));
    let mut answer = keep(&mut disk);
    disk.answer(true);
    assert!(answer.try_recv().unwrap().is_ok());
    assert!(disk.sync_thread.is_none());
}

#[test]
fn while_others_go_on_the_writer_is_left_to_them() {
    let mut disk = Disk::with("here".into(), || Ok(()));
    let answer = keep(&mut disk);
    let (claim, _) = committed(WriteCommand::new(Priority::Claim, 1, |_| Ok(())).may_be_lost());
    assert_eq!(disk.keep(vec![claim]).len(), 1, "it promises nothing");
    disk.answer(true);
    assert!(disk.sync_thread.is_some());
    assert_eq!(kind(answer), None);
}

#[test]
fn the_end_answers_the_remaining_commands() {
    let mut disk = Disk::with("here".into(), || Ok(()));
    let mut answer = keep(&mut disk);
    disk.answer(false);
    drop(disk);
    assert!(answer.try_recv().unwrap().is_ok());
}

/// Returns a disk whose first sync fails.
fn fails_once() -> Disk {
    let fails = Mutex::new(Some(io::ErrorKind::StorageFull));
    Disk::with("here".into(), move || fails.lock().take().map_or(Ok(()), |kind| Err(kind.into())))
}

#[test]
fn a_sync_that_succeeds_after_one_that_failed_proves_nothing() {
    for has_time in [true, false] {
        let mut disk = fails_once();
        for _ in 0..2 {
            let answer = keep(&mut disk);
            disk.answer(has_time);
            // Not `Full`, which would say that nothing was stored.
            assert_eq!(kind(answer), Some(BrokerErrorKind::Unavailable));
            assert!(disk.is_dirty());
        }
        assert!(!disk.repair(|| Ok(false)).unwrap(), "the log could not be emptied");
        assert!(disk.repair(|| Err(BrokerError::new(BrokerErrorKind::Unavailable, "damaged"))).is_err());
        assert!(disk.is_dirty());
        assert!(disk.repair(|| Ok(true)).unwrap());
        let answer = keep(&mut disk);
        disk.answer(has_time);
        assert_eq!(kind(answer), None);
    }
}

#[test]
fn a_sync_that_failed_is_remembered_before_it_is_logged() {
    let (mut disk, was_dirty) = (fails_once(), Arc::new(AtomicBool::new(false)));
    let (log, seen) = (Arc::clone(&disk.log), Arc::clone(&was_dirty));
    let _lines = asynq_test_support::Log::calling(move || {
        seen.store(log.is_dirty(), Ordering::Release);
        panic!("the line cannot be written");
    });
    let answer = keep(&mut disk);
    disk.answer(true);
    assert_eq!(kind(answer), Some(BrokerErrorKind::Unavailable));
    assert!(was_dirty.load(Ordering::Acquire) && disk.is_dirty());
}

#[test]
fn a_failure_while_the_log_is_repaired_is_one_more() {
    let mut disk = fails_once();
    drop(keep(&mut disk));
    disk.answer(true);
    let log = Arc::clone(&disk.log);
    let fails_meanwhile = || {
        log.failed.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    };
    assert!(!disk.repair(fails_meanwhile).unwrap());
    assert!(disk.is_dirty());
    assert!(disk.repair(|| Ok(true)).unwrap());
}

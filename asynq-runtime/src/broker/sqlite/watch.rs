//! The thread that notices the commits of other programs, and the disappearance of the file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    beside::beside,
    connection,
    liveness::Liveness,
    reader::RunningReads,
    shared_state::SharedState,
    store::Message,
    wake::{NET, log_watcher::LogWatcher},
};

/// After this time a written commit can be seen, and another commit has another modification time: where the file system
/// records fractions of a second, and where it records seconds.
const SETTLED: Duration = Duration::from_millis(500);
const SETTLED_BY_SECONDS: Duration = Duration::from_secs(3);

/// How often in a row the look into the file is left out at most.
const MOST_UNTOUCHED: u32 = 10;

/// How often the file is looked for, and slow readers, while no write comes and the system would announce one.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the watch, which ends soon after the broker is closed.
///
/// # Errors
///
/// No thread can be started.
pub(super) fn start(
    common: &Arc<SharedState>,
    running_reads: RunningReads,
    writer: mpsc::Sender<Message>,
) -> io::Result<()> {
    let Some(file) = common.file.clone() else { return Ok(()) };
    let common = Arc::clone(common);
    thread::Builder::new()
        .name("asynq-sqlite-watch".into())
        .spawn(move || watch(&common, &file, &running_reads, &writer))?;
    Ok(())
}

fn watch(common: &SharedState, file: &Path, running_reads: &RunningReads, writer: &mpsc::Sender<Message>) {
    let notify_writer = || drop(writer.send(Message::Notification));
    let mut connection = None;
    let mut seen: Option<i64> = None;
    let mut looked = Instant::now();
    let log = beside(file, "-wal");
    let log_watcher = LogWatcher::of(&log);
    let mut wal = LogFileStamp::new(log);
    let mut is_calm = false;
    while !common.is_closed() && !common.is_broken() {
        let process_notifier = common.liveness.as_ref().and_then(Liveness::process_notifier);
        let was_notified = match (&log_watcher, process_notifier) {
            (Some(log_watcher), process_notifier) if is_calm => {
                log_watcher.or_notified(process_notifier.as_ref(), LOOK)
            }
            (_, Some(process_notifier)) => process_notifier.was_notified(),
            (_, None) => {
                thread::sleep(NET);
                false
            }
        };
        let may_have_changed = wal.may_have_changed();
        // After a write the watch looks for its commit at short intervals, so that a series of writes does not wake this thread
        // at each of them.
        is_calm = !may_have_changed;
        if was_notified {
            common.wake_waits(notify_writer);
        } else if common.notifier.has_subscribers() && may_have_changed {
            if connection.is_none() {
                connection = connection::open_watch(file).ok();
            }
            let version = connection
                .as_ref()
                .and_then(|open| open.prepare_cached("PRAGMA data_version").ok())
                .and_then(|mut version| version.query_row([], |row| row.get::<_, i64>(0)).ok());
            if version.is_some() && version != seen {
                seen = version;
                common.wake_waits(notify_writer);
            }
        }
        running_reads.interrupt_slow();
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            common.look_for_file();
        }
    }
}

/// Length and modification time of the log, which show writes at a lower cost than a look into the database.
#[derive(Debug)]
struct LogFileStamp {
    path: PathBuf,
    seen: Option<(u64, SystemTime)>,
    /// How often no change was seen since the last look into the database.
    untouched: u32,
}

impl LogFileStamp {
    fn new(path: PathBuf) -> Self {
        Self { path, seen: None, untouched: 0 }
    }

    /// Whether a look into the database may show something new. A commit is written a moment before it can be seen, and some
    /// file systems record the time in seconds: so for a while after each change, and now and then in any case.
    fn may_have_changed(&mut self) -> bool {
        let found = fs::metadata(&self.path).and_then(|found| Ok((found.len(), found.modified()?))).ok();
        let is_old = found.is_some_and(|(_, changed)| {
            let is_fine = changed.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|time| time.subsec_nanos() > 0);
            let settled = if is_fine { SETTLED } else { SETTLED_BY_SECONDS };
            changed.elapsed().is_ok_and(|since| since > settled)
        });
        let is_untouched = is_old && found == self.seen && self.untouched < MOST_UNTOUCHED;
        self.seen = found;
        self.untouched = if is_untouched { self.untouched + 1 } else { 0 };
        !is_untouched
    }
}

#[cfg(all(test, unix))]
mod tests {
    use asynq_test_support::soon;

    use super::{
        super::{sql::Names, wake::process_notifier::NotifySender},
        *,
    };
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_notification_wakes_waits_although_no_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let writer = connection::open_untouched(&file).unwrap();
        writer.execute_batch("PRAGMA user_version=1").unwrap();
        let common = Arc::new(SharedState::in_file(file.clone(), Names::Plain, false, Arc::new(SystemClock)).unwrap());
        let liveness = common.liveness.as_ref().unwrap();
        liveness.show().unwrap();
        let mut notifier = common.notifier.work();
        let (writer, _inbox) = mpsc::channel();
        start(&common, RunningReads::default(), writer).unwrap();
        // The first look into the file finds something new. The next look finds the same, as long as no program writes.
        soon(notifier.notified()).await;
        for _ in 0..3 {
            NotifySender::ready().notify(&liveness.notifier_path(liveness.name()));
            soon(notifier.notified()).await;
        }
        common.close();
    }
}

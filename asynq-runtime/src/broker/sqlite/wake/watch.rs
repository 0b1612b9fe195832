//! The thread that notices the commits of other programs, and the disappearance of the file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rusqlite::ErrorCode;

use crate::broker::{BrokerError, BrokerErrorKind};

use super::{
    super::{
        connection,
        reader::RunningReads,
        store::{Common, Message},
    },
    log_watcher::LogWatcher,
};

/// The safety net under notifications: how soon a commit is noticed whose notification was lost.
pub(in crate::broker::sqlite) const NET: Duration = Duration::from_millis(100);

/// After this time a written commit can be seen, and another commit has another modification time: where the file system
/// records fractions of a second, and where it records seconds.
const SETTLED: Duration = Duration::from_millis(500);
const SETTLED_BY_SECONDS: Duration = Duration::from_secs(3);

/// How often in a row the look into the file is left out at most.
const MOST_UNTOUCHED: u32 = 10;

/// How often the file is looked for, and slow readers, while no write comes and the system would announce one.
const LOOK: Duration = Duration::from_secs(1);

/// Identity of a file, whatever its name: a device and a number on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::broker::sqlite) struct Identity(u64, u64);

impl Identity {
    /// Reads the identity of the file at `path`; `None` where std shows none.
    ///
    /// # Errors
    ///
    /// The file cannot be found.
    pub(in crate::broker::sqlite) fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Ok(Some(Self(found.dev(), found.ino())))
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            Ok(None)
        }
    }
}

/// Starts the watch, which ends soon after the broker is closed.
///
/// # Errors
///
/// No thread can be started.
pub(in crate::broker::sqlite) fn start(
    common: &Arc<Common>,
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

fn watch(common: &Common, file: &Path, running_reads: &RunningReads, writer: &mpsc::Sender<Message>) {
    let mut connection = None;
    let mut seen: Option<i64> = None;
    let mut looked = Instant::now();
    let log = super::super::beside::beside(file, "-wal");
    let log_watcher = LogWatcher::of(&log);
    let mut wal = LogFileStamp::new(log);
    let mut is_calm = false;
    while !common.is_closed() && !common.is_broken() {
        let process_notifier = common.liveness.as_ref().and_then(super::super::liveness::Liveness::process_notifier);
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
            common.wake_waits(writer);
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
                common.wake_waits(writer);
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

/// Status of a file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::broker::sqlite) enum FileStatus {
    /// The file is still there, or the system cannot tell.
    Same,
    /// Another file has its name.
    Replaced,
    /// No file has its name.
    Gone,
    /// The file has no bytes any more.
    Emptied,
}

impl FileStatus {
    /// Looks at `path`, where the file with `identity` was.
    pub(in crate::broker::sqlite) fn of(path: &Path, identity: Option<Identity>) -> Self {
        match Identity::of(path) {
            Ok(found) if found == identity => Self::Same,
            Ok(_) => Self::Replaced,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Gone,
            // Not being allowed to look for a moment says nothing about the file.
            Err(_) => Self::Same,
        }
    }

    /// Looks at a database as [`of`](Self::of) does; a database always has bytes. SQLite would delete the log of an empty
    /// database, with the commits in it.
    pub(in crate::broker::sqlite) fn of_database(path: &Path, identity: Option<Identity>) -> Self {
        let is_empty = || fs::metadata(path).is_ok_and(|found| found.len() == 0);
        match Self::of(path, identity) {
            Self::Same if is_empty() => Self::Emptied,
            status => status,
        }
    }

    /// Returns the error of all calls from now on: SQLite would go on writing into a file without a name.
    pub(in crate::broker::sqlite) fn error(self, place: &str) -> Option<BrokerError> {
        let what = match self {
            Self::Same => return None,
            Self::Replaced => "was replaced",
            Self::Gone => "was deleted or moved away",
            Self::Emptied => {
                let message = format!("{place} was emptied while it was in use; {}", restore(place));
                return Some(BrokerError::new(BrokerErrorKind::Corrupt, message));
            }
        };
        Some(BrokerError::new(
            BrokerErrorKind::Corrupt,
            format!("{place} {what} while it was in use; tasks written since are lost, restart this program"),
        ))
    }
}

/// Returns advice about a file without its tables. SQLite would read the log that is left into whatever file it lies beside.
pub(in crate::broker::sqlite) fn restore(place: &str) -> String {
    format!(
        "stop every program on this file, delete {place}-wal and {place}-shm, put a backup in its place, then start them again"
    )
}

/// Whether a new connection cannot read the list of tables. Damage to one page does not stop the broker: the tasks in other
/// pages are still worked off.
pub(in crate::broker::sqlite) fn is_unreadable(file: &Path) -> bool {
    let schema = connection::open_watch(file)
        .and_then(|open| open.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)));
    let code = schema.err().and_then(|error| error.sqlite_error_code());
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

#[cfg(all(test, unix))]
mod tests {
    use asynq_test_support::soon;

    use super::{
        super::{super::sql::Names, process_notifier::NotifySender},
        *,
    };
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_notification_wakes_waits_although_no_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let writer = connection::open_untouched(&file).unwrap();
        writer.execute_batch("PRAGMA user_version=1").unwrap();
        let common = Arc::new(Common::in_file(file.clone(), Names::Plain, false, Arc::new(SystemClock)).unwrap());
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

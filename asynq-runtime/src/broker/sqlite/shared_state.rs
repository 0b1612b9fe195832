//! State that all threads and calls of one broker share: its file, its clock, its notifier, and whether it still works.

use std::{
    fs,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Notify;

use super::{
    beside::beside,
    connection,
    error::translate,
    file_status::{FileStatus, Identity, is_unreadable, restore},
    liveness::Liveness,
    sql::Names,
    tx::View,
    wake::notifier::Notifier,
};
use crate::{
    broker::{BrokerError, BrokerErrorKind, corrupt},
    clock::Clock,
    until::until,
};

/// Returns when a file was last written, and its length.
fn written(file: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Moves the log of a file that was replaced away from the new file, into which SQLite would read it: a backup would get the
/// commits that it was to undo. Another program may have moved the log already. The log of an earlier file stays, because an operator
/// may want what it holds.
fn set_log_aside(file: &Path, log: &Path) {
    let name = |n: u32| if n == 1 { "-wal-replaced".to_owned() } else { format!("-wal-replaced-{n}") };
    let mut places = (1..).map(|n| beside(file, &name(n)));
    let Some(aside) = places.find(|place| fs::symlink_metadata(place).is_err()) else { return };
    match fs::rename(log, &aside) {
        Ok(()) => {
            // `-shm` is the index of the log, and is made anew from it.
            let _ = fs::remove_file(beside(file, "-shm"));
            log!(warn, kept = %aside.display(), "the log of the file that was replaced is set aside");
        }
        Err(error) => log!(debug, "the log of the file that was replaced stays where it is: {error}"),
    }
}

/// A connection whose close leaves the log alone if the file, the log or its index is not the one that was opened any more. The last
/// close of SQLite writes the log that it has open into the file and then deletes the log by name: by then another program may have
/// made a log of that name, which holds its commits, or an operator may have put a backup into the file. Where neither has happened, a
/// log that was removed is saved that way.
#[derive(Debug)]
pub(super) struct GuardedConnection {
    connection: Connection,
    common: Arc<SharedState>,
}

impl Deref for GuardedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for GuardedConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Drop for GuardedConnection {
    fn drop(&mut self) {
        let is_lost = self.common.is_broken() || self.common.find_loss().is_some();
        if is_lost && !self.common.can_save_log() {
            connection::leave_log(&self.connection);
        }
    }
}

/// State that all threads and calls of one broker share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// The database as people know it.
    pub(super) place: String,
    /// The file, unless the database is in memory.
    pub(super) file: Option<PathBuf>,
    /// Identity of the file that was opened, unless the database is in memory.
    pub(super) identity: Option<Identity>,
    /// Path and identity of the log, if the file has one.
    log: Option<(PathBuf, Identity)>,
    /// Path and identity of the index of the log, if the file has one.
    index: Option<(PathBuf, Identity)>,
    /// Bytes of a page of the file.
    page_size: i64,
    /// Whether a power cut may take the last commits.
    pub(super) normal: bool,
    /// How our tables are called in the file.
    pub(super) names: Names,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) notifier: Notifier,
    pub(super) liveness: Option<Liveness>,
    /// Whether the writer is notified already that another connection wrote something.
    writer_is_notified: AtomicBool,
    /// Whether the writer wakes the other programs on the file when it receives that notification.
    pub(super) wakes_others: AtomicBool,
    closed: AtomicBool,
    /// Whether another file, or none, was found in the place of the file.
    has_lost_its_file: AtomicBool,
    /// When the file had last been written at the last look that found everything in its place, and how long it was.
    written: Mutex<Option<(SystemTime, u64)>>,
    broken: OnceLock<BrokerError>,
    broke: Notify,
}

impl SharedState {
    /// Returns the state of a database in memory.
    pub(super) fn in_memory(names: Names, clock: Arc<dyn Clock>) -> Self {
        Self {
            place: ":memory:".to_owned(),
            file: None,
            identity: None,
            log: None,
            index: None,
            page_size: 0,
            normal: false,
            names,
            clock,
            notifier: Notifier::default(),
            liveness: None,
            writer_is_notified: AtomicBool::new(false),
            wakes_others: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            has_lost_its_file: AtomicBool::new(false),
            written: Mutex::default(),
            broken: OnceLock::new(),
            broke: Notify::new(),
        }
    }

    /// Returns the state of the database in `file`. `identity` is that of the file which the connections have open; another may have
    /// taken its name.
    pub(super) fn in_file(
        file: PathBuf,
        identity: Identity,
        page_size: i64,
        names: Names,
        normal: bool,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let [log, index] = ["-wal", "-shm"].map(|suffix| {
            let path = beside(&file, suffix);
            Identity::of(&path).ok().map(|found| (path, found))
        });
        Self {
            place: file.display().to_string(),
            identity: Some(identity),
            written: Mutex::new(written(&file)),
            log,
            index,
            page_size,
            normal,
            liveness: Some(Liveness::new(file.clone())),
            file: Some(file),
            ..Self::in_memory(names, clock)
        }
    }

    /// Returns the connection with a close that looks whether the log is still ours.
    pub(super) fn guard(self: &Arc<Self>, connection: Connection) -> GuardedConnection {
        GuardedConnection { connection, common: Arc::clone(self) }
    }

    /// Returns a view of what `connection` sees, at the broker's time.
    pub(super) fn view<'a>(&self, connection: &'a Connection) -> View<'a> {
        View::new(connection, self.names, self.now())
    }

    /// The broker's time in Unix milliseconds.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Checks that the broker can be used.
    ///
    /// # Errors
    ///
    /// The broker was closed, or its file is not there any more.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(self.closed_error());
        }
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Waits until every call fails for good, and returns why.
    pub(super) async fn broken(&self) -> BrokerError {
        until(&self.broke, || self.broken.get().cloned()).await
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Returns whether the file that was opened, with its tables, is still in its place.
    pub(super) fn has_its_file(&self) -> bool {
        let (Some(file), Some(identity)) = (&self.file, self.identity) else { return true };
        !self.has_lost_its_file.load(Ordering::Acquire) && FileStatus::of_database(file, identity) == FileStatus::Same
    }

    /// Looks whether the file is still the one that was opened; if not, every call fails from now on. Returns whether every call fails.
    pub(super) fn look_for_file(&self) -> bool {
        if let Some(error) = self.find_loss() {
            self.break_down(error);
        }
        self.is_broken()
    }

    /// Returns why every call has to fail, if the file, its log or the index of the log is not the one that was opened. A broken broker
    /// does not look again: its connections are closed, so that a file that another program makes may get the number of a lost one.
    fn find_loss(&self) -> Option<BrokerError> {
        let (Some(file), Some(identity), false) = (&self.file, self.identity, self.is_broken()) else { return None };
        // Read first: what is copied into the file meanwhile is not ours.
        let written = written(file);
        let status = FileStatus::of_database(file, identity);
        self.has_lost_its_file.fetch_or(status != FileStatus::Same, Ordering::AcqRel);
        // Our connections keep the log and its index open, so that SQLite itself never removes them. The locks of writers lie in the
        // index: programs with two indexes of one log write at the same time, and overwrite each other's commits.
        let [of_log, of_index] = [&self.log, &self.index]
            .map(|opened| opened.as_ref().map(|(path, identity)| (path, FileStatus::of(path, *identity))));
        if let (FileStatus::Replaced, Some((log, FileStatus::Same))) = (status, of_log) {
            set_log_aside(file, log);
        }
        let error_of = |(path, status): (&PathBuf, FileStatus)| status.error(&path.display().to_string());
        let error_beside = || [of_log, of_index].into_iter().flatten().find_map(error_of);
        let loss = status.error(&self.place).or_else(error_beside);
        if loss.is_none() {
            *self.written.lock() = written;
        }
        loss
    }

    /// Returns whether the log alone is gone, and the file is as it was before.
    fn can_save_log(&self) -> bool {
        let (Some(file), Some((log, identity))) = (&self.file, &self.log) else { return false };
        FileStatus::of(log, *identity) == FileStatus::Gone
            && self.has_its_file()
            && written(file) == *self.written.lock()
    }

    /// Looks whether the log is as long as its index says, before something is written behind a gap. If not, every call fails from now on.
    ///
    /// # Errors
    ///
    /// The log is too short.
    pub(super) fn check_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Some((log, _)) = &self.log else { return Ok(()) };
        let checked = connection::refuse_cut_log(connection, log, self.page_size);
        // A log that is gone has a cause of its own.
        if checked.is_err() && !self.look_for_file() {
            let message = format!(
                "{} was emptied or cut off while it was in use; tasks written since may be lost, restart this program",
                log.display()
            );
            self.break_down(corrupt(message));
        }
        checked
    }

    /// Translates a failure for its caller. After a failure that says that the file is damaged as a whole, every call fails.
    pub(super) fn explain(&self, error: rusqlite::Error) -> BrokerError {
        self.look_for_file();
        let error = translate(error, &self.place);
        if let (BrokerErrorKind::Corrupt, false, Some(file)) = (error.kind(), self.is_broken(), &self.file)
            && is_unreadable(file)
        {
            let place = &self.place;
            let message = format!(
                "{place} was overwritten or damaged while it was in use, or its disk failed: the list of its tables cannot be read; \
                 look into the system's log, and restart this program if the disk failed and is sound again; else {}",
                restore(place)
            );
            self.break_down(BrokerError::with_source(BrokerErrorKind::Corrupt, message, error.clone()));
        }
        self.broken.get().cloned().unwrap_or(error)
    }

    /// Makes every call fail with `error` from now on.
    pub(super) fn break_down(&self, error: BrokerError) {
        let message = error.to_string();
        if self.broken.set(error).is_ok() {
            self.broke.notify_waiters();
            self.notifier.notify_all();
            log!(error, error = message, "the SQLite broker stops");
        }
    }

    /// Notifies every wait in this process that another connection has written; the writer, in which claims wait, first. One
    /// message to the writer at a time is enough.
    pub(super) fn wake_waits(&self, notify_writer: impl FnOnce()) {
        if !self.writer_is_notified.swap(true, Ordering::AcqRel) {
            notify_writer();
        }
        self.notifier.notify_all();
    }

    /// Notes that the writer received its notification, and looks from here on; returns whether it has to wake other programs.
    pub(super) fn notified(&self) -> bool {
        self.writer_is_notified.swap(false, Ordering::AcqRel);
        self.wakes_others.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes calls fail and threads end from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.notifier.notify_all();
    }

    /// Returns an error about the database.
    pub(super) fn error(&self, kind: BrokerErrorKind, advice: &str) -> BrokerError {
        BrokerError::new(kind, format!("{}: {advice}", self.place))
    }

    pub(super) fn closed_error(&self) -> BrokerError {
        self.error(BrokerErrorKind::Closed, "this broker was closed")
    }

    pub(super) fn timeout(&self, limit: Duration, unknown: bool) -> BrokerError {
        let effect = if unknown { "whether the call took effect is unknown" } else { "nothing was changed" };
        let advice = format!(
            "no answer within {limit:?} (a slow disk, or another program holds the lock, or a transaction of this one that is \
             still open: use `enqueue_in_tx` in it); {effect}"
        );
        let error = self.error(BrokerErrorKind::Timeout, &advice);
        if unknown { error } else { error.without_effect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    impl SharedState {
        /// Returns the state of `file`, which must be there and have pages of SQLite's default size.
        pub(in crate::broker::sqlite) fn of_file(file: PathBuf) -> Arc<Self> {
            let identity = Identity::of(&file).unwrap();
            Arc::new(Self::in_file(file, identity, 4_096, Names::Plain, false, Arc::new(SystemClock)))
        }
    }

    /// Returns the state of a new file in WAL mode, the connection that made it, and the paths of the file, its log and the index of it.
    fn opened(folder: &tempfile::TempDir) -> (Arc<SharedState>, Connection, [PathBuf; 3]) {
        let file = folder.path().join("jobs.db");
        let connection = connection::open_untouched(&file).unwrap();
        connection::make_writer(&connection).unwrap();
        connection.execute_batch("CREATE TABLE a(x)").unwrap();
        let common = SharedState::of_file(file.clone());
        let paths = [file.clone(), beside(&file, "-wal"), beside(&file, "-shm")];
        (common, connection, paths)
    }

    #[test]
    fn the_last_close_empties_the_log_and_leaves_one_that_another_program_made_alone() {
        for (is_lost, is_noticed) in [(false, false), (true, false), (true, true)] {
            let folder = tempfile::tempdir().unwrap();
            let (common, connection, [_, log, index]) = opened(&folder);
            let connection = common.guard(connection);
            if is_lost {
                fs::remove_file(&log).unwrap();
                fs::remove_file(&index).unwrap();
                fs::write(&log, "of another program").unwrap();
            }
            assert!(!is_noticed || common.look_for_file());
            drop(connection);
            let left = fs::read_to_string(&log).ok();
            assert_eq!(left.as_deref(), is_lost.then_some("of another program"), "noticed: {is_noticed}");
        }
    }

    #[test]
    fn the_last_close_saves_a_log_that_was_removed_unless_the_file_was_written_since() {
        for is_restored in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (common, connection, [file, log, _]) = opened(&folder);
            let connection = common.guard(connection);
            let before = fs::read(&file).unwrap();
            fs::remove_file(&log).unwrap();
            if is_restored {
                fs::write(&file, &before).unwrap();
                fs::File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
            assert!(common.look_for_file());
            drop(connection);
            assert_eq!(fs::read(&file).unwrap() == before, is_restored);
            let _ = fs::remove_file(beside(&file, "-shm"));
            let table = connection::open_untouched(&file).unwrap().execute_batch("SELECT x FROM a");
            assert_eq!(table.is_ok(), !is_restored, "{table:?}");
        }
    }

    #[test]
    fn nothing_is_written_behind_the_gap_of_a_log_that_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (common, mut connection, [_, log, _]) = opened(&folder);
        common.check_log(&connection).unwrap();
        connection::empty_wal(&mut connection).unwrap();
        common.check_log(&connection).unwrap();
        connection.execute_batch("INSERT INTO a VALUES(1)").unwrap();
        common.check_log(&connection).unwrap();
        // A page and the head of its frame are longer.
        fs::File::options().write(true).open(&log).unwrap().set_len(4_096).unwrap();
        common.check_log(&connection).unwrap_err();
        let error = common.check().unwrap_err().to_string();
        assert!(error.contains("jobs.db-wal was emptied or cut off"), "{error}");
    }

    #[test]
    fn a_file_that_was_deleted_is_the_cause_where_its_log_is_looked_at_first() {
        let folder = tempfile::tempdir().unwrap();
        let (common, connection, paths) = opened(&folder);
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        common.check_log(&connection).unwrap_err();
        let error = common.check().unwrap_err().to_string();
        assert!(error.contains("jobs.db was deleted or moved away"), "{error}");
        assert!(!common.has_its_file());
    }

    #[test]
    fn a_broken_broker_takes_no_file_for_its_own_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let (common, connection, [file, log, _]) = opened(&folder);
        let moved = beside(&file, "-moved");
        fs::rename(&file, &moved).unwrap();
        assert!(common.look_for_file());
        // A new file may get the number of the old one, as this has.
        fs::rename(&moved, &file).unwrap();
        assert!(!common.has_its_file());
        fs::write(&moved, "another file").unwrap();
        fs::rename(&moved, &file).unwrap();
        common.look_for_file();
        assert!(log.exists(), "it may be that of the other file");
        drop(connection);
    }
}

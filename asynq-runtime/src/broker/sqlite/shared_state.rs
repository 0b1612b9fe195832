//! State that all threads and calls of one broker share: its file, its clock, its notifier, and whether it still works.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    beside::beside,
    error::translate,
    file_status::{FileStatus, Identity, is_unreadable, restore},
    liveness::Liveness,
    sql::Names,
    wake::notifier::Notifier,
};
use crate::{
    broker::{BrokerError, BrokerErrorKind},
    clock::Clock,
    until::until,
};

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

/// State that all threads and calls of one broker share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// The database as people know it.
    pub(super) place: String,
    /// The file, unless the database is in memory.
    pub(super) file: Option<PathBuf>,
    /// Identity of the file when it was opened, unless the database is in memory.
    pub(super) identity: Option<Identity>,
    /// Path and identity of the log, if the file has one.
    log: Option<(PathBuf, Identity)>,
    /// Path and identity of the index of the log, if the file has one.
    index: Option<(PathBuf, Identity)>,
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
            normal: false,
            names,
            clock,
            notifier: Notifier::new(),
            liveness: None,
            writer_is_notified: AtomicBool::new(false),
            wakes_others: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            broken: OnceLock::new(),
            broke: Notify::new(),
        }
    }

    /// Returns the state of the database in `file`, which must be there.
    ///
    /// # Errors
    ///
    /// The file is not there.
    pub(super) fn in_file(file: PathBuf, names: Names, normal: bool, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let [log, index] = ["-wal", "-shm"].map(|suffix| {
            let path = beside(&file, suffix);
            Identity::of(&path).ok().map(|found| (path, found))
        });
        Ok(Self {
            place: file.display().to_string(),
            identity: Some(Identity::of(&file)?),
            log,
            index,
            normal,
            liveness: Some(Liveness::new(file.clone())),
            file: Some(file),
            ..Self::in_memory(names, clock)
        })
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
        FileStatus::of_database(file, identity) == FileStatus::Same
    }

    /// Looks whether the file is still the one that was opened; if not, every call fails from now on.
    pub(super) fn look_for_file(&self) {
        let (Some(file), Some(identity)) = (&self.file, self.identity) else { return };
        let status = FileStatus::of_database(file, identity);
        // Our connections keep the log and its index open, so that SQLite itself never removes them. The locks of writers lie in the
        // index: programs with two indexes of one log write at the same time, and overwrite each other's commits.
        let [of_log, of_index] = [&self.log, &self.index]
            .map(|opened| opened.as_ref().map(|(path, identity)| (path, FileStatus::of(path, *identity))));
        if let (FileStatus::Replaced, Some((log, FileStatus::Same))) = (status, of_log) {
            set_log_aside(file, log);
        }
        let error_of = |(path, status): (&PathBuf, FileStatus)| status.error(&path.display().to_string());
        let error_beside = || [of_log, of_index].into_iter().flatten().find_map(error_of);
        if let Some(error) = status.error(&self.place).or_else(error_beside) {
            self.break_down(error);
        }
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
                "{place} was overwritten or damaged while it was in use: the list of its tables cannot be read; {}",
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

    pub(super) fn closed_error(&self) -> BrokerError {
        BrokerError::new(BrokerErrorKind::Closed, format!("{}: this broker was closed", self.place))
    }

    pub(super) fn timeout(&self, limit: Duration, unknown: bool) -> BrokerError {
        let effect = if unknown { "whether the call took effect is unknown" } else { "nothing was changed" };
        let error = BrokerError::new(
            BrokerErrorKind::Timeout,
            format!(
                "{}: no answer within {limit:?} (a slow disk, or another program holds the lock, or a transaction of this one that \
                 is still open: use `enqueue_in_tx` in it); {effect}",
                self.place
            ),
        );
        if unknown { error } else { error.without_effect() }
    }
}

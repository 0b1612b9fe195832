//! Answers commits once they are on disk, so that only their callers wait for the disk.
//!
//! With `synchronous=FULL` SQLite syncs its log inside of COMMIT, and the file is locked meanwhile. Here the connection is set
//! to NORMAL, which leaves out this one sync and keeps all others (the head of a log that begins anew; log and database around
//! a checkpoint), and the log is synced after the lock was released. So others write meanwhile; a claim, which promises
//! nothing, is answered at once; and one sync serves all commits before it. A promise (a task is stored, an outcome is kept) is
//! answered only after the sync, whichever program made the commit that the promise rests on
//! (docs/design/sqlite.md#durability).
//!
//! A commit can be read before it is on disk, so a failed sync leaves commits that FULL would have rolled back: a part of the
//! log, and with it all that follows, may be missing after a power cut. Nothing is promised then before the whole log is in the
//! database and the log is empty. A power cut in that very moment is not survived, and other programs on the file learn of the
//! failure only if the system reports it to them too.

use std::{
    fs::File,
    io, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use super::{beside::beside, command::Command, error::translate_sync};
use crate::broker::BrokerError;

/// The log to sync, and the thread that syncs it where the writer has something else to do.
#[derive(Debug)]
pub(super) struct Disk {
    log: Arc<Log>,
    /// Commands that were committed and are not answered yet.
    unsynced: Vec<Command>,
    /// Whether other callers were answered meanwhile: they may send the writer commands soon.
    has_answered_others: bool,
    /// Started when it is first needed.
    sync_thread: Option<SyncThread>,
}

/// The write-ahead log as a file.
struct Log {
    place: String,
    sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// Number of syncs that failed. The system reports a failure once per open file and takes the lost pages for written, so no
    /// later sync proves that they are on disk.
    failed: AtomicU64,
    /// How many failed syncs no longer matter, because the log was emptied since.
    repaired: AtomicU64,
    /// Commits that the sync thread has not answered.
    unanswered: AtomicUsize,
}

/// The thread that syncs the log and answers the commands in its inbox; it ends with the sender of the inbox.
#[derive(Debug)]
struct SyncThread {
    inbox: mpsc::Sender<Vec<Command>>,
    thread: JoinHandle<()>,
}

impl Disk {
    /// Opens the log of `database`, which a connection must have open, so that the log is not replaced.
    ///
    /// # Errors
    ///
    /// There is no log, or it cannot be opened.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        // Some Unix systems sync no file that was not opened for writing (fsync(2)).
        let log = File::options().read(true).write(true).open(beside(database, "-wal"))?;
        Ok(Self::with(database.display().to_string(), move || log.sync_data()))
    }

    pub(super) fn with(place: String, sync: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        let (failed, repaired, unanswered) = Default::default();
        let log = Log { place, sync: Box::new(sync), failed, repaired, unanswered };
        Self { log: Arc::new(log), unsynced: Vec::new(), has_answered_others: false, sync_thread: None }
    }

    /// Whether a commit may be missing on disk although it can be read.
    pub(super) fn is_dirty(&self) -> bool {
        self.log.is_dirty()
    }

    /// Whether the sync thread has something to answer, after which the log may be dirty.
    pub(super) fn is_busy(&self) -> bool {
        self.log.unanswered.load(Ordering::Acquire) > 0
    }

    /// Makes promises possible again and returns whether it could. `empty` copies all commits into the database, on disk, and
    /// empties the log; it returns whether it could.
    ///
    /// # Errors
    ///
    /// `empty` failed, or the empty log could not be synced.
    pub(super) fn repair(&self, empty: impl FnOnce() -> Result<bool, BrokerError>) -> Result<bool, BrokerError> {
        let failed = self.log.failed.load(Ordering::Acquire);
        if !empty()? {
            return Ok(false);
        }
        // SQLite does not sync the log after it truncated it.
        (self.log.sync)().map_err(|error| translate_sync(error, &self.log.place))?;
        self.log.repaired.store(failed, Ordering::Release);
        Ok(!self.is_dirty())
    }

    /// Keeps committed commands until they are on disk, and returns the commands that promise nothing, to be answered at once.
    pub(super) fn keep(&mut self, committed: Vec<Command>) -> Vec<Command> {
        let (free, unsynced): (Vec<_>, Vec<_>) = committed.into_iter().partition(|work| work.may_be_lost);
        self.has_answered_others |= !free.is_empty();
        self.unsynced.extend(unsynced);
        free
    }

    /// Answers the unsynced commands as soon as they are on disk. The writer syncs here itself, which spares the way to
    /// another thread, if it `has_time` and no other caller was answered who may soon send it a command.
    pub(super) fn answer(&mut self, has_time: bool) {
        let (works, has_answered_others) = (mem::take(&mut self.unsynced), mem::take(&mut self.has_answered_others));
        if works.is_empty() {
            return;
        }
        if has_time && !has_answered_others && !self.is_busy() {
            self.log.answer(works);
            return;
        }
        if self.sync_thread.is_none() {
            self.sync_thread = SyncThread::start(&self.log).ok();
        }
        self.log.unanswered.fetch_add(1, Ordering::AcqRel);
        let left = match &self.sync_thread {
            Some(sync_thread) => sync_thread.inbox.send(works).err().map(|mpsc::SendError(works)| works),
            None => Some(works),
        };
        if let Some(works) = left {
            self.log.answer(works);
            self.log.unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Disk {
    /// Waits until the sync thread has answered all commands.
    fn drop(&mut self) {
        if let Some(SyncThread { inbox, thread }) = self.sync_thread.take() {
            drop(inbox);
            let _ = thread.join();
        }
    }
}

impl SyncThread {
    fn start(log: &Arc<Log>) -> io::Result<Self> {
        // Each call in the channel holds a permit of the store, which bounds the channel.
        let (inbox, given) = mpsc::channel();
        let log = Arc::clone(log);
        let work = move || log.answer_all(&given);
        let thread = thread::Builder::new().name("asynq-sqlite-disk".into()).spawn(work)?;
        Ok(Self { inbox, thread })
    }
}

impl Log {
    fn is_dirty(&self) -> bool {
        self.failed.load(Ordering::Acquire) != self.repaired.load(Ordering::Acquire)
    }

    fn answer_all(&self, given: &mpsc::Receiver<Vec<Command>>) {
        while let Ok(mut works) = given.recv() {
            let mut commits = 1;
            for more in given.try_iter() {
                works.extend(more);
                commits += 1;
            }
            self.answer(works);
            self.unanswered.fetch_sub(commits, Ordering::AcqRel);
        }
    }

    /// Syncs the log once and answers all of `works`.
    fn answer(&self, works: Vec<Command>) {
        let error = match (self.sync)() {
            Ok(()) if !self.is_dirty() => None,
            Ok(()) => Some(translate_sync(io::Error::other("an earlier sync of the log failed"), &self.place)),
            Err(error) => {
                let is_first = !self.is_dirty();
                self.failed.fetch_add(1, Ordering::AcqRel);
                if is_first {
                    log!(error, %error, place = self.place, "the disk did not take what was written to the log");
                }
                Some(translate_sync(error, &self.place))
            }
        };
        for work in works {
            work.finish(error.clone());
        }
    }
}

partial_debug!(Log { place, .. });

#[cfg(test)]
mod tests;

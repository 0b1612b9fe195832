//! Queues writers fairly: programs queue by two file locks, because SQLite's own waiting starves some of them
//! (docs/design/sqlite.md#fair-write-lock).
//!
//! A program locks `next`, then `write_lock`, then unlocks `next`: at most one program waits for `write_lock`, all
//! others for `next`, and the program that has just written goes to the end. The two locks are for fairness only;
//! SQLite's own lock makes writes correct. So a holder that was stopped costs the others a moment, once, and never a
//! transaction.

use std::{
    fs::File,
    io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::beside::open_lock_file;

/// How long a writer waits for the lock before it writes without it. A holder that lives releases the lock after one
/// transaction, so this is many times the longest wait that was measured (56 ms: eight programs on a slow disk). A holder that
/// was stopped, by a debugger or with its whole machine, must not delay urgent writes of others for long, such as taking over
/// the lead of the schedulers.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a writer with more work keeps the lock; every hand-over costs the other program's page cache.
const KEEP: Duration = Duration::from_millis(3);

/// A program's place in the queue of writers.
#[derive(Debug)]
pub(super) struct FairWriteLock {
    files: Arc<LockFiles>,
    locked_at: Option<Instant>,
}

#[derive(Debug)]
struct LockFiles {
    next: File,
    write_lock: File,
    state: Mutex<State>,
    changed: Condvar,
    /// [`PATIENCE`], except in tests.
    patience: Duration,
}

/// State of the helper thread, which alone blocks in a file lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for a request of the writer.
    Idle,
    /// Waits for the locks while the writer waits for the helper.
    Requested,
    /// Has the locks, which now belong to the writer.
    Granted,
    /// Still waits for the locks, but the writer went on without them.
    Abandoned,
    /// Ends as soon as the helper can.
    Closed,
}

impl FairWriteLock {
    /// Opens `<db>-next` and `<db>-turn`, and creates them if they are missing.
    ///
    /// # Errors
    ///
    /// The folder does not let this program create or open them, or one of them is a link.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        Self::open_with(database, PATIENCE)
    }

    fn open_with(database: &Path, patience: Duration) -> io::Result<Self> {
        let files = Arc::new(LockFiles {
            next: open_lock_file(database, "-next")?,
            write_lock: open_lock_file(database, "-turn")?,
            state: Mutex::new(State::Idle),
            changed: Condvar::new(),
            patience,
        });
        let helper = Arc::clone(&files);
        thread::Builder::new().name("asynq-sqlite-lock".into()).spawn(move || helper.wait_for_others())?;
        Ok(Self { files, locked_at: None })
    }

    /// Waits for the lock, at most [`PATIENCE`]. Returns whether it is held; writing is safe either way.
    pub(super) fn take(&mut self) -> bool {
        if self.locked_at.is_none() && self.files.take() {
            self.locked_at = Some(Instant::now());
        }
        self.locked_at.is_some()
    }

    /// Releases the lock, unless there is more work and less than [`KEEP`] has passed.
    pub(super) fn release(&mut self, more_work: bool) {
        let Some(since) = self.locked_at else { return };
        if more_work && since.elapsed() < KEEP {
            return;
        }
        self.locked_at = None;
        // If the lock cannot be released, the kernel releases it when the program ends; others go on without it.
        let _ = self.files.write_lock.unlock();
    }
}

impl Drop for FairWriteLock {
    fn drop(&mut self) {
        self.release(false);
        *self.files.state.lock() = State::Closed;
        self.files.changed.notify_all();
    }
}

impl LockFiles {
    fn take(&self) -> bool {
        let mut state = self.state.lock();
        if *state == State::Idle {
            if self.next.try_lock().is_ok() && self.write_lock.try_lock().is_ok() {
                let _ = self.next.unlock();
                return true;
            }
            // If `next` was free it stays locked: the helper, which shares the open file, waits for `write_lock` from
            // here on.
            *state = State::Requested;
            self.changed.notify_all();
        }
        // An abandoned helper may get the locks at any moment, but is not worth a second wait.
        let give_up = Instant::now() + self.patience;
        while *state == State::Requested {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *state = State::Abandoned;
                break;
            }
            self.changed.wait_for(&mut state, left);
        }
        if *state == State::Granted {
            *state = State::Idle;
            return true;
        }
        false
    }

    /// Runs the helper: it blocks in the file locks whenever the writer asks for them.
    fn wait_for_others(&self) {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Closed => return,
                State::Requested => {}
                State::Idle | State::Granted | State::Abandoned => {
                    self.changed.wait(&mut state);
                    continue;
                }
            }
            drop(state);
            let locked = self.next.lock().is_ok() && self.write_lock.lock().is_ok();
            let _ = self.next.unlock();
            state = self.state.lock();
            if locked && *state == State::Requested {
                *state = State::Granted;
            } else {
                let _ = self.write_lock.unlock();
                if *state != State::Closed {
                    *state = State::Idle;
                }
            }
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::eventually_blocking;

    use super::*;

    /// Opens a lock that waits long enough for a busy machine.
    fn patient(database: &Path) -> FairWriteLock {
        FairWriteLock::open_with(database, asynq_test_support::PATIENCE).unwrap()
    }

    /// Waits until a writer has locked `next`, as `files` sees it.
    fn until_next_is_taken(files: &LockFiles) {
        eventually_blocking("a writer locks `next`", || match files.next.try_lock() {
            Ok(()) => {
                files.next.unlock().unwrap();
                None
            }
            Err(_) => Some(()),
        });
    }

    /// Has `write_lock` wait on a thread of its own, which ends with the lock held.
    fn wait_on_a_thread(mut write_lock: FairWriteLock) -> thread::JoinHandle<FairWriteLock> {
        let files = Arc::clone(&write_lock.files);
        let waiting = thread::spawn(move || {
            assert!(write_lock.take());
            write_lock
        });
        eventually_blocking("the writer waits", || (*files.state.lock() != State::Idle).then_some(()));
        waiting
    }

    #[test]
    fn a_writer_that_has_just_written_goes_behind_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let [mut a, b, c] = [(); 3].map(|()| patient(&database));
        let probe = patient(&database);
        assert!(a.take());
        let b = wait_on_a_thread(b);
        until_next_is_taken(&probe.files);
        let c = wait_on_a_thread(c);
        a.release(false);
        let mut b = b.join().unwrap();
        until_next_is_taken(&probe.files);
        let a = wait_on_a_thread(a);
        b.release(false);
        let mut c = c.join().unwrap();
        assert!(!a.is_finished(), "c has waited longer");
        c.release(false);
        a.join().unwrap();
    }

    #[test]
    fn a_holder_that_never_releases_the_lock_delays_another_writer_once() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (mut stuck, mut other) = (FairWriteLock::open(&database).unwrap(), FairWriteLock::open(&database).unwrap());
        assert!(stuck.take());
        let begun = Instant::now();
        assert!(!other.take());
        assert!(begun.elapsed() >= PATIENCE);
        // From then on `other` does not wait at all: a thousand waits would take four minutes.
        let begun = Instant::now();
        assert!((0..1_000).all(|_| !other.take()));
        assert!(begun.elapsed() < 240 * PATIENCE, "{:?}", begun.elapsed());
        // When the holder goes on, the lock is not lost for ever.
        stuck.release(false);
        let is_idle = || (*other.files.state.lock() == State::Idle).then_some(());
        eventually_blocking("the helper has released the lock", is_idle);
        assert!(other.take());
    }

    #[test]
    fn a_link_in_place_of_a_lock_file_is_refused_and_its_target_stays_as_it_is() {
        use std::{
            fs,
            os::unix::fs::{PermissionsExt as _, symlink},
        };

        let folder = tempfile::tempdir().unwrap();
        let (database, foreign) = (folder.path().join("jobs.db"), folder.path().join("foreign"));
        fs::write(&database, "").unwrap();
        fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).unwrap();
        for suffix in ["-next", "-turn"] {
            let link = super::super::beside::beside(&database, suffix);
            symlink(&foreign, &link).unwrap();
            let error = FairWriteLock::open(&database).unwrap_err().to_string();
            assert_eq!(error, format!("{} is a link, which is not followed; remove it", link.display()));
            assert!(!foreign.exists());
            fs::write(&foreign, "").unwrap();
            fs::set_permissions(&foreign, fs::Permissions::from_mode(0o600)).unwrap();
            FairWriteLock::open(&database).unwrap_err();
            assert_eq!(fs::metadata(&foreign).unwrap().permissions().mode() & 0o777, 0o600);
            fs::remove_file(&foreign).unwrap();
            fs::remove_file(&link).unwrap();
        }
        FairWriteLock::open(&database).unwrap();
    }

    #[test]
    fn a_fresh_lock_is_kept_only_while_there_is_more_work() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (mut a, mut b) = (FairWriteLock::open(&database).unwrap(), FairWriteLock::open(&database).unwrap());
        assert!(a.take());
        a.release(true);
        assert!(a.locked_at.is_some());
        a.release(false);
        assert!(a.locked_at.is_none());
        assert!(b.take());
    }
}

//! Shows that this program lives, by a file lock that the kernel releases when the program dies, and finds dead programs by
//! their locks.

use std::{
    collections::HashSet,
    fs::{self, DirEntry, File, TryLockError},
    io,
    path::PathBuf,
    sync::OnceLock,
    thread::Thread,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use super::{
    beside::{belong_to, beside, open_unfollowed, socket_belongs_to},
    wake::NET,
    wake::process_notifier::{NotifySender, ProcessNotifier},
    wake::waiter_notifiers::WaiterNotifiers,
};

/// How old an unlocked lock file without a row must be before it is removed: a program creates and locks its file before it stores its row.
const UNLISTED: Duration = Duration::from_secs(60);

/// The lock file and the socket of this broker object; both are created when its first server joins.
#[derive(Debug)]
pub(super) struct Liveness {
    database: PathBuf,
    name: String,
    own_lock: Mutex<Option<LivenessLock>>,
    waiters: WaiterNotifiers,
    /// The thread that listens to our socket.
    pub(super) listener: OnceLock<Thread>,
}

#[derive(Debug)]
struct LivenessLock {
    _lock: Locked,
    process_notifier: Option<ProcessNotifier>,
}

/// A server's file as others see it.
#[derive(Debug)]
pub(super) enum LivenessStatus {
    /// A process holds the lock.
    Alive,
    /// No process holds the lock: the server is dead. The holder of the [`StaleLock`] is the only one to clean up after the
    /// server.
    Dead(StaleLock),
    /// There is no file, so only the lease can tell.
    Unknown,
}

/// The file of a dead server, locked by us.
#[derive(Debug)]
pub(super) struct StaleLock {
    path: PathBuf,
    _lock: Locked,
}

/// A file with our lock on it.
///
/// The file is opened with O_CLOEXEC, as std does, so that a child process of a job does not keep a dead server alive. But
/// between its fork and its exec a child has the open file too, and closing ours would leave the file locked: the lock is
/// released explicitly.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Liveness {
    /// Names the files of this broker object, and creates none of them yet.
    pub(super) fn new(database: PathBuf) -> Self {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let waiters = WaiterNotifiers::new(&database, &name);
        Self { database, name, own_lock: Mutex::new(None), waiters, listener: OnceLock::new() }
    }

    /// Returns the name by which other programs find our file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Creates and locks our file, which shows that this program lives. The file must be locked before the server is on the
    /// list: in the other order another program could remove the server in between.
    ///
    /// # Errors
    ///
    /// The file cannot be created or locked.
    pub(super) fn show(&self) -> io::Result<()> {
        let mut own_lock = self.own_lock.lock();
        if own_lock.is_some() {
            return Ok(());
        }
        let path = self.path(&self.name);
        let lock = File::options().read(true).write(true).create_new(true).open(&path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::Error::other("a lock file that was just made is locked"),
        })?;
        belong_to(&self.database, &lock);
        let process_notifier = ProcessNotifier::listen_at(&self.notifier_path(&self.name), NET);
        if process_notifier.is_some() {
            socket_belongs_to(&self.database, &self.notifier_path(&self.name));
            self.waiters.belong_to_server(&self.notifier_path(&self.name));
        }
        *own_lock = Some(LivenessLock { _lock: Locked(lock), process_notifier });
        self.wake_listener();
        Ok(())
    }

    /// Binds the socket by which other programs notify this one of finished tasks.
    pub(super) fn wait_for_ends(&self) {
        let own_lock = self.own_lock.lock();
        let has_notifier = own_lock.as_ref().is_some_and(|own_lock| own_lock.process_notifier.is_some());
        self.waiters.listen_at(has_notifier.then(|| self.notifier_path(&self.name)).as_deref());
        self.wake_listener();
    }

    /// Has the listener look for our socket, which it does not poll yet.
    fn wake_listener(&self) {
        if let Some(listener) = self.listener.get() {
            listener.unpark();
        }
    }

    /// Ends each wait of the listener, whichever it is in: the caller has closed the broker, and must not have [hidden](Self::hide) our
    /// socket yet.
    pub(super) fn wake_listener_at_the_end(&self, notify_sender: &NotifySender) {
        // The watcher of the log reports the close of a file that was open for writing.
        drop(File::options().write(true).open(beside(&self.database, "-wal")));
        if let Some(process_notifier) = self.process_notifier() {
            notify_sender.notify_own(&process_notifier);
        }
        self.wake_listener();
    }

    /// Returns the sockets of programs that wait for the ends of tasks.
    pub(super) fn waiters(&self) -> &WaiterNotifiers {
        &self.waiters
    }

    /// Returns our socket, if one is bound.
    pub(super) fn process_notifier(&self) -> Option<ProcessNotifier> {
        let own_lock = self.own_lock.lock();
        own_lock
            .as_ref()
            .and_then(|own_lock| own_lock.process_notifier.clone())
            .or_else(|| self.waiters.process_notifier())
    }

    /// Looks whether the server with the file `name` lives. A name that no program made, and a link, are unknown.
    pub(super) fn look(&self, name: &str) -> LivenessStatus {
        if !is_name(name) {
            return LivenessStatus::Unknown;
        }
        let path = self.path(name);
        // Locking needs to read only, so that the death of another user's program is seen at once, too.
        let Ok(file) = open_unfollowed(File::options().read(true), &path) else { return LivenessStatus::Unknown };
        match file.try_lock() {
            Ok(()) => LivenessStatus::Dead(StaleLock { path, _lock: Locked(file) }),
            Err(TryLockError::WouldBlock) => LivenessStatus::Alive,
            Err(TryLockError::Error(_)) => LivenessStatus::Unknown,
        }
    }

    /// Returns whether the lock of another program's server tells that it is dead.
    pub(super) fn is_dead(&self, name: &str) -> bool {
        name != self.name && matches!(self.look(name), LivenessStatus::Dead(_))
    }

    /// Whether a server of ours has joined.
    pub(super) fn has_joined(&self) -> bool {
        self.own_lock.lock().is_some()
    }

    /// Removes our files. With `keep` the lock file stays, unlocked, so that other programs find our tasks by it.
    pub(super) fn hide(&self, keep: bool) {
        self.waiters.take_down();
        let Some(own_lock) = self.own_lock.lock().take() else { return };
        let _ = fs::remove_file(self.notifier_path(&self.name));
        if !keep {
            let _ = fs::remove_file(self.path(&self.name));
        }
        drop(own_lock);
    }

    /// Removes the files of dead programs that are not among the `listed`: a program that was killed before its row was stored, or between
    /// the removal of a row and that of its files, left them.
    pub(super) fn remove_unlisted(&self, listed: &HashSet<String>) {
        let start = beside(&self.database, "-srv-");
        let (Some(folder), Some(start)) = (start.parent(), start.file_name().and_then(|start| start.to_str())) else {
            return;
        };
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.filter_map(io::Result::ok) {
            let entry_name = entry.file_name();
            let Some(name) = entry_name.to_str().and_then(|name| name.strip_prefix(start)) else { continue };
            if !listed.contains(name)
                && is_old(&entry)
                && let LivenessStatus::Dead(stale_lock) = self.look(name)
            {
                stale_lock.close();
            }
        }
    }

    /// Returns where the socket of another server, which has the file `name`, is bound; `None` if no program made that name.
    pub(super) fn notifier_of(&self, name: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.notifier_path(name))
    }

    /// Returns where the socket of the server with the file `name` is bound.
    fn notifier_path(&self, name: &str) -> PathBuf {
        beside(&self.database, &format!("-srv-{name}.sock"))
    }

    fn path(&self, name: &str) -> PathBuf {
        beside(&self.database, &format!("-srv-{name}"))
    }
}

/// Whether `name` looks as [`Liveness::new`] makes it. A row is written by any program that may write to the database, and its
/// text must not lead out of the folder.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_old(entry: &DirEntry) -> bool {
    let written = entry.metadata().and_then(|found| found.modified());
    written.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|age| age >= UNLISTED))
}

impl StaleLock {
    /// Removes the files of the dead server, whose tasks and row must be gone.
    pub(super) fn close(&self) {
        let _ = fs::remove_file(beside(&self.path, ".sock"));
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_can_take_the_lock_knows_that_its_owner_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (one, other) = (Liveness::new(database.clone()), Liveness::new(database));
        assert!(matches!(other.look(one.name()), LivenessStatus::Unknown));
        one.show().unwrap();
        assert!(matches!(other.look(one.name()), LivenessStatus::Alive));
        one.hide(true);
        let LivenessStatus::Dead(stale_lock) = other.look(one.name()) else { panic!("the lock was released") };
        assert!(matches!(other.look(one.name()), LivenessStatus::Alive), "only one of us cleans up");
        stale_lock.close();
        assert!(matches!(other.look(one.name()), LivenessStatus::Unknown));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_that_no_row_names_are_removed_once_they_are_old_and_their_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let [one, alive, listed, young, dead] = std::array::from_fn(|_| Liveness::new(database.clone()));
        for liveness in [&one, &alive, &listed, &young, &dead] {
            liveness.show().unwrap();
        }
        fs::write(beside(&database, "-srv-notes"), "").unwrap();
        for name in [alive.name(), listed.name(), dead.name(), "notes"] {
            let lock_file = File::options().write(true).open(one.path(name)).unwrap();
            lock_file.set_modified(SystemTime::now() - UNLISTED).unwrap();
        }
        for killed in [&listed, &young, &dead] {
            drop(killed.own_lock.lock().take());
        }
        one.remove_unlisted(&HashSet::from([listed.name().to_owned()]));
        let is_left = |liveness: &Liveness| {
            [liveness.path(liveness.name()), liveness.notifier_path(liveness.name())].map(|path| path.exists())
        };
        assert_eq!([&one, &alive, &listed, &young].map(is_left), [[true; 2]; 4]);
        assert_eq!(is_left(&dead), [false; 2]);
        assert!(beside(&database, "-srv-notes").exists());
    }

    #[test]
    fn a_link_in_place_of_a_socket_stays_and_so_does_its_target() {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (database, foreign) = (folder.path().join("jobs.db"), folder.path().join("foreign"));
        for (path, mode) in [(&database, 0o666), (&foreign, 0o600)] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mode = |path: &PathBuf| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        let one = Liveness::new(database.clone());
        symlink(&foreign, one.notifier_path(one.name())).unwrap();
        one.show().unwrap();
        assert!(one.process_notifier().is_none());
        assert_eq!(mode(&foreign), 0o600);
        let other = Liveness::new(database);
        other.show().unwrap();
        let socket = other.notifier_path(other.name());
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        assert_eq!((mode(&socket), mode(&other.path(other.name()))), (0o666, 0o666));
    }

    #[test]
    fn a_name_that_no_program_made_and_a_link_are_unknown_and_lead_to_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (one, foreign) = (Liveness::new(folder.path().join("jobs.db")), folder.path().join("foreign"));
        fs::write(&foreign, "").unwrap();
        fs::create_dir(folder.path().join("jobs.db-srv-x")).unwrap();
        std::os::unix::fs::symlink(&foreign, one.path(&"0".repeat(32))).unwrap();
        for name in ["x/../foreign", &"0".repeat(32)] {
            match one.look(name) {
                LivenessStatus::Unknown => {}
                LivenessStatus::Dead(stale_lock) => stale_lock.close(),
                LivenessStatus::Alive => panic!("{name}: no program has locked it"),
            }
            assert!(foreign.exists(), "{name}");
            assert!(matches!(one.look(name), LivenessStatus::Unknown), "{name}");
        }
        assert!(one.notifier_of("x/../foreign").is_none());
        assert!(one.notifier_of(one.name()).is_some());
    }

    #[test]
    fn a_lock_is_released_although_a_child_process_has_the_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (one, other) = (Liveness::new(database.clone()), Liveness::new(database));
        one.show().unwrap();
        // A fork gives a child the open file like this.
        let of_child = one.own_lock.lock().as_ref().unwrap()._lock.0.try_clone().unwrap();
        one.hide(true);
        let LivenessStatus::Dead(stale_lock) = other.look(one.name()) else { panic!("the lock was released") };
        drop(of_child);
        let of_child = stale_lock._lock.0.try_clone().unwrap();
        drop(stale_lock);
        assert!(matches!(other.look(one.name()), LivenessStatus::Dead(_)), "looked at again, it is as dead as before");
        drop(of_child);
    }
}

//! Shows that this program lives, by a file lock that the kernel releases when it dies, and finds dead programs by
//! theirs.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::{
    beside::{belong_to, beside},
    wake::process_notifier::ProcessNotifier,
    wake::waiter_notifiers::WaiterNotifiers,
    wake::watch::NET,
};

/// The lock file and the socket of this broker object; both are made when its first server joins.
#[derive(Debug)]
pub(super) struct Liveness {
    database: PathBuf,
    name: String,
    held: Mutex<Option<LivenessLock>>,
    waiters: WaiterNotifiers,
}

#[derive(Debug)]
struct LivenessLock {
    _lock: Locked,
    process_notifier: Option<ProcessNotifier>,
}

/// A server's file as others see it.
#[derive(Debug)]
pub(super) enum Sign {
    /// A process holds it.
    Alive,
    /// No process holds it: the server is dead. The holder of this lock is the only one to clean up after that server.
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
/// Opened with O_CLOEXEC, as std does, so that a child process of a job does not keep a dead server alive. But between its
/// fork and its exec a child has the open file too, and closing ours would leave it locked: the lock is released explicitly.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Liveness {
    /// Nothing is made yet.
    pub(super) fn new(database: PathBuf) -> Self {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let waiters = WaiterNotifiers::new(&database, &name);
        Self { database, name, held: Mutex::new(None), waiters }
    }

    /// What other programs find our file by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Shows that we live. It must be done before the server is on the list: in the other order another program could
    /// remove it in between.
    ///
    /// # Errors
    ///
    /// The file cannot be made or locked.
    pub(super) fn show(&self) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(());
        }
        let path = self.path(&self.name);
        let lock = File::options().read(true).write(true).create_new(true).open(&path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::Error::other("a lock file that was just made is locked"),
        })?;
        belong_to(&self.database, &path);
        let process_notifier = ProcessNotifier::listen_at(&self.notifier_path(&self.name), NET);
        belong_to(&self.database, &self.notifier_path(&self.name));
        if process_notifier.is_some() {
            self.waiters.belong_to_server(&self.notifier_path(&self.name));
        }
        *held = Some(LivenessLock { _lock: Locked(lock), process_notifier });
        Ok(())
    }

    /// Binds the socket by which other programs notify this one of finished tasks.
    pub(super) fn wait_for_ends(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let has_bell = held.as_ref().is_some_and(|held| held.process_notifier.is_some());
        self.waiters.listen_at(has_bell.then(|| self.notifier_path(&self.name)).as_deref());
    }

    /// The sockets of programs that wait for the ends of tasks.
    pub(super) fn waiters(&self) -> &WaiterNotifiers {
        &self.waiters
    }

    /// Our socket, if one is bound.
    pub(super) fn process_notifier(&self) -> Option<ProcessNotifier> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().and_then(|held| held.process_notifier.clone()).or_else(|| self.waiters.process_notifier())
    }

    /// Looks whether the server with the file `name` lives.
    pub(super) fn look(&self, name: &str) -> Sign {
        let path = self.path(name);
        // Locking needs to read only, so that the death of another user's program is seen at once, too.
        let Ok(file) = File::open(&path) else { return Sign::Unknown };
        match file.try_lock() {
            Ok(()) => Sign::Dead(StaleLock { path, _lock: Locked(file) }),
            Err(TryLockError::WouldBlock) => Sign::Alive,
            Err(TryLockError::Error(_)) => Sign::Unknown,
        }
    }

    /// Whether a server of ours has joined.
    pub(super) fn is_shown(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Stops showing that we live. With `keep` the file stays, unlocked, for others to find our tasks by.
    pub(super) fn hide(&self, keep: bool) {
        self.waiters.take_down();
        let Some(held) = self.held.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let _ = fs::remove_file(self.notifier_path(&self.name));
        if !keep {
            let _ = fs::remove_file(self.path(&self.name));
        }
        drop(held);
    }

    /// Where the socket of the server with the file `name` is bound.
    pub(super) fn notifier_path(&self, name: &str) -> PathBuf {
        beside(&self.database, &format!("-srv-{name}.sock"))
    }

    fn path(&self, name: &str) -> PathBuf {
        beside(&self.database, &format!("-srv-{name}"))
    }
}

impl StaleLock {
    /// Takes the dead server's files away; its tasks and its row must be gone.
    pub(super) fn close(&self) {
        let _ = fs::remove_file(beside(&self.path, ".sock"));
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_can_take_the_lock_knows_that_its_owner_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (one, other) = (Liveness::new(database.clone()), Liveness::new(database));
        assert!(matches!(other.look(one.name()), Sign::Unknown));
        one.show().unwrap();
        assert!(matches!(other.look(one.name()), Sign::Alive));
        one.hide(true);
        let Sign::Dead(stale_lock) = other.look(one.name()) else { panic!("the lock was given back") };
        assert!(matches!(other.look(one.name()), Sign::Alive), "only one of us buries it");
        stale_lock.close();
        assert!(matches!(other.look(one.name()), Sign::Unknown));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_is_given_back_though_a_child_process_has_the_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let (one, other) = (Liveness::new(database.clone()), Liveness::new(database));
        one.show().unwrap();
        // What a fork does to an open file.
        let of_child = one.held.lock().unwrap().as_ref().unwrap()._lock.0.try_clone().unwrap();
        one.hide(true);
        let Sign::Dead(stale_lock) = other.look(one.name()) else { panic!("the lock was given back") };
        drop(of_child);
        let of_child = stale_lock._lock.0.try_clone().unwrap();
        drop(stale_lock);
        assert!(matches!(other.look(one.name()), Sign::Dead(_)), "looked at again, it is as dead as before");
        drop(of_child);
    }
}

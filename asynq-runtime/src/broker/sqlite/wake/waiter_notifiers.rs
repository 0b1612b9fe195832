//! Notifies programs that wait for the ends of tasks of commits by other programs (docs/design/sqlite.md#wake-up).
//!
//! A server is on the list in the file, and its socket is beside the database. A program that only enqueues and waits
//! is on no list: its socket is in the folder `<db>-waiters`, where a commit that ended a task looks for programs to
//! notify.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use super::{
    super::beside::{beside, folder_belongs_to, is_link, socket_belongs_to},
    NET,
    process_notifier::{NotifySender, ProcessNotifier},
};

/// The sockets of the waiting programs on one database, and whether this one is among them.
#[derive(Debug)]
pub(in crate::broker::sqlite) struct WaiterNotifiers {
    database: PathBuf,
    folder: PathBuf,
    /// Our socket within the folder.
    own: PathBuf,
    bound: Mutex<Option<Bound>>,
}

/// The entry of this program in the folder.
#[derive(Debug)]
enum Bound {
    /// A socket.
    ProcessNotifier(ProcessNotifier),
    /// A link to the socket of the server that this program runs: one socket is enough to listen to.
    Link,
    /// Nothing for good: the broker closes, and a wait that still asks for a socket would leave it behind.
    TakenDown,
}

impl WaiterNotifiers {
    pub(in crate::broker::sqlite) fn new(database: &Path, name: &str) -> Self {
        let folder = beside(database, "-waiters");
        let own = folder.join(format!("{name}.sock"));
        Self { database: database.to_owned(), folder, own, bound: Mutex::default() }
    }

    /// Binds the socket of this program, or a link to the socket of its `server`, if neither is there yet. Where that is
    /// impossible, the safety net notices commits by others.
    pub(in crate::broker::sqlite) fn listen_at(&self, server: Option<&Path>) {
        let mut bound = self.bound.lock();
        // The last of the other programs removes the folder when it leaves, perhaps just now.
        for _ in 0..3 {
            if bound.is_some() {
                return;
            }
            if fs::create_dir(&self.folder).is_ok() {
                folder_belongs_to(&self.database, &self.folder);
            }
            // Another user may have put a link there, into a folder that only this program may write to.
            if is_link(&self.folder) {
                return;
            }
            *bound = match server {
                Some(server) => self.link(server),
                None => {
                    let socket = ProcessNotifier::listen_at(&self.own, NET);
                    socket.inspect(|_| socket_belongs_to(&self.database, &self.own)).map(Bound::ProcessNotifier)
                }
            };
        }
    }

    /// Replaces our socket by a link to that of `server`, a server of this program that has bound one: it receives our
    /// notifications from now on.
    pub(in crate::broker::sqlite) fn belong_to_server(&self, server: &Path) {
        let mut bound = self.bound.lock();
        if let Some(Bound::ProcessNotifier(_) | Bound::Link) = *bound {
            let _ = fs::remove_file(&self.own);
            *bound = self.link(server);
        }
    }

    /// Returns our socket, if one is bound.
    pub(in crate::broker::sqlite) fn process_notifier(&self) -> Option<ProcessNotifier> {
        match &*self.bound.lock() {
            Some(Bound::ProcessNotifier(process_notifier)) => Some(process_notifier.clone()),
            Some(Bound::Link | Bound::TakenDown) | None => None,
        }
    }

    fn link(&self, server: &Path) -> Option<Bound> {
        let server = Path::new("..").join(server.file_name()?);
        symlink(server, &self.own).is_ok().then_some(Bound::Link)
    }

    /// Removes our socket, and binds none any more.
    pub(in crate::broker::sqlite) fn take_down(&self) {
        if let Some(Bound::ProcessNotifier(_) | Bound::Link) = self.bound.lock().replace(Bound::TakenDown) {
            let _ = fs::remove_file(&self.own);
            // The folder stays if other programs have sockets in it.
            let _ = fs::remove_dir(&self.folder);
        }
    }

    /// Notifies the other programs, and removes the sockets of dead ones. Other files, and a link in place of the folder, stay as
    /// they are: another user may have put them there.
    pub(in crate::broker::sqlite) fn notify(&self, notify_sender: &NotifySender) {
        if is_link(&self.folder) {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.filter_map(io::Result::ok).filter(|entry| self.is_notifier(entry)) {
            let process_notifier = entry.path();
            let is_dead = process_notifier != self.own && notify_sender.notify(&process_notifier);
            if is_dead {
                let _ = fs::remove_file(&process_notifier);
            }
        }
    }

    /// Whether `entry` is a socket, or a link to the socket of a server as [`link`](Self::link) makes it.
    fn is_notifier(&self, entry: &fs::DirEntry) -> bool {
        let server = beside(&self.database, "-srv-");
        let is_of_server = |target: PathBuf| {
            let names = target.file_name().zip(server.file_name());
            target.parent() == Some(Path::new(".."))
                && names.is_some_and(|(name, start)| name.as_encoded_bytes().starts_with(start.as_encoded_bytes()))
        };
        entry.file_type().is_ok_and(|found| {
            found.is_socket() || found.is_symlink() && fs::read_link(entry.path()).is_ok_and(is_of_server)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_reaches_every_other_program_and_removes_the_notifiers_of_dead_ones() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        fs::write(&database, "").unwrap();
        let [one, two, dead] = ["one", "two", "dead"].map(|name| WaiterNotifiers::new(&database, name));
        let notify_sender = NotifySender::ready();
        one.notify(&notify_sender);
        for notifiers in [&one, &two, &dead] {
            notifiers.listen_at(None);
            notifiers.listen_at(None);
        }
        // A killed program leaves its socket.
        *dead.bound.lock() = None;
        one.notify(&notify_sender);
        assert!(two.process_notifier().unwrap().was_notified());
        assert!(!one.process_notifier().unwrap().was_notified(), "its own commits notify within the process");
        assert!(!dead.own.exists());
        one.take_down();
        two.notify(&notify_sender);
        two.take_down();
        // A wait may ask for the socket while its program closes the broker.
        one.listen_at(None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the database is left");
        let next = WaiterNotifiers::new(&database, "next");
        next.listen_at(None);
        assert!(next.process_notifier().is_some());
        next.take_down();
    }

    #[test]
    fn a_link_in_place_of_a_socket_or_the_folder_stays_and_so_does_its_target() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let [database, foreign, theirs] = ["jobs.db", "foreign", "theirs"].map(|name| folder.path().join(name));
        for (path, mode) in [(&database, 0o666), (&foreign, 0o600)] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        let [one, two, three] = ["one", "two", "three"].map(|name| WaiterNotifiers::new(&database, name));
        one.listen_at(None);
        assert_eq!((mode(&one.folder), mode(&one.own)), (0o777, 0o666));
        symlink(&foreign, &two.own).unwrap();
        two.listen_at(None);
        assert!(two.process_notifier().is_none());
        assert_eq!(mode(&foreign), 0o600);
        fs::remove_dir_all(&one.folder).unwrap();
        fs::create_dir(&theirs).unwrap();
        symlink(&theirs, &one.folder).unwrap();
        three.listen_at(None);
        assert!(three.process_notifier().is_none());
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    }

    #[test]
    fn a_notification_removes_neither_other_files_nor_any_behind_a_link() {
        use std::os::unix::net::UnixDatagram;

        let folder = tempfile::tempdir().unwrap();
        let [database, theirs] = ["jobs.db", "theirs"].map(|name| folder.path().join(name));
        fs::write(&database, "").unwrap();
        let (one, notify_sender) = (WaiterNotifiers::new(&database, "one"), NotifySender::ready());
        let names = |folder: &Path| {
            let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        for (path, is_link) in [(&one.folder, false), (&theirs, true)] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), "").unwrap();
            symlink("../jobs.db", path.join("foreign-link")).unwrap();
            symlink("../jobs.db-srv-dead.sock", path.join("link")).unwrap();
            drop(UnixDatagram::bind(path.join("socket")).unwrap());
            if is_link {
                fs::remove_dir_all(&one.folder).unwrap();
                symlink(path, &one.folder).unwrap();
            }
            one.notify(&notify_sender);
            let left: &[&str] =
                if is_link { &["file", "foreign-link", "link", "socket"] } else { &["file", "foreign-link"] };
            assert_eq!(names(path), left);
        }
    }

    #[test]
    fn a_program_that_serves_and_waits_has_one_notifier_whichever_came_first() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        fs::write(&database, "").unwrap();
        let (notify_sender, server) = (NotifySender::ready(), folder.path().join("jobs.db-srv-one.sock"));
        let process_notifier = ProcessNotifier::listen_at(&server, NET).unwrap();
        for waits_first in [true, false] {
            let [one, two] = ["one", "two"].map(|name| WaiterNotifiers::new(&database, name));
            one.listen_at((!waits_first).then_some(&*server));
            one.belong_to_server(&server);
            assert!(one.process_notifier().is_none());
            two.notify(&notify_sender);
            assert!(process_notifier.was_notified(), "{waits_first}");
            one.take_down();
            two.notify(&notify_sender);
            assert!(!process_notifier.was_notified(), "{waits_first}");
        }
    }
}

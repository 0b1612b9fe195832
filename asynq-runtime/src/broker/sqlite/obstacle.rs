//! Finds out why a database could not be opened, which SQLite's error does not say. The files themselves are not opened for it:
//! closing them would release the locks that this process has on them.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::Errno,
};

use super::beside::beside;
use crate::broker::BrokerErrorKind;

/// The reason why this program cannot use a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The database, its log or the log's index, which may not be read and written.
    File(PathBuf),
    /// The folder, in which no file may be created.
    Folder(PathBuf),
    /// The limit of open files.
    Descriptors,
}

impl Obstacle {
    /// Looks for what keeps this program from `database`.
    pub(super) fn of(database: &Path) -> Option<Self> {
        Self::find(database, is_denied, are_descriptors_short)
    }

    fn find(
        database: &Path,
        is_denied: impl Fn(&Path, Access) -> bool,
        are_descriptors_short: impl Fn() -> bool,
    ) -> Option<Self> {
        let mut files = ["", "-wal", "-shm"].into_iter().map(|suffix| beside(database, suffix));
        if let Some(file) = files.find(|file| is_denied(file, Access::READ_OK | Access::WRITE_OK)) {
            return Some(Self::File(file));
        }
        let folder = database.parent().filter(|folder| is_denied(folder, Access::WRITE_OK | Access::EXEC_OK));
        folder
            .map(|folder| Self::Folder(folder.to_owned()))
            .or_else(|| are_descriptors_short().then_some(Self::Descriptors))
    }

    /// Returns the obstacle that an error of the file system names by itself.
    pub(super) fn named_by(error: &io::Error) -> Option<Self> {
        is_limit_of_descriptors(error).then_some(Self::Descriptors)
    }

    pub(super) fn kind(&self) -> BrokerErrorKind {
        match self {
            Self::File(_) | Self::Folder(_) => BrokerErrorKind::Denied,
            Self::Descriptors => BrokerErrorKind::Unavailable,
        }
    }
}

/// Says what it is, and what to do.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(
                f,
                "this program may not read and write {}{}; let its user do so (`chown` or `chmod`), or run it as the owner",
                file.display(),
                owner(file)
            ),
            Self::Folder(folder) => write!(
                f,
                "this program may not create files in the folder {}{}, where SQLite keeps its log beside the file; let its user \
                 write there",
                folder.display(),
                owner(folder)
            ),
            Self::Descriptors => f.write_str(
                "this program has as many files and connections open as it may; raise the limit (`ulimit -n`, or \
                 `LimitNOFILE=` of systemd)",
            ),
        }
    }
}

fn owner(path: &Path) -> String {
    let found = std::fs::metadata(path);
    found.map(|found| format!(" (user {}, mode {:o})", found.uid(), found.mode() & 0o7777)).unwrap_or_default()
}

fn is_denied(path: &Path, wanted: Access) -> bool {
    accessat(CWD, path, wanted, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

/// Whether this program may not open as many files as SQLite has for one connection. The files of a failed connection are closed
/// by now, so that opening a single one proves nothing.
fn are_descriptors_short() -> bool {
    let opened: io::Result<Vec<_>> = (0..8).map(|_| std::fs::File::open("/")).collect();
    opened.is_err_and(|error| is_limit_of_descriptors(&error))
}

fn is_limit_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_is_found_and_named() {
        let (change, create) = (Access::READ_OK | Access::WRITE_OK, Access::WRITE_OK | Access::EXEC_OK);
        let found = |denied: &'static str, needed: Access, short: bool| {
            let is_denied = |path: &Path, asked: Access| path == Path::new(denied) && asked == needed;
            Obstacle::find(Path::new("/x/jobs.db"), is_denied, || short)
        };
        for (denied, needed, short, kind, words) in [
            ("/x/jobs.db", change, false, BrokerErrorKind::Denied, "read and write /x/jobs.db; let"),
            ("/x/jobs.db-wal", change, true, BrokerErrorKind::Denied, "read and write /x/jobs.db-wal; let"),
            ("/x", create, true, BrokerErrorKind::Denied, "may not create files in the folder /x, where"),
            ("", create, true, BrokerErrorKind::Unavailable, "raise the limit (`ulimit -n`"),
        ] {
            let obstacle = found(denied, needed, short).unwrap();
            assert_eq!(obstacle.kind(), kind, "{obstacle}");
            assert!(obstacle.to_string().contains(words), "{obstacle}");
        }
        assert_eq!(found("", create, false), None);
    }

    #[test]
    fn a_limit_of_open_files_is_known_by_its_number() {
        assert_eq!(Obstacle::named_by(&io::Error::from_raw_os_error(libc::EMFILE)), Some(Obstacle::Descriptors));
        assert_eq!(Obstacle::named_by(&io::Error::from_raw_os_error(libc::ENOENT)), None);
    }
}

//! Whether a file is still the one that was opened.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use rusqlite::{Connection, Error::SqliteFailure, ErrorCode, ffi};

use super::{beside::is_link, connection};
use crate::broker::{BrokerError, corrupt};

/// Identity of a file, whatever its name: a device and a number on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    /// Reads the identity of the file at `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be found.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }
}

/// Opens a connection to `file` as [`open_untouched`](connection::open_untouched) does, and returns with it which file it has open. Where
/// another file takes the name meanwhile, either may be that one, so the name is opened again; so is a file that the first opening made.
///
/// # Errors
///
/// The file cannot be opened, or was replaced each time.
pub(super) fn open_known(file: &Path) -> rusqlite::Result<(Connection, Identity)> {
    for _ in 0..3 {
        let before = Identity::of(file);
        let connection = connection::open_untouched(file)?;
        if let (Ok(before), Ok(after)) = (before, Identity::of(file))
            && before == after
        {
            return Ok((connection, after));
        }
    }
    Err(SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), None))
}

/// Status of a file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileStatus {
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
    pub(super) fn of(path: &Path, identity: Identity) -> Self {
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
    ///
    /// `path` led through no link when the database was opened, so a link is new: the file was moved away, and a program that follows
    /// the link keeps a second log beside it, even if the link leads to the same file.
    pub(super) fn of_database(path: &Path, identity: Identity) -> Self {
        if is_link(path) {
            return Self::Gone;
        }
        let is_empty = || fs::metadata(path).is_ok_and(|found| found.len() == 0);
        match Self::of(path, identity) {
            Self::Same if is_empty() => Self::Emptied,
            status => status,
        }
    }

    /// Returns the error of all calls from now on: SQLite would go on writing into a file without a name.
    pub(super) fn error(self, place: &str) -> Option<BrokerError> {
        let lost = || "tasks written since may be lost, restart this program".to_owned();
        let (event, advice) = match self {
            Self::Same => return None,
            Self::Replaced => ("replaced", lost()),
            Self::Gone => ("deleted or moved away", lost()),
            Self::Emptied => ("emptied", restore(place)),
        };
        let message = format!("{place} was {event} while it was in use; {advice}");
        Some(corrupt(message))
    }
}

/// Returns advice about a file without its tables. SQLite would read the log that is left into whatever file it lies beside.
pub(super) fn restore(place: &str) -> String {
    format!(
        "stop every program on this file, delete {place}-wal and {place}-shm, put a backup in its place, then start them again"
    )
}

/// Whether a new connection cannot read the list of tables. Damage to one page does not stop the broker: the tasks in other
/// pages are still worked off.
pub(super) fn is_unreadable(file: &Path) -> bool {
    let schema = connection::open_watch(file)
        .and_then(|open| open.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)));
    let code = schema.err().and_then(|error| error.sqlite_error_code());
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

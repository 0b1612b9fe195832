//! Translates failures of SQLite and of the file system into errors of the broker.

use std::{io, path::Path};

use rusqlite::{ErrorCode, ffi};

use super::obstacle::Obstacle;
use crate::broker::{BrokerError, BrokerErrorKind};

/// Translates an error of SQLite; `place` is the file as people know it.
pub(super) fn translate(error: rusqlite::Error, place: &str) -> BrokerError {
    if matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    ) && let Some(obstacle) = Obstacle::of(Path::new(place))
    {
        return BrokerError::with_source(obstacle.kind(), format!("{place}: {obstacle} ({error})"), error);
    }
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => (
            BrokerErrorKind::Unavailable,
            "another program has held the write lock for too long; keep transactions on this file short, and pause \
             between them",
        ),
        Some(ErrorCode::DiskFull) => (BrokerErrorKind::Full, "the disk is full; nothing was stored"),
        Some(ErrorCode::ReadOnly) if has_extended_code(&error, ffi::SQLITE_READONLY_DBMOVED) => (
            BrokerErrorKind::Corrupt,
            "the file was moved, deleted or replaced while it was in use; restart this program",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (BrokerErrorKind::Denied, "the file or its folder is read-only for this program")
        }
        Some(ErrorCode::CannotOpen) => (
            BrokerErrorKind::Denied,
            "the file cannot be opened; its folder must exist and allow this program to create files in it",
        ),
        Some(ErrorCode::NotADatabase) => (
            BrokerErrorKind::Corrupt,
            "this is not a SQLite file, or it is encrypted, which is not supported; if it held tasks, it is damaged: restore a \
             backup; else choose another path",
        ),
        // SQLite says the same of a read that the system refused (`SQLITE_IOERR_CORRUPTFS`).
        Some(ErrorCode::DatabaseCorrupt) => (
            BrokerErrorKind::Corrupt,
            "the file is damaged, or its disk cannot be read: look into the system's log, and if the disk is sound, stop every \
             program on the file, and restore a backup or salvage it (docs/operations.md#sqlite)",
        ),
        Some(ErrorCode::OperationInterrupted) => (BrokerErrorKind::Timeout, "the query took too long and was stopped"),
        Some(ErrorCode::SystemIoFailure) if has_extended_code(&error, ffi::SQLITE_IOERR_SHORT_READ) => (
            BrokerErrorKind::Unavailable,
            "the file or its log is shorter than it should be, as when one of them was removed and some program still uses it: \
             stop every program on this file, then start them again",
        ),
        Some(ErrorCode::SystemIoFailure) if has_extended_code(&error, ffi::SQLITE_IOERR_WRITE) => (
            BrokerErrorKind::Unavailable,
            "writing the file failed, as over a quota or on a failing disk; look into the system's log",
        ),
        Some(ErrorCode::SystemIoFailure) if has_extended_code(&error, ffi::SQLITE_IOERR_LOCK) => (
            BrokerErrorKind::Unavailable,
            "the file system refused a lock; if it does so always, use a local disk, or Redis",
        ),
        Some(ErrorCode::SystemIoFailure) => (BrokerErrorKind::Unavailable, "reading or writing the file failed"),
        Some(ErrorCode::OutOfMemory) => (BrokerErrorKind::Unavailable, "there is not enough memory"),
        _ => (BrokerErrorKind::Unexpected, "an answer that was not expected"),
    };
    BrokerError::with_source(kind, format!("{place}: {advice} ({error})"), error)
}

fn has_extended_code(error: &rusqlite::Error, code: i32) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(found, _) if found.extended_code == code)
}

/// Translates an error of the file system while `path` was being opened.
pub(super) fn translate_io(error: io::Error, path: &Path) -> BrokerError {
    let place = path.display();
    let denied = || if error.kind() == io::ErrorKind::PermissionDenied { Obstacle::of(path) } else { None };
    if let Some(obstacle) = Obstacle::named_by(&error).or_else(denied) {
        return BrokerError::with_source(obstacle.kind(), format!("{place}: {obstacle} ({error})"), error);
    }
    let (kind, advice) = match error.kind() {
        io::ErrorKind::PermissionDenied => (BrokerErrorKind::Denied, "this program may not write here"),
        io::ErrorKind::ReadOnlyFilesystem => (BrokerErrorKind::Denied, "the file system is read-only"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (BrokerErrorKind::Full, "the disk is full"),
        io::ErrorKind::NotFound => {
            (BrokerErrorKind::Corrupt, "the file or its folder was deleted or moved away; restart this program")
        }
        _ => (BrokerErrorKind::Unavailable, "the file cannot be used"),
    };
    BrokerError::with_source(kind, format!("{place}: {advice} ({error})"), error)
}

/// Translates a failure to sync the log of `place`. The kind is never [`Full`](BrokerErrorKind::Full), which says that nothing
/// was stored: the commit can be read, and may be gone after a power cut.
pub(super) fn translate_sync(error: io::Error, place: &str) -> BrokerError {
    let message = format!(
        "{place}: the disk did not take what was written; look into the system's log; whether the call took effect is \
         unknown ({error})"
    );
    BrokerError::with_source(BrokerErrorKind::Unavailable, message, error)
}

/// Whether a page of the file is damaged. The rows of other pages can be read and written all the same.
pub(super) fn is_damaged(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// Whether a failed transaction says something about the disk rather than about one of its items.
pub(super) fn concerns_everyone(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        None | Some(
            ErrorCode::ConstraintViolation
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange
                | ErrorCode::Unknown
        )
    )
}

/// Whether the disk, a limit of the file, or a quota of the user may have left no room. SQLite takes an exceeded quota for a write that
/// failed.
pub(super) fn may_lack_room(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || has_extended_code(error, ffi::SQLITE_IOERR_WRITE)
}

/// Whether the connection should not be trusted any more.
pub(super) fn needs_new_connection(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn each_failure_of_sqlite_has_its_kind() {
        for (code, kind) in [
            (ffi::SQLITE_BUSY, BrokerErrorKind::Unavailable),
            (ffi::SQLITE_FULL, BrokerErrorKind::Full),
            (ffi::SQLITE_READONLY, BrokerErrorKind::Denied),
            (ffi::SQLITE_CANTOPEN, BrokerErrorKind::Denied),
            (ffi::SQLITE_NOTADB, BrokerErrorKind::Corrupt),
            (ffi::SQLITE_CORRUPT, BrokerErrorKind::Corrupt),
            (ffi::SQLITE_INTERRUPT, BrokerErrorKind::Timeout),
            (ffi::SQLITE_IOERR, BrokerErrorKind::Unavailable),
            (ffi::SQLITE_MISUSE, BrokerErrorKind::Unexpected),
        ] {
            let error = translate(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), "jobs.db");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("jobs.db: "), "{error}");
        }
    }

    #[test]
    fn a_lock_that_the_file_system_refused_is_named() {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_LOCK), None);
        let error = translate(failure, "jobs.db").to_string();
        assert!(error.contains("the file system refused a lock"), "{error}");
    }

    /// A backup in place of a whole file loses tasks.
    #[test]
    fn a_read_that_failed_is_not_said_to_be_damage_alone() {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None);
        let error = translate(failure, "jobs.db").to_string();
        assert!(error.contains("or its disk cannot be read: look into the system's log"), "{error}");
    }

    #[test]
    fn each_failure_of_the_file_system_has_its_kind() {
        for (code, kind) in [
            (io::ErrorKind::PermissionDenied, BrokerErrorKind::Denied),
            (io::ErrorKind::ReadOnlyFilesystem, BrokerErrorKind::Denied),
            (io::ErrorKind::StorageFull, BrokerErrorKind::Full),
            (io::ErrorKind::NotFound, BrokerErrorKind::Corrupt),
            (io::ErrorKind::Other, BrokerErrorKind::Unavailable),
        ] {
            assert_eq!(translate_io(code.into(), Path::new("/x/jobs.db")).kind(), kind);
        }
    }

    #[test]
    fn a_log_that_goes_away_while_it_is_opened_is_named() {
        let error = translate_io(io::ErrorKind::NotFound.into(), Path::new("/x/jobs.db-wal")).to_string();
        assert!(error.starts_with("/x/jobs.db-wal: the file or its folder was deleted"), "{error}");
    }

    #[test]
    fn a_limit_of_open_files_is_named() {
        let error = translate_io(io::Error::from_raw_os_error(libc::EMFILE), Path::new("/x/jobs.db"));
        assert!(error.is_unavailable() && error.to_string().contains("raise the limit"), "{error}");
    }

    #[test]
    fn only_the_item_is_to_blame_for_a_constraint() {
        let failure = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(!concerns_everyone(&failure(ffi::SQLITE_CONSTRAINT)));
        assert!(!concerns_everyone(&failure(ffi::SQLITE_CORRUPT)), "a damaged page is one of many");
        assert!(!concerns_everyone(&rusqlite::Error::QueryReturnedNoRows));
        assert!(concerns_everyone(&failure(ffi::SQLITE_FULL)));
        assert!(concerns_everyone(&failure(ffi::SQLITE_IOERR)));
    }
}

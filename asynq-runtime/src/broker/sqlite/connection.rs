//! Opens connections with the settings that were measured as best for tasks.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, Error::SqliteFailure, ErrorCode, OpenFlags, config::DbConfig, ffi, functions::FunctionFlags,
};

use super::beside::beside;
use crate::task::Extra;

/// Prepared statements kept per connection; SQLite's own default of 16 thrashes.
pub(super) const STATEMENTS: usize = 128;

/// Settings of the connection that writes, which keeps as many pages in memory as SQLite does by itself, and of those that read, with half
/// as many. More pages win nothing that could be measured, since ids that follow the time keep the work in few pages, and would be
/// most of a worker's memory.
const WRITER: &str = "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=1000; PRAGMA journal_size_limit=67108864; \
                      PRAGMA cache_size=-2048;";
const READER: &str = "PRAGMA query_only=ON; PRAGMA cache_size=-1024;";

/// How often a busy handler asks again before it gives up: about 10 s.
const BUSY_ROUNDS: i32 = 3_500;
/// How often the busy handler asks again where other threads, programs or people wait for the answer: about 0.2 s.
const SOON_ROUNDS: i32 = 250;

/// Opens a connection to `file` without a setting that changes the file, so that a foreign file stays as it is.
pub(super) fn open_untouched(file: &Path) -> rusqlite::Result<Connection> {
    open(file, flags() | OpenFlags::SQLITE_OPEN_CREATE)
}

/// Makes `connection` the one that writes; the file must be known to be ours. Its commits do not wait for the disk: `disk.rs`
/// syncs the log after them.
pub(super) fn make_writer(connection: &Connection) -> rusqlite::Result<()> {
    switch_to_wal(connection)?;
    // Other programs may keep the index of a log that was cut off.
    if let Some(file) = connection.path().filter(|path| !path.is_empty()) {
        refuse_cut_log(connection, &beside(Path::new(file), "-wal"), page_size(connection)?)?;
    }
    connection.execute_batch(WRITER)?;
    settle_in(connection)
}

/// Returns the size of a page in bytes, which stays the same as long as the file is open.
pub(super) fn page_size(connection: &Connection) -> rusqlite::Result<i64> {
    number(connection, "PRAGMA page_size")
}

/// Returns the one number that `sql` asks for.
pub(super) fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

/// Refuses a log that [lacks frames](lacks_frames).
pub(super) fn refuse_cut_log(connection: &Connection, log: &Path, page_size: i64) -> rusqlite::Result<()> {
    match lacks_frames(connection, log, page_size) {
        true => Err(SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_SHORT_READ), None)),
        false => Ok(()),
    }
}

/// Returns whether the log is shorter than its index says, because it was cut off, or removed and made anew. SQLite would read the
/// missing frames as zeros once another is written behind them, and put these into the file.
fn lacks_frames(connection: &Connection, log: &Path, page_size: i64) -> bool {
    let lacks = || {
        let mut look = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
        let frames: i64 = look.query_row([], |row| row.get(1)).ok()?;
        let least = u64::try_from(frames.saturating_mul(page_size + 24)).ok()?;
        let is = match fs::metadata(log) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            // Not being allowed to look for a moment says nothing about the log.
            Err(_) => return None,
        };
        Some(is < least)
    };
    // Another program may empty the log between two looks.
    (0..3).all(|round| {
        if round > 0 {
            thread::sleep(busy_pause(100, jitter()));
        }
        lacks() == Some(true)
    })
}

/// Opens a database in memory, which lives as long as its connection.
pub(super) fn open_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory_with_flags(flags())?;
    settle_in(&connection)?;
    Ok(connection)
}

/// Opens a connection that can only read.
pub(super) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = open(file, flags())?;
    connection.execute_batch(READER)?;
    settle_in(&connection)?;
    Ok(connection)
}

/// Opens a connection that only asks whether the file has changed. No setting is made for which SQLite would read the schema,
/// because the schema takes more memory than the rest of the connection.
pub(super) fn open_watch(file: &Path) -> rusqlite::Result<Connection> {
    let connection = open(file, flags())?;
    connection.execute_batch("PRAGMA query_only=ON;")?;
    Ok(connection)
}

/// Takes the write lock of a file that was opened before, with a short wait, and releases it without a change.
pub(super) fn try_write_lock(file: &Path) -> rusqlite::Result<()> {
    // With the versions of rusqlite whose `busy_handler` takes `&self`, a variable that is `mut` would bring a warning.
    let connection = &mut open(file, flags())?;
    connection.busy_handler(Some(wait_for_others as fn(i32) -> bool))?;
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")
}

/// Opens a writer for a file that was opened before, after the old connection met an input/output error.
pub(super) fn reopen_writer(file: &Path) -> rusqlite::Result<Connection> {
    let connection = open(file, flags())?;
    refuse_read_only(&connection)?;
    make_writer(&connection)?;
    Ok(connection)
}

/// Refuses a connection that cannot write. While a file system is read-only, SQLite opens a file for reading alone instead, and the
/// connection stays so.
pub(super) fn refuse_read_only(connection: &Connection) -> rusqlite::Result<()> {
    match connection.is_readonly("main")? {
        true => Err(SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None)),
        false => Ok(()),
    }
}

/// Opens a connection whose checkpoints are on disk before the log is thrown away. An ordinary sync of macOS leaves the pages in the
/// cache of the drive; elsewhere the pragma changes nothing. Every connection needs it, because the last one to close checkpoints.
fn open(file: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(file, flags)?;
    be_patient(&mut connection)?;
    connection.execute_batch("PRAGMA checkpoint_fullfsync=ON;")?;
    Ok(connection)
}

/// Has the close of `connection` leave the log as it is.
pub(super) fn leave_log(connection: &Connection) {
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn settle_in(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without QPSG, SQLite prepares a statement anew for each other value of its LIMIT, if its plan could profit from the
    // value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // SQL cannot read the crash limit in the extra facts of a task.
    let (flags, name) =
        (FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY, "asynq_is_quarantined");
    connection.create_scalar_function(name, 2, FunctionFlags::SQLITE_UTF8 | flags, |call| {
        let extra = call.get_raw(1).as_blob_or_null().ok().flatten().map(Extra::from_bytes).unwrap_or_default();
        Ok(extra.is_quarantined(u32::try_from(call.get::<i64>(0)?).unwrap_or(0)))
    })?;
    connection.execute_batch(
        "PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF; PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF;",
    )
}

/// Empties the write-ahead log if no connection reads from it; never waits for readers.
pub(super) fn empty_wal(connection: &mut Connection) -> rusqlite::Result<()> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)", None).map(drop)
}

/// Empties the write-ahead log as [`empty_wal`] does, with a short wait for readers and writers. Returns whether the log is
/// empty, which also means that all of it is in the database, on disk.
pub(super) fn empty_wal_soon(connection: &mut Connection) -> rusqlite::Result<bool> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)", Some(wait_for_others))
}

/// Lets the write-ahead log begin anew within the room that it has; never waits for its readers.
pub(super) fn reuse_wal(connection: &mut Connection) -> rusqlite::Result<()> {
    checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)", None).map(drop)
}

fn checkpoint(connection: &mut Connection, pragma: &str, wait: Option<fn(i32) -> bool>) -> rusqlite::Result<bool> {
    connection.busy_handler(wait)?;
    let done = connection.query_row(pragma, [], |row| Ok(row.get::<_, i64>(0)? == 0));
    be_patient(connection)?;
    done
}

fn wait_for_others(round: i32) -> bool {
    round < SOON_ROUNDS && wait_for_lock(round)
}

/// Sets the busy handler, which is for foreign writers: the fair write lock puts the programs of this library in order.
fn be_patient(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_for_lock as fn(i32) -> bool))
}

fn wait_for_lock(round: i32) -> bool {
    if round >= BUSY_ROUNDS {
        return false;
    }
    thread::sleep(busy_pause(round, jitter()));
    true
}

/// Returns a pause that is short at first, since most transactions are short; `jitter`, below 1000, keeps waiters from marching
/// in step.
fn busy_pause(round: i32, jitter: u64) -> Duration {
    let base = 50 + 4 * u64::from(round.unsigned_abs());
    Duration::from_micros((base + base * jitter / 250).min(3_000))
}

fn jitter() -> u64 {
    fastrand::u64(..1_000)
}

/// Switches the file to WAL mode, and retries for 10 s: several programs may create one file at once, and the switch does not
/// wait for the lock by itself.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match connection.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())) {
            Err(error)
                if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
                    && Instant::now() < give_up =>
            {
                thread::sleep(busy_pause(100, jitter()));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_log_was_removed_under_another_program_gets_no_second_writer() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let mut writer = open_untouched(&file).unwrap();
        make_writer(&writer).unwrap();
        writer.execute_batch("CREATE TABLE a(x)").unwrap();
        empty_wal(&mut writer).unwrap();
        make_writer(&open_untouched(&file).unwrap()).unwrap();
        // The page of the table alone is in the log.
        writer.execute_batch("INSERT INTO a VALUES(1)").unwrap();
        make_writer(&open_untouched(&file).unwrap()).unwrap();
        fs::remove_file(beside(&file, "-wal")).unwrap();
        let refused = make_writer(&open_untouched(&file).unwrap()).unwrap_err();
        let SqliteFailure(error, _) = refused else { panic!("{refused}") };
        assert_eq!(error.extended_code, ffi::SQLITE_IOERR_SHORT_READ);
        // A log that cannot be looked at may be whole.
        refuse_cut_log(&writer, &file.join("beside a file"), 4_096).unwrap();
    }

    #[test]
    fn a_connection_that_can_only_read_does_not_become_the_one_that_writes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read_only = Connection::open_with_flags(file.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let error = refuse_read_only(&read_only).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
        assert!(reopen_writer(file.path()).is_ok());
    }

    #[test]
    fn each_connection_that_may_checkpoint_waits_for_the_cache_of_the_drive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let writer = open_untouched(&file).unwrap();
        make_writer(&writer).unwrap();
        let others = [open_reader, open_watch, reopen_writer].map(|open| open(&file).unwrap());
        for connection in others.iter().chain([&writer]) {
            let is_whole: bool = connection.query_row("PRAGMA checkpoint_fullfsync", [], |row| row.get(0)).unwrap();
            assert!(is_whole);
        }
    }

    #[test]
    fn waiting_for_the_lock_starts_short_and_ends_after_about_ten_seconds() {
        assert_eq!(busy_pause(0, 0), Duration::from_micros(50));
        assert!(busy_pause(0, 999) <= Duration::from_micros(250));
        assert_eq!(busy_pause(BUSY_ROUNDS, 999), Duration::from_millis(3));
        let longest: Duration = (0..BUSY_ROUNDS).map(|round| busy_pause(round, 500)).sum();
        assert!((9..=12).contains(&longest.as_secs()), "{longest:?}");
        assert!(!wait_for_lock(BUSY_ROUNDS));
        let soon: Duration = (0..SOON_ROUNDS).map(|round| busy_pause(round, 500)).sum();
        assert!((150..=500).contains(&soon.as_millis()), "{soon:?}");
        assert!(wait_for_others(0) && !wait_for_others(SOON_ROUNDS));
    }
}

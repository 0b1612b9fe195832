//! Keeps the file small, and its log whole and small, between writes, opens it anew after an input/output error, and closes one that
//! was lost.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{
    super::{
        beside::beside,
        connection::{self, number, page_size},
        disk::Disk,
    },
    Writer,
};

/// Bytes of the log above which a writer without work empties it.
const LARGE_WAL: u64 = 4 << 20;

/// Longest time of one portion.
const PORTION: Duration = Duration::from_millis(20);

/// New tasks need free pages: the file keeps so many (4 MiB), or a quarter of its pages where that is more.
const SPARE_PAGES: i64 = 1_024;

/// The work that waits for a pause between writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Tidy,
    /// Perhaps something, once the writer has been idle for a while.
    Untidy,
    /// Free pages are given back, some at a time.
    Shrinking,
}

impl Writer {
    /// Keeps the file small and its log whole while the writer has nothing else to do. Returns the work that is left.
    pub(super) fn tidy(&mut self) -> Rest {
        let Some(file) = self.common.file.clone() else { return Rest::Tidy };
        // Giving pages back is a write.
        if self.common.is_broken() || self.common.check_log(&self.connection).is_err() {
            return Rest::Tidy;
        }
        self.watch_log();
        let is_whole = self.repair_log().is_ok() && !self.disk.as_ref().is_some_and(Disk::is_busy);
        let wal = beside(&file, "-wal");
        let is_large = || std::fs::metadata(&wal).is_ok_and(|wal| wal.len() > LARGE_WAL);
        if is_large() {
            let _ = connection::empty_wal(&mut self.connection);
        }
        match self.give_back() {
            Ok(true) => return Rest::Shrinking,
            Ok(false) => {}
            // Another program writes.
            Err(_) => return Rest::Untidy,
        }
        // The file itself becomes shorter when the log is copied into it.
        if self.is_too_long(&file) {
            let _ = connection::empty_wal(&mut self.connection);
        }
        if is_whole && !is_large() && !self.is_too_long(&file) { Rest::Tidy } else { Rest::Untidy }
    }

    /// Opens the file anew, because the connection met an input/output error.
    pub(super) fn reconnect(&mut self) {
        let Some(file) = &self.common.file else { return };
        if self.common.look_for_file() {
            return;
        }
        match connection::reopen_writer(file) {
            Ok(connection) => self.connection = self.common.guard(connection),
            Err(error) if self.reopen_lines.is_due() => {
                log!(warn, %error, "the SQLite file could not be opened again; the old connection stays");
            }
            Err(_) => {}
        }
    }

    /// Closes the connection of a broker that is broken, which needs none: its lock on the file would keep out the programs that are
    /// started on a backup.
    pub(super) fn close_a_lost_file(&mut self) {
        if self.common.is_broken()
            && let Ok(empty) = connection::open_memory()
        {
            // It keeps the log open.
            self.disk = None;
            self.connection = self.common.guard(empty);
        }
    }

    /// Gives free pages at the end of the file back, for at most [`PORTION`]. Returns whether there are more to give.
    fn give_back(&self) -> rusqlite::Result<bool> {
        let begun = Instant::now();
        let mut before = i64::MAX;
        loop {
            let free = number(&self.connection, "PRAGMA freelist_count")?;
            // A file that was created without `auto_vacuum` has no pages to give back.
            if free >= before || !is_too_empty(free, number(&self.connection, "PRAGMA page_count")?) {
                return Ok(false);
            }
            if begun.elapsed() >= PORTION {
                return Ok(true);
            }
            before = free;
            // Each step gives one page back.
            let mut vacuum = self.connection.prepare_cached("PRAGMA incremental_vacuum(64)")?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
        }
    }

    /// Whether the file is longer than its pages.
    fn is_too_long(&self, file: &Path) -> bool {
        let pages = number(&self.connection, "PRAGMA page_count").ok().zip(page_size(&self.connection).ok());
        let is = std::fs::metadata(file).map_or(0, |file| file.len());
        pages.is_some_and(|(pages, size)| is > pages.saturating_mul(size).unsigned_abs())
    }

    /// Warns when the log has grown large: it can begin anew only when no connection reads from it.
    pub(super) fn watch_log(&mut self) {
        let Some(file) = &self.common.file else { return };
        let now = Instant::now();
        if !self.log.is_due(now) {
            return;
        }
        let bytes = std::fs::metadata(beside(file, "-wal")).map_or(0, |log| log.len());
        if self.log.look(now, bytes) {
            log!(
                warn,
                place = self.common.place,
                megabytes = bytes >> 20,
                "the log of the SQLite file grows, because some program has read from it for long (a backup that takes its \
                 time, or a transaction that was left open) or has stored very large tasks at once"
            );
        }
    }
}

/// Whether `free` of `pages` pages are worth giving back.
fn is_too_empty(free: i64, pages: i64) -> bool {
    free > SPARE_PAGES && free > pages / 4
}

/// When to look how large the log is, and when to warn of it.
#[derive(Debug, Default)]
pub(super) struct LogWatch {
    looked_at: Option<Instant>,
    warned_at: Option<Instant>,
}

impl LogWatch {
    /// A larger log is reported. SQLite cuts a longer log to exactly this size (`journal_size_limit` in `connection.rs`).
    const LARGE: u64 = 64 << 20;
    const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
    const BETWEEN_LINES: Duration = Duration::from_secs(60);

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now.duration_since(at) >= Self::BETWEEN_LOOKS)
    }

    /// Notes the size of the log; returns whether to warn of it.
    pub(super) fn look(&mut self, now: Instant, bytes: u64) -> bool {
        self.looked_at = Some(now);
        let warns =
            bytes > Self::LARGE && self.warned_at.is_none_or(|at| now.duration_since(at) >= Self::BETWEEN_LINES);
        if warns {
            self.warned_at = Some(now);
        }
        warns
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::{super::tests::writer_of, *};

    #[test]
    fn a_writer_that_tidies_or_leaves_touches_nothing_after_its_log_was_cut_off() {
        for leaves in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = writer_of(&folder, &Arc::default(), &Arc::default());
            // A worker that leaves empties the log.
            writer.common.liveness.as_ref().unwrap().show().unwrap();
            let [file, log] = ["jobs.db", "jobs.db-wal"].map(|name| folder.path().join(name));
            let before = fs::read(&file).unwrap();
            fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
            if leaves {
                writer.leave();
            } else {
                assert_eq!(writer.tidy(), Rest::Tidy);
            }
            let error = writer.common.check().unwrap_err().to_string();
            assert!(error.contains("jobs.db-wal was emptied or cut off"), "{error}");
            assert!(fs::read(&file).unwrap() == before && fs::read(&log).unwrap().is_empty(), "leaves: {leaves}");
        }
    }

    /// As on a file system that became read-only, where each call of each caller meets the error.
    #[test]
    fn a_file_that_cannot_be_opened_again_and_again_is_reported_now_and_then() {
        let (folder, log) = (tempfile::tempdir().unwrap(), asynq_test_support::Log::keep());
        let mut writer = writer_of(&folder, &Arc::default(), &Arc::default());
        fs::File::options().write(true).open(folder.path().join("jobs.db-wal")).unwrap().set_len(0).unwrap();
        (0..3).for_each(|_| writer.reconnect());
        assert_eq!(log.with("could not be opened again").len(), 1);
    }

    #[test]
    fn free_pages_are_given_back_down_to_a_quarter_of_the_file() {
        let table = [
            (0, 0, false),
            (1_024, 1_024, false),
            (1_025, 2_000, true),
            (24_000, 24_400, true),
            (5_000, 24_400, false),
        ];
        for (free, pages, expected) in table {
            assert_eq!(is_too_empty(free, pages), expected, "{free} of {pages}");
        }
    }

    #[test]
    fn a_growing_log_is_reported_once_a_minute() {
        let (start, mut watch) = (Instant::now(), LogWatch::default());
        let mut look = |second, megabytes: u64| {
            let now = start + Duration::from_secs(second);
            (watch.is_due(now), watch.look(now, megabytes << 20))
        };
        assert_eq!(look(0, 63), (true, false));
        assert_eq!(look(1, 64), (false, false), "SQLite has cut it");
        assert_eq!(look(2, 65), (false, true));
        assert_eq!(look(7, 80), (true, false));
        assert_eq!(look(60, 90), (true, false));
        assert_eq!(look(62, 90), (false, true));
        assert_eq!(look(200, 3), (true, false));
    }
}

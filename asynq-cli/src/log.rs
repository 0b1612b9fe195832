//! Log lines on standard error; while the full-screen view has the terminal they are kept, and written after it.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _, Write},
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// The most lines that are kept; the oldest are dropped for newer ones.
const MOST_KEPT: usize = 200;

static LOG: Log = Log(Mutex::new(None));

/// Writes log lines to standard error: warnings and the changes that the dashboard is asked for, or the levels that `RUST_LOG`
/// selects.
pub(crate) fn start() {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    let filter = match std::env::var_os(EnvFilter::DEFAULT_ENV) {
        Some(_) => builder.from_env_lossy(),
        None => builder.parse_lossy("warn,asynq_dashboard::guard::audit=info"),
    };
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // An error means that there is a subscriber already.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Writer).with_ansi(colours).try_init();
}

/// Keeps log lines from standard error, if that is a terminal, until the answer is dropped.
pub(crate) fn keep() -> Keeping {
    if io::stderr().is_terminal() {
        LOG.keep();
    }
    Keeping(())
}

/// Log lines are kept while this value lives; dropping it writes them to standard error.
#[derive(Debug)]
pub(crate) struct Keeping(());

impl Drop for Keeping {
    fn drop(&mut self) {
        LOG.write_kept(&mut io::stderr());
    }
}

/// The way of a log line: to the output, or among the lines that are kept.
#[derive(Debug)]
struct Log(Mutex<Option<Kept>>);

/// The newest lines, and how many were dropped for them.
#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<Vec<u8>>,
    dropped: usize,
}

impl Log {
    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self) {
        self.kept().get_or_insert_default();
    }

    fn write_kept(&self, out: &mut impl Write) {
        let Kept { lines, dropped } = mem::take(&mut *self.kept()).unwrap_or_default();
        if dropped > 0 {
            let _ = writeln!(out, "{dropped} earlier lines were dropped");
        }
        lines.iter().for_each(|line| drop(out.write_all(line)));
    }

    /// Writes one line, which the subscriber passes as a whole.
    fn write(&self, line: &[u8], out: &mut impl Write) -> io::Result<usize> {
        let Some(kept) = &mut *self.kept() else { return out.write(line) };
        if kept.lines.len() == MOST_KEPT {
            kept.lines.pop_front();
            kept.dropped += 1;
        }
        kept.lines.push_back(line.to_owned());
        Ok(line.len())
    }
}

struct Writer;

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.write(line, &mut io::stderr())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_written_later() {
        let (log, mut out) = (Log(Mutex::new(None)), Vec::new());
        log.write(b"before\n", &mut out).unwrap();
        log.keep();
        for n in 0..MOST_KEPT + 2 {
            log.write(format!("{n}\n").as_bytes(), &mut out).unwrap();
        }
        assert_eq!(out, b"before\n");
        log.write_kept(&mut out);
        log.write(b"after\n", &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        let first = ["before", "2 earlier lines were dropped", "2"];
        assert_eq!((lines.len(), &lines[..3], lines[MOST_KEPT + 2]), (MOST_KEPT + 3, &first[..], "after"));
    }
}

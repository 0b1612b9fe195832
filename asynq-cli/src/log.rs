//! Log lines on standard error; while the full-screen view has the terminal they are held back, and written after it.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, IsTerminal as _, Write},
    mem,
};

use asynq_runtime::app::{harmless_fields, wants_colours};
use parking_lot::Mutex;
use tracing_subscriber::{
    EnvFilter,
    field::{RecordFields, VisitOutput as _},
    filter::LevelFilter,
    fmt::format,
};

/// The most lines that are held back; the oldest are dropped for newer ones.
const MOST_LINES: usize = 200;

static LOG: Log = Log(Mutex::new(None));

/// Writes log lines to standard error: warnings and the changes that the dashboard is asked for, or the levels that `RUST_LOG`
/// selects.
pub(crate) fn start() {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    let filter = match std::env::var_os(EnvFilter::DEFAULT_ENV) {
        Some(_) => builder.from_env_lossy(),
        None => builder.parse_lossy("warn,asynq_dashboard::guard::audit=info"),
    };
    let colours = io::stderr().is_terminal() && wants_colours(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    // The subscriber would tell of a line that cannot be written on standard error, and panic in its caller.
    let lines = tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter);
    // An error means that there is a subscriber already.
    let _ = lines.with_writer(|| Writer).with_ansi(colours).fmt_fields(Fields).try_init();
}

/// The fields of lines of text, without characters that act on a terminal.
struct Fields;

impl<'w> format::FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: format::Writer<'w>, fields: R) -> fmt::Result {
        let mut line = format::DefaultVisitor::new(writer, true);
        harmless_fields(&mut line, |visit| fields.record(visit));
        line.finish()
    }
}

/// Holds log lines back, if standard error is a terminal, until the returned value is dropped.
pub(crate) fn hold_back() -> HeldBack {
    if io::stderr().is_terminal() {
        LOG.hold_back();
    }
    HeldBack(())
}

/// Log lines are held back while this value lives; dropping it writes them to standard error.
#[derive(Debug)]
pub(crate) struct HeldBack(());

impl Drop for HeldBack {
    fn drop(&mut self) {
        LOG.release(&mut io::stderr());
    }
}

/// Where a log line goes: to the output, or among the lines that are held back.
#[derive(Debug)]
struct Log(Mutex<Option<Lines>>);

/// The newest lines, and how many were dropped for them.
#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Vec<u8>>,
    dropped: usize,
}

impl Log {
    fn hold_back(&self) {
        self.0.lock().get_or_insert_default();
    }

    fn release(&self, out: &mut impl Write) {
        let Lines { lines, dropped } = mem::take(&mut *self.0.lock()).unwrap_or_default();
        if dropped > 0 {
            let _ = writeln!(out, "{dropped} earlier lines were dropped");
        }
        lines.iter().for_each(|line| drop(out.write_all(line)));
    }

    /// Writes one line, which the subscriber passes as a whole.
    fn write(&self, line: &[u8], out: &mut impl Write) -> io::Result<usize> {
        let Some(held) = &mut *self.0.lock() else { return out.write(line) };
        if held.lines.len() == MOST_LINES {
            held.lines.pop_front();
            held.dropped += 1;
        }
        held.lines.push_back(line.to_owned());
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
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_field_of_a_line_neither_acts_on_a_terminal_nor_begins_a_line_of_its_own() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).fmt_fields(Fields);
        tracing::subscriber::with_default(lines.finish(), || {
            let id = "x\nforged\u{1b}[2J\u{9b}m\u{202e}\r";
            tracing::warn!(%id, r#type = id, n = 7, "two\nlines");
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        let type_field = r#"type="x\nforged\u{1b}[2J\u{9b}m\u{202e}\r""#;
        let expected = format!("two\nlines id=x forged\u{fffd}[2J\u{fffd}m\u{fffd}  {type_field} n=7\n");
        assert!(text.ends_with(&expected), "{text:?}");
    }

    #[test]
    fn the_newest_lines_are_held_back_and_written_later() {
        let (log, mut out) = (Log(Mutex::new(None)), Vec::new());
        log.write(b"before\n", &mut out).unwrap();
        log.hold_back();
        for n in 0..MOST_LINES + 2 {
            log.write(format!("{n}\n").as_bytes(), &mut out).unwrap();
        }
        assert_eq!(out, b"before\n");
        log.release(&mut out);
        log.write(b"after\n", &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        let first = ["before", "2 earlier lines were dropped", "2"];
        assert_eq!((lines.len(), &lines[..3], lines[MOST_LINES + 2]), (MOST_LINES + 3, &first[..], "after"));
    }
}

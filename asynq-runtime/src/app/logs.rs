//! Writes log lines to standard error.

use std::{fmt, io::IsTerminal as _};

use tracing_subscriber::{
    EnvFilter,
    field::{RecordFields, VisitOutput as _},
    filter::{Directive, LevelFilter},
    fmt::format::{DefaultVisitor, FormatFields, Writer},
};

use super::{
    env::{LogFormat, wants_colours},
    terminal::harmless_fields,
};
use crate::server::RUN_TARGET;

/// Starts to write the events that `RUST_LOG` lets through, or those of the level `default` where it is empty. A program that has
/// installed a subscriber of its own keeps that.
pub(super) fn start(format: LogFormat, default: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(default.into()).from_env_lossy();
    // A `RUST_LOG` for the lines of the program alone, such as `my_worker=debug`, must not take the task's id off them.
    let filter = match format!("{RUN_TARGET}=error").parse::<Directive>() {
        Ok(spans) => filter.add_directive(spans),
        Err(_) => filter,
    };
    // The subscriber would tell of a line that cannot be written on standard error, and panic in its caller, which may be a job.
    let lines =
        tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter).with_writer(std::io::stderr);
    // The error means that there is a subscriber already.
    let _ = match format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal()
                && wants_colours(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
            lines.with_ansi(colours).fmt_fields(Fields).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// The fields of lines of text, without characters that act on a terminal.
struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = DefaultVisitor::new(writer, true);
        harmless_fields(&mut line, |visit| fields.record(visit));
        line.finish()
    }
}

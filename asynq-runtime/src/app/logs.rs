//! Writes log lines to standard error.

use std::{ffi::OsString, io::IsTerminal as _};

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::env::LogFormat;

/// Starts to write the events that `RUST_LOG` lets through, or those of the level `default` where it does not decide. A
/// program that has installed a subscriber of its own keeps that.
pub(super) fn start(format: LogFormat, default: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(default.into()).from_env_lossy();
    // The subscriber would tell of a line that cannot be written on standard error, and panic in its caller, which may be a job.
    let lines =
        tracing_subscriber::fmt().log_internal_errors(false).with_env_filter(filter).with_writer(std::io::stderr);
    // The error means that there is a subscriber already.
    let _ = match format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal()
                && wants_colours(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
            lines.with_ansi(colours).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// Returns whether a terminal should get colours, by the environment variables `NO_COLOR` and `TERM`.
fn wants_colours(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_off_on_a_dumb_terminal_and_with_no_color() {
        for (no_color, term, expected) in [
            (None, None, true),
            (Some(""), Some("xterm"), true),
            (Some("1"), Some("xterm"), false),
            (None, Some("dumb"), false),
        ] {
            let wants = wants_colours(no_color.map(Into::into), term.map(Into::into));
            assert_eq!(wants, expected, "{no_color:?} {term:?}");
        }
    }
}

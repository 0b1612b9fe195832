//! Short texts for people: harmless names, spans, moments, sizes.

use std::time::Duration;

use asynq_grammar::{counted, duration};
use asynq_runtime::app::is_hostile;
use chrono::{DateTime, Utc};

/// Returns one line of `text` in which nothing moves a cursor, changes a colour or turns the direction of writing: line
/// breaks and tabs become spaces, other such characters U+FFFD.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { harmless(c) }).collect()
}

/// Cleans a text as [`clean`] does, but keeps its line breaks.
pub(crate) fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { harmless(c) }).collect()
}

fn harmless(c: char) -> char {
    if is_hostile(c) { '\u{fffd}' } else { c }
}

/// Returns `text` with at most `most` characters; `…` stands for the rest.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(std::iter::once('…')).collect(),
    }
}

/// Returns the name of a queue for a table, with at most 60 characters. Go allows names of any length, and one such name makes a
/// column that wide in every row.
pub(crate) fn short_name(name: &str) -> String {
    cut(name, 60)
}

/// Formats a span for people: no more than two units matter.
pub(crate) fn about(span: Duration) -> String {
    let seconds = span.as_secs();
    let step = match seconds {
        0 => return duration::format(Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))),
        1..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    duration::format(Duration::from_secs(seconds / step * step))
}

/// Formats how long ago `at` was.
pub(crate) fn ago(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    match (now - at).to_std() {
        Ok(span) if span >= Duration::from_secs(1) => format!("{} ago", about(span)),
        _ => "just now".to_owned(),
    }
}

/// Formats how long it is until `at`.
pub(crate) fn until(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    match (at - now).to_std() {
        Ok(span) if !span.is_zero() => format!("in {}", about(span)),
        _ => "now".to_owned(),
    }
}

/// Formats how far `at` is from now: a limit that may have passed.
pub(crate) fn distance(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    if at > now { until(now, at) } else { ago(now, at) }
}

/// Formats a size, 1000-based as Go's tool writes it: `1.2 kB`.
pub(crate) fn bytes(n: u64) -> String {
    let mut size = n as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 1000.0 {
            return if unit == "B" { format!("{n} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// Returns a count such as `1 task` or `1,204 tasks`.
pub(crate) fn tasks(n: u64) -> String {
    counted(n, "task")
}

/// Returns a count of tasks of a kind, such as `1 archived task`.
pub(crate) fn tasks_of(kind: &str, n: u64) -> String {
    counted(n, &format!("{kind} task"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_for_people() {
        for (n, expected) in [(0, "0 B"), (999, "999 B"), (1_250, "1.2 kB"), (3_000_000_000_000, "3.0 TB")] {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn a_terminal_receives_only_printable_text() {
        for (text, expected) in [
            ("größe 邮件 🙂", "größe 邮件 🙂"),
            ("a\u{1b}[31mred\u{7}", "a\u{fffd}[31mred\u{fffd}"),
            ("c1 \u{9b}31m", "c1 \u{fffd}31m"),
            ("two\nlines\tand\r", "two lines and "),
            ("evil\u{202e}txt.exe", "evil\u{fffd}txt.exe"),
            ("del\u{7f}bom\u{feff}", "del\u{fffd}bom\u{fffd}"),
        ] {
            assert_eq!(clean(text), expected);
        }
        assert_eq!(clean_lines("a\nb\u{1b}"), "a\nb\u{fffd}");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!((cut("größe", 5), cut("größe!", 5)), ("größe".into(), "größ…".into()));
    }

    #[test]
    fn spans_have_no_more_units_than_matter() {
        let at = |seconds: i64| DateTime::from_timestamp(1_893_553_440 + seconds, 0).unwrap();
        for (seconds, expected) in [(59, "59s"), (3_599, "59m59s"), (3_661, "1h1m"), (90_061, "1d1h")] {
            assert_eq!(about(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(about(Duration::from_micros(250_999)), "250ms");
        assert_eq!((ago(at(61), at(0)), ago(at(0), at(5))), ("1m1s ago".into(), "just now".into()));
        assert_eq!((until(at(0), at(60)), until(at(5), at(0))), ("in 1m".into(), "now".into()));
        assert_eq!((distance(at(0), at(60)), distance(at(60), at(0))), ("in 1m".into(), "1m ago".into()));
    }
}

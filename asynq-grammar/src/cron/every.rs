//! Reads the interval of `@every`: Go's duration syntax.

use std::{ops::Range, time::Duration};

use super::Mode;
use crate::TextError;

const SECOND: Duration = Duration::from_secs(1);
/// Go's units in nanoseconds; `µs` is written with either of Unicode's two letters.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses the interval at `range` of the text.
pub(super) fn interval(text: &str, range: Range<usize>, mode: Mode) -> Result<Duration, TextError> {
    let error = |message: &str, at: Range<usize>| Err(TextError::new(message, at));
    if range.is_empty() {
        return error("`@every` needs an interval, such as `@every 30s`", 0..text.len());
    }
    let (negative, nanos) = go_duration(&text[range.clone()], range.start)?;
    let interval = Duration::from_nanos(if negative { 0 } else { nanos });
    match mode {
        // robfig: at least a second, and no fraction of one.
        Mode::Compat => Ok(Duration::from_secs(interval.max(SECOND).as_secs())),
        Mode::Default if negative => error("the interval must not be negative", range),
        Mode::Default if interval < SECOND => error("the interval must be at least 1s", range),
        Mode::Default if interval.subsec_nanos() > 0 => error("the interval must be whole seconds", range),
        Mode::Default => Ok(interval),
    }
}

/// Parses a duration as Go's `time.ParseDuration` does and returns its sign and nanoseconds; `start` is the place of
/// `text` in the whole text.
fn go_duration(text: &str, start: usize) -> Result<(bool, u64), TextError> {
    let whole = start..start + text.len();
    let error = |message: String, range: Range<usize>| Err(TextError::new(message, range));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok((negative, 0));
    }
    if rest.is_empty() {
        return error(format!("expected a number with a unit, such as `30s`, found `{text}`"), whole);
    }
    let at = |rest: &str| whole.end - rest.len();
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let begin = at(rest);
        let (number, after) = split_where(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (int, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (int.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            let found = if number.is_empty() { after } else { number };
            let end = begin + found.len();
            return error(format!("expected a number with a unit, such as `30s`, found `{found}`"), begin..end);
        }
        let (unit, after) = split_where(after, |c| c.is_ascii_digit() || c == '.');
        let unit_range = begin + number.len()..begin + number.len() + unit.len();
        let Some(&(_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return if unit.is_empty() {
                error(format!("`{number}` has no unit; units are ms, s, m, h"), begin..begin + number.len())
            } else {
                error(format!("unknown unit `{unit}` in `{text}`; units are ms, s, m, h"), unit_range)
            };
        };
        let nanos = scaled(int, fraction, size).and_then(|nanos| sum.checked_add(nanos));
        // The sum must fit into Go's int64 of nanoseconds.
        match nanos.filter(|&nanos| i64::try_from(nanos).is_ok()) {
            Some(nanos) => sum = nanos,
            None => return error("the interval is longer than 292 years".to_owned(), whole.clone()),
        }
        rest = after;
    }
    Ok((negative, sum))
}

/// `int.fraction` × `size`, cut to whole nanoseconds.
fn scaled(int: &str, fraction: &str, size: u64) -> Option<u64> {
    let whole = if int.is_empty() { 0 } else { int.parse::<u64>().ok()? }.checked_mul(size)?;
    let (mut part, mut scale) = (0_u64, size);
    for digit in fraction.bytes() {
        let (tenth, rest) = (scale / 10, scale % 10);
        let digit = u64::from(digit - b'0');
        part = part.checked_add(digit * tenth + digit * rest / 10)?;
        scale = tenth;
    }
    whole.checked_add(part)
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, mode: Mode) -> Result<Duration, String> {
        interval(text, 0..text.len(), mode).map_err(|error| error.to_string())
    }

    #[test]
    fn gos_durations_are_read_as_robfig_reads_them() {
        for (text, seconds) in [
            ("30s", 30),
            ("1h30m", 5_400),
            ("1.5s", 1),
            ("300ms", 1),
            ("-5m", 1),
            ("+2m", 120),
            ("0", 1),
            ("1m1m", 120),
            (".5h", 1_800),
            ("90000ms", 90),
            ("2540400h10m10s", 9_145_440_610),
        ] {
            assert_eq!(read(text, Mode::Compat), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert!(read("", Mode::Compat).is_err());
        for text in ["+", "1", "1d", "s", "1.2.3s", "--1s", "1 s", "9999999999999999999h", "1h2"] {
            assert!(read(text, Mode::Compat).is_err(), "{text}");
        }
    }

    #[test]
    fn an_interval_that_no_schedule_can_have_is_refused() {
        for (text, message) in [
            ("0s", "at least 1s"),
            ("999ms", "at least 1s"),
            ("1.5s", "whole seconds"),
            ("-5m", "negative"),
            ("1d", "unknown unit `d` in `1d`; units are ms, s, m, h"),
            ("5", "has no unit"),
            ("300y", "unknown unit"),
        ] {
            let error = read(text, Mode::Default).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
        assert_eq!(read("1h30m", Mode::Default), Ok(Duration::from_secs(5_400)));
    }
}

//! Turns text such as `"1h30m"` into a [`Duration`] and back.
//!
//! A duration is one or more whole numbers, each followed by its unit: `w d h m s ms`. The larger unit comes first and
//! no unit comes twice, so there is little room for two readings of one text.

use std::{ops::Range, time::Duration};

use crate::TextError;

/// The longest duration: the largest whole number of seconds that Go's `time.Duration` can hold (about 292 years).
///
/// The sum with any instant of this century stays far inside 64-bit seconds, so later arithmetic cannot overflow.
pub const MAX: Duration = Duration::from_secs(i64::MAX as u64 / NANOS_PER_SEC);

const NANOS_PER_SEC: u64 = 1_000_000_000;
const SUCH_AS: &str = "such as \"30s\", \"3m\" or \"1h30m\"";
const UNITS_ARE: &str = "(units: w, d, h, m, s, ms)";

/// Parses text such as `"90s"`, `"3m"`, `"1h30m"`, `"7d"`, `"2w"` or `"500ms"`.
///
/// `"0s"` is a valid duration; the caller decides whether zero makes sense.
///
/// # Errors
///
/// A [`TextError`] with the bytes that are wrong and a valid text in their place. White space, signs, decimals,
/// upper-case units and anything longer than [`MAX`] are errors.
pub fn parse(text: &str) -> Result<Duration, TextError> {
    let error = |message: String, range: Range<usize>| Err(TextError::new(message, range));
    if text.trim().is_empty() {
        return error(format!("expected a duration {SUCH_AS}"), 0..text.len());
    }
    let mut total_ms: u64 = 0;
    let mut previous: Option<&Unit> = None;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let number = leading(rest, |c| c.is_ascii_digit());
        if number.is_empty() {
            return Err(not_a_number(text, at, previous.is_none()));
        }
        let after = &rest[number.len()..];
        let name = leading(after, |c| !c.is_ascii_digit());
        let name_at = at + number.len();
        let name_range = name_at..name_at + name.len();
        if name.is_empty() {
            let message = format!("`{number:.80}` has no unit; write \"{number:.80}s\" for seconds {UNITS_ARE}");
            return error(message, at..name_at);
        }
        let Some(unit) = UNITS.iter().find(|unit| unit.name == name) else {
            return Err(not_a_unit(number, name, name_range, after));
        };
        match previous {
            Some(larger) if larger.name == unit.name => {
                return error(format!("unit `{name}` comes twice; add the two numbers up"), name_range);
            }
            Some(larger) if larger.ms < unit.ms => {
                let order = format!("`{name}` must come before `{}`", larger.name);
                return error(format!("{order}; write the larger unit first, as in \"1h30m\""), name_range);
            }
            _ => previous = Some(unit),
        }
        let sum =
            number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit.ms)).and_then(|ms| total_ms.checked_add(ms));
        match sum {
            Some(sum) if Duration::from_millis(sum) <= MAX => total_ms = sum,
            _ => {
                let message = format!("too long; the longest duration is \"{}\"", format(MAX));
                return error(message, at..name_range.end);
            }
        }
        at = name_range.end;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Writes a duration in the form [`parse`] reads: `"1h30m"`, `"7d"`, `"250ms"`.
///
/// Days are the largest unit (`"14d"`, not `"2w"`), zero is `"0s"`, and parts below a millisecond are cut off.
#[must_use]
pub fn format(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for unit in UNITS.iter().filter(|unit| unit.name != "w") {
        let size = u128::from(unit.ms);
        let count = rest / size;
        if count > 0 {
            text.push_str(&format!("{count}{}", unit.name));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

struct Unit {
    name: &'static str,
    ms: u64,
    /// Other spellings of the unit, in lower case.
    aliases: &'static [&'static str],
}

/// From the largest to the smallest: [`parse`] checks this order and [`format`] writes in it.
const UNITS: [Unit; 6] = [
    Unit { name: "w", ms: 604_800_000, aliases: &["wk", "wks", "week", "weeks"] },
    Unit { name: "d", ms: 86_400_000, aliases: &["day", "days"] },
    Unit { name: "h", ms: 3_600_000, aliases: &["hr", "hrs", "hour", "hours"] },
    Unit { name: "m", ms: 60_000, aliases: &["min", "mins", "minute", "minutes"] },
    Unit { name: "s", ms: 1_000, aliases: &["sec", "secs", "second", "seconds"] },
    Unit { name: "ms", ms: 1, aliases: &["msec", "msecs", "milli", "millis", "millisecond", "milliseconds"] },
];

fn leading(text: &str, wanted: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    &text[..end]
}

fn not_a_number(text: &str, at: usize, at_start: bool) -> TextError {
    let found = leading(&text[at..], |c| !c.is_ascii_digit());
    let first = found.chars().next().unwrap_or(' ');
    let first_only = at..at + first.len_utf8();
    if first.is_whitespace() {
        white_space(found, at)
    } else if at_start && first == '-' {
        TextError::new(format!("a duration cannot be negative; write one {SUCH_AS}"), first_only)
    } else if at_start && first == '+' {
        TextError::new("a duration has no sign; leave out the `+`", first_only)
    } else {
        let message = format!("expected a number before `{found:.80}`; write a duration {SUCH_AS}");
        TextError::new(message, at..at + found.len())
    }
}

/// The error for the white space that `rest`, which begins at `at`, begins with.
fn white_space(rest: &str, at: usize) -> TextError {
    let blanks = leading(rest, char::is_whitespace).len();
    TextError::new(format!("a duration has no white space; write one {SUCH_AS}"), at..at + blanks)
}

/// The error for a text after a number that is not a unit: `name` is the text up to the next digit, `after_number` all
/// text after `number`.
fn not_a_unit(number: &str, name: &str, range: Range<usize>, after_number: &str) -> TextError {
    if matches!(name, "." | ",") {
        let digits = leading(&after_number[1..], |c| c.is_ascii_digit());
        let found = format!("`{number:.40}{name}{digits:.40}` is not a whole number");
        let range = range.start - number.len()..range.end + digits.len();
        return TextError::new(format!("{found}; combine units instead, as in \"1h30m\" or \"1s500ms\""), range);
    }
    let word = name.trim();
    if word.is_empty() || UNITS.iter().any(|unit| unit.name == word) {
        // Only the white space around the name makes it an invalid unit.
        let blank = name.find(char::is_whitespace).unwrap_or(0);
        return white_space(&name[blank..], range.start + blank);
    }
    let lower = word.to_lowercase();
    let instead = match UNITS.iter().find(|unit| unit.name == lower || unit.aliases.contains(&lower.as_str())) {
        Some(unit) => format!("did you mean \"{number:.80}{}\"?", unit.name),
        None => format!("expected a duration {SUCH_AS}"),
    };
    TextError::new(format!("unknown unit `{word:.80}`; {instead} {UNITS_ARE}"), range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_alone_and_together() {
        for (text, ms) in [
            ("0s", 0),
            ("0ms", 0),
            ("500ms", 500),
            ("90s", 90_000),
            ("3m", 180_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("2w", 1_209_600_000),
            ("1w2d3h4m5s6ms", 604_800_000 + 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_006),
            ("007s", 7_000),
            ("1h0m5s", 3_605_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn every_error_names_its_bytes_and_says_what_to_write() {
        for (text, range, message) in [
            ("", 0..0, "expected a duration such as \"30s\", \"3m\" or \"1h30m\""),
            ("  ", 0..2, "expected a duration such as \"30s\", \"3m\" or \"1h30m\""),
            ("90", 0..2, "`90` has no unit; write \"90s\" for seconds (units: w, d, h, m, s, ms)"),
            ("1h30", 2..4, "`30` has no unit; write \"30s\" for seconds (units: w, d, h, m, s, ms)"),
            ("-5s", 0..1, "a duration cannot be negative; write one such as \"30s\", \"3m\" or \"1h30m\""),
            ("+5s", 0..1, "a duration has no sign; leave out the `+`"),
            ("m", 0..1, "expected a number before `m`; write a duration such as \"30s\", \"3m\" or \"1h30m\""),
            ("soon", 0..4, "expected a number before `soon`; write a duration such as \"30s\", \"3m\" or \"1h30m\""),
            ("1.5h", 0..3, "`1.5` is not a whole number; combine units instead, as in \"1h30m\" or \"1s500ms\""),
            (" 5s", 0..1, "a duration has no white space; write one such as \"30s\", \"3m\" or \"1h30m\""),
            ("5s ", 2..3, "a duration has no white space; write one such as \"30s\", \"3m\" or \"1h30m\""),
            ("5 s", 1..2, "a duration has no white space; write one such as \"30s\", \"3m\" or \"1h30m\""),
            ("1h 30m", 2..3, "a duration has no white space; write one such as \"30s\", \"3m\" or \"1h30m\""),
            (
                "3 parsecs",
                1..9,
                "unknown unit `parsecs`; expected a duration such as \"30s\", \"3m\" or \"1h30m\" (units: w, d, h, m, s, ms)",
            ),
            ("3min", 1..4, "unknown unit `min`; did you mean \"3m\"? (units: w, d, h, m, s, ms)"),
            ("3M", 1..2, "unknown unit `M`; did you mean \"3m\"? (units: w, d, h, m, s, ms)"),
            ("1h2h", 3..4, "unit `h` comes twice; add the two numbers up"),
            ("30m1h", 4..5, "`h` must come before `m`; write the larger unit first, as in \"1h30m\""),
            ("1ms1s", 4..5, "`s` must come before `ms`; write the larger unit first, as in \"1h30m\""),
            ("99999999999999999999s", 0..21, "too long; the longest duration is \"106751d23h47m16s\""),
            ("106752d", 0..7, "too long; the longest duration is \"106751d23h47m16s\""),
            ("1d18446744073709551615ms", 2..24, "too long; the longest duration is \"106751d23h47m16s\""),
            (
                "5µs",
                1..4,
                "unknown unit `µs`; expected a duration such as \"30s\", \"3m\" or \"1h30m\" (units: w, d, h, m, s, ms)",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!((error.range(), error.to_string().as_str()), (range, message), "{text:?}");
            assert!(text.get(error.range()).is_some(), "{text:?}: the range cuts a character");
        }
    }

    #[test]
    fn a_long_text_leaves_room_for_the_advice() {
        let (digits, letters) = ("7".repeat(500), "ä".repeat(500));
        for (text, advice) in [
            (digits.clone(), UNITS_ARE),
            (letters.clone(), SUCH_AS),
            (format!("{digits}.{digits}"), "\"1s500ms\""),
            (format!("{digits}min"), UNITS_ARE),
            (format!("3{letters}"), UNITS_ARE),
        ] {
            let error = parse(&text).expect_err("it is no duration").to_string();
            assert!(error.ends_with(advice), "{error}");
        }
    }

    #[test]
    fn parse_reads_the_output_of_format() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1s500ms"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (604_800_000, "7d"),
            (1_209_600_000 + 1, "14d1ms"),
        ] {
            let duration = Duration::from_millis(ms);
            assert_eq!(format(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
        assert_eq!(parse(&format(MAX)), Ok(MAX));
    }

    #[test]
    fn format_cuts_what_is_below_a_millisecond() {
        assert_eq!(format(Duration::from_nanos(999_999)), "0s");
        assert_eq!(format(Duration::new(1, 999)), "1s");
    }

    #[test]
    fn no_text_of_three_characters_panics() {
        let alphabet = ['0', '9', 's', 'm', 'h', '.', '-', ' ', 'µ', '😀', '\0'];
        for a in alphabet {
            for b in alphabet {
                for c in alphabet {
                    let text: String = [a, b, c].iter().collect();
                    if let Err(error) = parse(&text) {
                        assert!(text.get(error.range()).is_some(), "{text:?}");
                    }
                }
            }
        }
    }
}

//! Turns text such as `"linear(10s)"` into the pauses between a task's attempts and back.
//!
//! Three forms: `"30s"` waits the same time before every retry, `"linear(10s)"` waits 10 s, 20 s, 30 s …, and
//! `"exponential(1s, 10m)"` waits 1 s, 2 s, 4 s … and never more than 10 minutes.

use std::{fmt, ops::Range, time::Duration};

use crate::{TextError, duration};

/// The longest pause before a task's next attempt; asynq's own formula has no cap and overflows.
pub const LONGEST: Duration = Duration::from_secs(10 * 24 * 3600);

/// The pauses between a task's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backoff {
    /// The same pause every time.
    Constant(Duration),
    /// A pause that grows by this each time: once, twice, three times this.
    Linear(Duration),
    /// A pause that doubles each time.
    Exponential {
        /// The pause before the first retry.
        first: Duration,
        /// The longest pause.
        most: Duration,
    },
}

impl Backoff {
    /// Returns the pause of a task that had failed `retried` times before its last failure: 0 at the first. The pause
    /// is at most [`LONGEST`], and never shrinks as the number grows.
    #[must_use]
    pub fn delay(self, retried: u32) -> Duration {
        let delay = match self {
            Self::Constant(delay) => delay,
            Self::Linear(step) => step.saturating_mul(retried.saturating_add(1)),
            Self::Exponential { first, most } => {
                let factor = 1_u32.checked_shl(retried).unwrap_or(u32::MAX);
                first.saturating_mul(factor).min(most)
            }
        };
        delay.min(LONGEST)
    }
}

impl fmt::Display for Backoff {
    /// Writes the form that [`parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant(delay) => f.write_str(&duration::format(delay)),
            Self::Linear(step) => write!(f, "linear({})", duration::format(step)),
            Self::Exponential { first, most } => {
                write!(f, "exponential({}, {})", duration::format(first), duration::format(most))
            }
        }
    }
}

/// Parses text such as `"30s"`, `"linear(10s)"` or `"exponential(1s, 10m)"`.
///
/// # Errors
///
/// A [`TextError`] with the bytes that are wrong and a valid text in their place. A zero pause, one above
/// [`LONGEST`], and an exponential back-off whose longest pause is below its first are errors.
pub fn parse(text: &str) -> Result<Backoff, TextError> {
    let error = |message: String, range: Range<usize>| Err(TextError::new(message, range));
    let Some(open) = text.find('(') else {
        // A word without parentheses is more likely a form than a duration.
        if let Some(form) = form(text.trim()) {
            return error(form.takes(), 0..text.len());
        }
        return pause(text, 0..text.len()).map(Backoff::Constant);
    };
    let name = text[..open].trim_end();
    let Some(form) = form(name) else {
        let such_as = "\"30s\", \"linear(10s)\" or \"exponential(1s, 10m)\"";
        return error(format!("unknown back-off `{name:.80}`; write one such as {such_as}"), 0..name.len());
    };
    let close = match text.rfind(')') {
        Some(close) if close > open && text[close + 1..].is_empty() => close,
        Some(close) if close > open => return error("nothing may follow the `)`".to_owned(), close + 1..text.len()),
        _ => return error(format!("expected `)` at the end: \"{}\"", form.example), open..text.len()),
    };
    let arguments = arguments(text, open + 1..close);
    match (form.name, &*arguments) {
        ("linear", [step]) => pause(text, step.clone()).map(Backoff::Linear),
        ("exponential", [first, most]) => {
            let (range, (first, most)) = (most.clone(), (pause(text, first.clone())?, pause(text, most.clone())?));
            if most < first {
                let turned = Backoff::Exponential { first: most, most: first };
                let rule = "the longest pause comes second and is at least the first";
                return error(format!("{rule}: \"{turned}\""), range);
            }
            Ok(Backoff::Exponential { first, most })
        }
        _ => error(form.takes(), open + 1..close),
    }
}

/// The places of the arguments, without the blanks around them.
fn arguments(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut at = range.start;
    let parts = text[range].split(',').map(|part| {
        let start = at + (part.len() - part.trim_start().len());
        at += part.len() + 1;
        start..start + part.trim().len()
    });
    parts.collect()
}

/// Parses one duration of a back-off.
fn pause(text: &str, range: Range<usize>) -> Result<Duration, TextError> {
    let value = duration::parse(&text[range.clone()]).map_err(|error| error.behind(range.start))?;
    if value.is_zero() {
        return Err(TextError::new("a pause must be longer than zero; write at least \"1ms\"", range));
    }
    if value > LONGEST {
        let message = format!("too long; a task waits at most \"{}\"", duration::format(LONGEST));
        return Err(TextError::new(message, range));
    }
    Ok(value)
}

/// A form with arguments.
struct Form {
    name: &'static str,
    takes: &'static str,
    example: &'static str,
}

const FORMS: [Form; 2] = [
    Form { name: "linear", takes: "one duration, its step", example: "linear(10s)" },
    Form { name: "exponential", takes: "the first and the longest pause", example: "exponential(1s, 10m)" },
];

fn form(name: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.name == name)
}

impl Form {
    /// Says which arguments the form takes.
    fn takes(&self) -> String {
        format!("`{}` takes {}: \"{}\"", self.name, self.takes, self.example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_form_is_read_and_written() {
        for (text, expected) in [
            ("30s", Backoff::Constant(s(30))),
            ("1m500ms", Backoff::Constant(Duration::from_millis(60_500))),
            ("linear(10s)", Backoff::Linear(s(10))),
            ("exponential(1s, 10m)", Backoff::Exponential { first: s(1), most: s(600) }),
            ("exponential(1s, 1s)", Backoff::Exponential { first: s(1), most: s(1) }),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!(parse("linear( 10s )"), Ok(Backoff::Linear(s(10))));
        assert_eq!(parse("exponential (1s,10m)"), Ok(Backoff::Exponential { first: s(1), most: s(600) }));
    }

    #[test]
    fn pauses_grow_as_their_form_says() {
        let exponential = Backoff::Exponential { first: s(1), most: s(600) };
        for (backoff, retried, expected) in [
            (Backoff::Constant(s(30)), 0, s(30)),
            (Backoff::Constant(s(30)), 9, s(30)),
            (Backoff::Linear(s(10)), 0, s(10)),
            (Backoff::Linear(s(10)), 1, s(20)),
            (Backoff::Linear(s(10)), 9, s(100)),
            (exponential, 0, s(1)),
            (exponential, 1, s(2)),
            (exponential, 9, s(512)),
            (exponential, 10, s(600)),
        ] {
            assert_eq!(backoff.delay(retried), expected, "{backoff} {retried}");
        }
    }

    #[test]
    fn pauses_never_shrink_and_never_pass_the_cap() {
        for backoff in [
            Backoff::Constant(Duration::MAX),
            Backoff::Linear(s(1)),
            Backoff::Linear(Duration::MAX),
            Backoff::Exponential { first: Duration::from_millis(1), most: Duration::MAX },
            Backoff::Exponential { first: s(7), most: LONGEST },
        ] {
            let mut before = Duration::ZERO;
            for retried in (0..2_000).chain([65_535, 1 << 20, u32::MAX - 1, u32::MAX]) {
                let delay = backoff.delay(retried);
                assert!(delay >= before && delay <= LONGEST, "{backoff:?} {retried}: {delay:?}");
                before = delay;
            }
        }
    }

    #[test]
    fn every_error_names_its_bytes_and_says_what_to_write() {
        for (text, range, message) in [
            ("", 0..0, "expected a duration such as"),
            ("30", 0..2, "`30` has no unit; write \"30s\""),
            ("0s", 0..2, "a pause must be longer than zero; write at least \"1ms\""),
            ("11d", 0..3, "too long; a task waits at most \"10d\""),
            ("linear", 0..6, "`linear` takes one duration, its step: \"linear(10s)\""),
            ("linear()", 7..7, "expected a duration such as"),
            ("linear(1s, 2s)", 7..13, "`linear` takes one duration, its step: \"linear(10s)\""),
            ("linear(5)", 7..8, "`5` has no unit; write \"5s\""),
            ("linear(5s", 6..9, "expected `)` at the end: \"linear(10s)\""),
            ("linear(5s))", 8..10, "unknown unit `s)`"),
            ("linear(5s) + 1", 10..14, "nothing may follow the `)`"),
            (
                "exponential(1s)",
                12..14,
                "`exponential` takes the first and the longest pause: \"exponential(1s, 10m)\"",
            ),
            ("exponential(1s,)", 15..15, "expected a duration such as"),
            ("exponential(10m, 1s)", 17..19, "the longest pause comes second and is at least the first"),
            ("exponential(1s, 1y)", 17..18, "unknown unit `y`"),
            ("fibonacci(1s)", 0..9, "unknown back-off `fibonacci`; write one such as \"30s\""),
            ("(1s)", 0..0, "unknown back-off ``"),
            (")(", 0..1, "unknown back-off `)`"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.range(), range, "{text:?}");
            assert!(error.to_string().starts_with(message), "{text:?}: {error}");
            assert!(text.get(error.range()).is_some(), "{text:?}: the range cuts a character");
        }
    }
}

//! Times as people write them: `"90s"`, `Duration`, `DateTime`, `SystemTime`; lengths, moments, or either.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, TimeZone, Utc};

/// A length of time: a [`Duration`], or a text such as `"90s"`, `"3m"`, `"1h30m"`, `"7d"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a length of time",
    label = "expected a length of time",
    note = "write a `Duration`, or text such as `\"90s\"`, `\"3m\"` or `\"1h30m\"`"
)]
pub trait IntoSpan {
    /// Returns the length.
    ///
    /// # Errors
    ///
    /// A text that is not a duration.
    fn into_span(self) -> Result<Duration, InvalidSpan>;
}

/// A text that is not a duration.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: {reason}")]
pub struct InvalidSpan {
    text: String,
    reason: String,
}

debug_as_text!(InvalidSpan);

// The note of the trait says what to write; a list of its implementations would only be longer.
#[diagnostic::do_not_recommend]
impl IntoSpan for Duration {
    fn into_span(self) -> Result<Duration, InvalidSpan> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl IntoSpan for &str {
    fn into_span(self) -> Result<Duration, InvalidSpan> {
        asynq_grammar::duration::parse(self)
            .map_err(|error| InvalidSpan { text: self.chars().take(80).collect(), reason: error.to_string() })
    }
}

#[diagnostic::do_not_recommend]
impl IntoSpan for String {
    fn into_span(self) -> Result<Duration, InvalidSpan> {
        self.as_str().into_span()
    }
}

/// The text of a setting.
#[diagnostic::do_not_recommend]
impl IntoSpan for &String {
    fn into_span(self) -> Result<Duration, InvalidSpan> {
        self.as_str().into_span()
    }
}

/// A moment: any [`DateTime`] or a [`SystemTime`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a moment",
    label = "expected a moment",
    note = "write a `DateTime` or a `SystemTime`; for a delay from now there are `process_in` and `enqueue_in`"
)]
pub trait IntoInstant {
    /// Returns the moment in UTC.
    ///
    /// # Errors
    ///
    /// A [`SystemTime`] outside the years that chrono knows.
    fn into_instant(self) -> Result<DateTime<Utc>, InvalidInstant>;
}

/// A moment outside the years that can be stored.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time is outside the years that can be stored (-262143 to 262142)")]
pub struct InvalidInstant;

debug_as_text!(InvalidInstant);

#[diagnostic::do_not_recommend]
impl<Tz: TimeZone> IntoInstant for DateTime<Tz> {
    fn into_instant(self) -> Result<DateTime<Utc>, InvalidInstant> {
        Ok(self.with_timezone(&Utc))
    }
}

#[diagnostic::do_not_recommend]
impl IntoInstant for SystemTime {
    fn into_instant(self) -> Result<DateTime<Utc>, InvalidInstant> {
        let delta = |span| TimeDelta::from_std(span).map_err(|_| InvalidInstant);
        let at = match self.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => DateTime::UNIX_EPOCH.checked_add_signed(delta(after)?),
            Err(before) => DateTime::UNIX_EPOCH.checked_sub_signed(delta(before.duration())?),
        };
        at.ok_or(InvalidInstant)
    }
}

/// The end of something: a moment, or a length of time from the enqueue on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// This long after the enqueue.
    In(Duration),
    /// At this moment.
    At(DateTime<Utc>),
}

/// The end of something: any [`DateTime`] or a [`SystemTime`]; or, from the enqueue on, a [`Duration`] or a text such as
/// `"10m"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a moment nor a length of time",
    label = "expected a moment or a length of time",
    note = "write a `DateTime` or a `SystemTime`, or from the enqueue on a `Duration` or text such as `\"10m\"`"
)]
pub trait IntoUntil {
    /// Returns the end.
    ///
    /// # Errors
    ///
    /// A text that is not a duration, or a moment that cannot be stored.
    fn into_until(self) -> Result<Until, InvalidUntil>;
}

/// An end that is not valid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUntil {
    /// A text that is not a duration.
    #[error(transparent)]
    Span(#[from] InvalidSpan),
    /// A moment that cannot be stored.
    #[error(transparent)]
    Instant(#[from] InvalidInstant),
}

debug_as_text!(InvalidUntil);

// With one impl for every `IntoSpan`, the compiler's message about another type would not point at the call.
macro_rules! spans_end {
    ($($type:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl IntoUntil for $type {
            fn into_until(self) -> Result<Until, InvalidUntil> {
                Ok(Until::In(self.into_span()?))
            }
        }
    )*};
}

spans_end!(Duration, &str, String, &String);

#[diagnostic::do_not_recommend]
impl<Tz: TimeZone> IntoUntil for DateTime<Tz> {
    fn into_until(self) -> Result<Until, InvalidUntil> {
        Ok(Until::At(self.into_instant()?))
    }
}

#[diagnostic::do_not_recommend]
impl IntoUntil for SystemTime {
    fn into_until(self) -> Result<Until, InvalidUntil> {
        Ok(Until::At(self.into_instant()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_times_before_the_epoch_keep_their_fraction() {
        let at = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(at.into_instant().map(|at| at.timestamp_millis()), Ok(-1500));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        assert_eq!(at.into_instant().map(|at| at.timestamp_millis()), Ok(1500));
    }
}

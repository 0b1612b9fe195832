//! How long a failed task of a job waits for its next attempt.

use std::{fmt, time::Duration};

use asynq_grammar::backoff::{self, LONGEST};

use super::JobError;

/// A job's own pauses between attempts: declared, or decided by a function. No pause is longer than 10 days.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # use std::time::Duration;
/// const GENTLE: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600));
///
/// assert_eq!(GENTLE.delay(0, &JobError::fail("busy")), Duration::from_secs(1));
/// assert_eq!(GENTLE.delay(5, &JobError::fail("busy")), Duration::from_secs(32));
/// ```
#[derive(Clone, Copy)]
pub struct Backoff(Kind);

#[derive(Clone, Copy)]
enum Kind {
    Declared(backoff::Backoff),
    By(fn(u32, &JobError) -> Duration),
}

impl Backoff {
    /// Returns a back-off with the same pause before every retry; zero, which the attribute refuses, retries at once.
    pub const fn constant(delay: Duration) -> Self {
        Self(Kind::Declared(backoff::Backoff::Constant(delay)))
    }

    /// Returns a back-off with pauses of once, twice, three times `step`, and so on.
    pub const fn linear(step: Duration) -> Self {
        Self(Kind::Declared(backoff::Backoff::Linear(step)))
    }

    /// Returns a back-off whose pause doubles each time, from `first` up to `most`; a `most` below `first`, which the attribute
    /// refuses, is the pause every time.
    pub const fn exponential(first: Duration, most: Duration) -> Self {
        Self(Kind::Declared(backoff::Backoff::Exponential { first, most }))
    }

    /// Returns a back-off by a function of how often the task had failed before (0 at its first failure) and of the error. A
    /// panic or a timeout is an error whose text says so. If the function panics, the server's own pause counts.
    pub const fn by(decide: fn(u32, &JobError) -> Duration) -> Self {
        Self(Kind::By(decide))
    }

    /// Returns the pause of a task that had failed `retried` times before it failed with `error`.
    pub fn delay(&self, retried: u32, error: &JobError) -> Duration {
        self.delay_behind(0, retried, error)
    }

    /// Returns [`delay`](Self::delay) behind so many attempts in a row that were not a failure: declared pauses count them, too, and a
    /// function gets the failures alone.
    pub(crate) fn delay_behind(&self, deferrals: u32, retried: u32, error: &JobError) -> Duration {
        match self.0 {
            Kind::Declared(backoff) => backoff.delay(retried.saturating_add(deferrals)),
            Kind::By(decide) => decide(retried, error).min(LONGEST),
        }
    }
}

impl fmt::Display for Backoff {
    /// Writes the back-off as the attribute takes it; a function is `by a function`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Declared(backoff) => backoff.fmt(f),
            Kind::By(_) => f.write_str("by a function"),
        }
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backoff({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_sees_the_error_and_is_capped() {
        fn by_text(retried: u32, error: &JobError) -> Duration {
            if error.to_string() == "for ever" { Duration::MAX } else { Duration::from_secs(u64::from(retried)) }
        }
        let backoff = Backoff::by(by_text);
        assert_eq!(backoff.delay(7, &JobError::fail("busy")), Duration::from_secs(7));
        assert_eq!(backoff.delay(7, &JobError::fail("for ever")), LONGEST);
        assert_eq!(
            (backoff.to_string(), format!("{backoff:?}")),
            ("by a function".into(), "Backoff(by a function)".into())
        );
    }

    #[test]
    fn a_backoff_is_displayed_as_it_is_declared() {
        let s = Duration::from_secs;
        for (backoff, text) in [
            (Backoff::constant(s(30)), "30s"),
            (Backoff::linear(s(10)), "linear(10s)"),
            (Backoff::exponential(s(1), s(600)), "exponential(1s, 10m)"),
        ] {
            assert_eq!(backoff.to_string(), text);
        }
    }
}

//! The tick of a periodic job and its transport in two headers. The payload stays the job's own, so that a Go worker
//! that runs the type can read it.

use asynq_runtime::JobContext;
use chrono::{DateTime, Utc};

/// Unix seconds of the tick.
pub(crate) const AT: &str = "asynq-cron-at";
/// How many missed ticks the tick stands for; absent for none.
pub(crate) const MISSED: &str = "asynq-cron-missed";

/// The tick that a periodic job runs for. A `#[periodic]` function takes it as a parameter; the worker supplies it, and it is not stored
/// among the arguments.
///
/// Every attempt at a task of a schedule has the same tick, however late it runs.
///
/// ```
/// use asynq_cron::{Tick, periodic};
///
/// #[periodic("0 9 * * MON", tz = "Europe/Berlin")]
/// async fn weekly_report(tick: Tick) {
///     println!("the report of {}", tick.scheduled_at());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tick {
    scheduled_at: DateTime<Utc>,
    missed: u64,
}

impl Tick {
    /// Makes a tick for `scheduled_at`, to call a job's function in a test.
    pub fn new(scheduled_at: DateTime<Utc>) -> Self {
        Self { scheduled_at, missed: 0 }
    }

    /// Sets how many missed ticks this one stands for.
    #[must_use]
    pub fn with_missed(self, missed: u64) -> Self {
        Self { missed, ..self }
    }

    /// Returns the tick of a task. For a task that no schedule enqueued it is the broker's time of this call, so a retry has another
    /// tick.
    pub fn of(ctx: &JobContext) -> Self {
        // The clock of a `TestApp` is that of its broker; a detached context has no broker.
        let now = || ctx.client().map_or_else(|_| Utc::now(), |client| client.broker().now());
        Self::read(ctx.header(AT), ctx.header(MISSED)).unwrap_or_else(|| Self::new(now()))
    }

    /// Returns when the tick was due: a time of the schedule, without the jitter. It is in UTC, where the date may be another than on
    /// the clock of the schedule.
    ///
    /// ```
    /// use asynq_cron::{Tick, Tz};
    ///
    /// // Midnight in Berlin.
    /// let tick = Tick::new("2026-10-24T22:00:00Z".parse()?);
    /// let day = tick.scheduled_at().with_timezone(&Tz::Europe__Berlin).date_naive();
    /// assert_eq!(day.to_string(), "2026-10-25");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scheduled_at(&self) -> DateTime<Utc> {
        self.scheduled_at
    }

    /// Returns how many earlier ticks were left out because no scheduler fired them; at most 9,999 are counted. A tick that fired, but
    /// the broker's answer to which was lost until the tick was late, may be among them.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    fn read(at: Option<&str>, missed: Option<&str>) -> Option<Self> {
        let scheduled_at = DateTime::from_timestamp(at?.parse().ok()?, 0)?;
        Some(Self { scheduled_at, missed: missed.and_then(|text| text.parse().ok()).unwrap_or(0) })
    }

    /// The headers of the tick's task.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let missed = (self.missed > 0).then(|| (MISSED, self.missed.to_string()));
        std::iter::once((AT, self.scheduled_at.timestamp().to_string())).chain(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_travels_in_headers() {
        for missed in [0, 7] {
            let tick = Tick::new(DateTime::from_timestamp(1_800_000_000, 0).expect("a time")).with_missed(missed);
            let headers: Vec<_> = tick.headers().collect();
            assert_eq!(headers.len(), if missed == 0 { 1 } else { 2 });
            let find = |key| headers.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str());
            assert_eq!(Tick::read(find(AT), find(MISSED)), Some(tick));
        }
    }

    #[test]
    fn rubbish_in_headers_is_not_a_tick() {
        for at in [None, Some(""), Some("soon"), Some("99999999999999999999"), Some("9223372036854775807")] {
            assert_eq!(Tick::read(at, Some("1")), None, "{at:?}");
        }
        assert_eq!(Tick::read(Some("5"), Some("many")).map(|tick| tick.missed()), Some(0));
        let before = Utc::now();
        assert!(Tick::of(&JobContext::detached()).scheduled_at() >= before);
    }
}

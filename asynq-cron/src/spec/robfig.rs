//! robfig/cron v3's own walk to the next time, step by step: a schedule moved over from Go keeps every tick.
//!
//! The walk does not find "every instant whose wall clock matches": the hour advances in real time from a truncated
//! hour, and the day is not looked at again when midnight does not exist. Both lose or move ticks where a clock jumps,
//! and both are kept.

use std::time::Duration;

use asynq_grammar::cron::Fields;
use chrono::{
    DateTime, Datelike as _, NaiveDate, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _, Timelike as _, Utc,
};
use chrono_tz::Tz;

/// How many years ahead robfig searches.
const YEARS: i32 = 5;
/// A safety limit: five years have fewer steps.
const MOST_STEPS: u32 = 1_000_000;

/// robfig's next time after `after`.
pub(super) fn next(fields: &Fields, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    // robfig searches all seconds of five years for such a time.
    if fields.is_empty() {
        return None;
    }
    let start = after.with_nanosecond(0)?.checked_add_signed(TimeDelta::seconds(1))?;
    let mut walk = Walk { zone, at: start, truncated: false, steps: 0 };
    let last_year = walk.wall()?.year().checked_add(YEARS)?;
    'wrap: loop {
        if walk.wall()?.year() > last_year {
            return None;
        }
        while !fields.has_month(walk.wall()?.month()) {
            let wall = walk.truncate(|wall| wall.date().with_day(1)?.and_hms_opt(0, 0, 0))?;
            walk.go_to(add_month(wall)?)?;
            if walk.wall()?.month() == 1 {
                continue 'wrap;
            }
        }
        while !matches_day(fields, walk.wall()?) {
            let wall = walk.truncate(|wall| wall.date().and_hms_opt(0, 0, 0))?;
            walk.go_to(wall.checked_add_signed(TimeDelta::days(1))?)?;
            // Midnight may not exist that day, or come an hour early.
            let hour = i64::from(walk.wall()?.hour());
            if hour != 0 {
                walk.advance(TimeDelta::hours(if hour > 12 { 24 - hour } else { -hour }))?;
            }
            if walk.wall()?.day() == 1 {
                continue 'wrap;
            }
        }
        while !fields.has_hour(walk.wall()?.hour()) {
            walk.truncate(|wall| wall.date().and_hms_opt(wall.hour(), 0, 0))?;
            walk.advance(TimeDelta::hours(1))?;
            if walk.wall()?.hour() == 0 {
                continue 'wrap;
            }
        }
        while !fields.has_minute(walk.wall()?.minute()) {
            walk.truncate_instant(60)?;
            walk.advance(TimeDelta::minutes(1))?;
            if walk.wall()?.minute() == 0 {
                continue 'wrap;
            }
        }
        while !fields.has_second(walk.wall()?.second()) {
            walk.truncate_instant(1)?;
            walk.advance(TimeDelta::seconds(1))?;
            if walk.wall()?.second() == 0 {
                continue 'wrap;
            }
        }
        return Some(walk.at);
    }
}

/// robfig's next time of `@every`, relative to `after`.
pub(super) fn next_every(interval: Duration, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    after.with_nanosecond(0)?.checked_add_signed(TimeDelta::from_std(interval).ok()?)
}

fn matches_day(fields: &Fields, wall: NaiveDateTime) -> bool {
    fields.has_day(wall.year(), wall.month(), wall.day())
}

/// The position of the walk.
struct Walk {
    zone: Tz,
    at: DateTime<Utc>,
    /// Whether the smaller fields have been set to their beginning, which happens once in a walk.
    truncated: bool,
    steps: u32,
}

impl Walk {
    fn wall(&self) -> Option<NaiveDateTime> {
        self.at.naive_utc().checked_add_offset(self.zone.offset_from_utc_datetime(&self.at.naive_utc()).fix())
    }

    /// Goes to the beginning of a unit of the wall clock, the first time only; returns the wall clock.
    fn truncate(&mut self, to: impl Fn(NaiveDateTime) -> Option<NaiveDateTime>) -> Option<NaiveDateTime> {
        if !self.truncated {
            self.truncated = true;
            let wall = to(self.wall()?)?;
            self.go_to(wall)?;
        }
        self.wall()
    }

    /// Truncates as [`truncate`](Self::truncate) does, for minutes and seconds, which Go counts in absolute time.
    fn truncate_instant(&mut self, seconds: i64) -> Option<()> {
        if !self.truncated {
            self.truncated = true;
            let at = self.at.timestamp();
            self.at = DateTime::from_timestamp(at - at.rem_euclid(seconds), 0)?;
        }
        Some(())
    }

    fn advance(&mut self, by: TimeDelta) -> Option<()> {
        self.step()?;
        self.at = self.at.checked_add_signed(by)?;
        Some(())
    }

    /// Goes to a wall-clock time as Go's `time.Date` does: in a gap it takes the offset that holds at the instant which
    /// the other offset gives.
    fn go_to(&mut self, wall: NaiveDateTime) -> Option<()> {
        self.step()?;
        let offset = |at: NaiveDateTime| self.zone.offset_from_utc_datetime(&at).fix();
        let guess = wall.checked_sub_offset(offset(wall))?;
        self.at = wall.checked_sub_offset(offset(guess))?.and_utc();
        Some(())
    }

    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps < MOST_STEPS).then_some(())
    }
}

/// Go's `AddDate(0, 1, 0)`: a day that the next month lacks runs over into the month after it.
fn add_month(wall: NaiveDateTime) -> Option<NaiveDateTime> {
    let (year, month) =
        if wall.month() == 12 { (wall.year().checked_add(1)?, 1) } else { (wall.year(), wall.month() + 1) };
    let first = NaiveDate::from_ymd_opt(year, month, 1)?;
    Some(first.checked_add_signed(TimeDelta::days(i64::from(wall.day()) - 1))?.and_time(wall.time()))
}

//! The fields of a cron text as sets of bits, and the next wall-clock time that is in all of them.

use std::ops::RangeInclusive;

use super::civil::{Civil, days_in_month, weekday};

/// How many years ahead a match is searched: the calendar repeats after 400.
const YEARS: i32 = 400;

/// The wall-clock times that a cron text matches.
///
/// Bit `n` of a set stands for the number `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) months: u64,
    /// Whether the hour was written with a star: the schedule then follows the clock through both passes of an overlap.
    pub(super) hour_star: bool,
    pub(super) days: u64,
    pub(super) day_star: bool,
    /// `L-n`: n days before the last of the month.
    pub(super) before_last: u64,
    /// `nW`: the weekday nearest to the nth.
    pub(super) nearest: u64,
    /// `LW`: the last weekday, Monday to Friday, of the month.
    pub(super) last_workday: bool,
    pub(super) weekdays: u64,
    pub(super) weekday_star: bool,
    /// `d#n`: bit 5d + n - 1.
    pub(super) nth: u64,
    /// `dL`: the last such weekday of the month.
    pub(super) last_of: u64,
}

impl Fields {
    /// Returns whether the hour was written with a star (`*`, `?`, `*/n`). Such a schedule follows the wall clock through a
    /// change of the offset, while a schedule with fixed hours fires once for each of them.
    #[must_use]
    pub fn follows_the_clock(&self) -> bool {
        self.hour_star
    }

    /// Returns whether the schedule has this second.
    #[must_use]
    pub fn has_second(&self, second: u32) -> bool {
        has(self.seconds, second)
    }

    /// Returns whether the schedule has this minute.
    #[must_use]
    pub fn has_minute(&self, minute: u32) -> bool {
        has(self.minutes, minute)
    }

    /// Returns whether the schedule has this hour.
    #[must_use]
    pub fn has_hour(&self, hour: u32) -> bool {
        has(self.hours, hour)
    }

    /// Returns whether the schedule has this month.
    #[must_use]
    pub fn has_month(&self, month: u32) -> bool {
        has(self.months, month)
    }

    /// Returns whether the schedule has this day, whatever its months.
    #[must_use]
    pub fn has_day(&self, year: i32, month: u32, day: u32) -> bool {
        has(self.days_of(year, month), day)
    }

    /// Returns whether some field allows no value, so that no time can match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let no_days = self.days | self.before_last | self.nearest == 0 && !self.last_workday;
        let no_weekdays = self.weekdays | self.nth | self.last_of == 0;
        let strict = self.day_star || self.weekday_star;
        let never = if strict { no_days || no_weekdays } else { no_days && no_weekdays };
        self.seconds == 0 || self.minutes == 0 || self.hours == 0 || self.months == 0 || never
    }

    /// Returns whether no date of the calendar matches, such as 30 February. Such a schedule never fires.
    #[must_use]
    pub(super) fn never_fires(&self) -> bool {
        self.next_civil(Civil { hour: 23, minute: 59, second: 59, ..Civil::midnight(1999, 12, 31) }).is_none()
    }

    /// Returns the first wall-clock time after `after` that matches; `None` if there is none within 400 years.
    #[must_use]
    pub fn next_civil(&self, after: Civil) -> Option<Civil> {
        if self.is_empty() {
            return None;
        }
        let last_year = after.year.saturating_add(YEARS);
        let mut at = after.next_second();
        while at.year <= last_year {
            let Some(month) = next_in(self.months, at.month) else {
                at = at.next_year();
                continue;
            };
            at = at.max(Civil::midnight(at.year, month, 1));
            let Some(day) = next_in(self.days_of(at.year, at.month), at.day) else {
                at = at.next_month();
                continue;
            };
            at = at.max(Civil::midnight(at.year, at.month, day));
            let Some(hour) = next_in(self.hours, at.hour) else {
                at = at.next_day();
                continue;
            };
            at = at.max(Civil { hour, minute: 0, second: 0, ..at });
            let Some(minute) = next_in(self.minutes, at.minute) else {
                at = at.next_hour();
                continue;
            };
            at = at.max(Civil { minute, second: 0, ..at });
            match next_in(self.seconds, at.second) {
                Some(second) => return Some(Civil { second, ..at }),
                None => at = at.next_minute(),
            }
        }
        None
    }

    /// The days of a month that match: both fields must match if either is an unstepped star, otherwise one is enough.
    fn days_of(&self, year: i32, month: u32) -> u64 {
        let length = days_in_month(year, month);
        let first = weekday(year, month, 1);
        let (by_day, by_weekday) = (self.by_day(length, first), self.by_weekday(length, first));
        let month = ((1 << length) - 1) << 1;
        month & if self.day_star || self.weekday_star { by_day & by_weekday } else { by_day | by_weekday }
    }

    fn by_day(&self, length: u32, first: u32) -> u64 {
        let mut days = self.days;
        for n in members(self.before_last).filter(|&n| n < length) {
            days |= bit(length - n);
        }
        for n in members(self.nearest).filter(|&n| n <= length) {
            days |= bit(nearest_workday(n, length, first));
        }
        if self.last_workday {
            days |= bit(nearest_workday(length, length, first));
        }
        days
    }

    fn by_weekday(&self, length: u32, first: u32) -> u64 {
        let matches = |day: &u32| {
            let weekday = (first + day - 1) % 7;
            let is_nth = has(self.nth, 5 * weekday + (day - 1) / 7);
            let is_last = day + 7 > length && has(self.last_of, weekday);
            has(self.weekdays, weekday) || is_nth || is_last
        };
        (1..=length).filter(matches).fold(0, |days, day| days | bit(day))
    }
}

/// The day from Monday to Friday that is nearest to day `n`, within the month.
fn nearest_workday(n: u32, length: u32, first: u32) -> u32 {
    match (first + n - 1) % 7 {
        // Sunday: the Monday after it, unless that is in the next month.
        0 if n < length => n + 1,
        0 => n - 2,
        // Saturday: the Friday before it, unless that is in the previous month.
        6 if n > 1 => n - 1,
        6 => n + 2,
        _ => n,
    }
}

pub(super) fn bit(n: u32) -> u64 {
    1_u64.checked_shl(n).unwrap_or(0)
}

pub(super) fn has(set: u64, n: u32) -> bool {
    set & bit(n) != 0
}

/// The numbers in the set, ascending.
pub(super) fn members(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |&n| has(set, n))
}

/// The set of every `by`th number of a range, from its first on.
pub(super) fn stepped(by: u32, range: RangeInclusive<u32>) -> u64 {
    range.step_by(by as usize).fold(0, |set, n| set | bit(n))
}

/// The least member that is at least `from`.
fn next_in(set: u64, from: u32) -> Option<u32> {
    let rest = set & u64::MAX.checked_shl(from)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::{super::parse::fields, *};

    /// The days of a month that the day fields match, found day by day.
    fn naive((kind, n): (&str, u32), year: i32, month: u32) -> Vec<u32> {
        let length = days_in_month(year, month);
        let day_of_week: Vec<u32> = (0..=length).map(|day| weekday(year, month, day.max(1))).collect();
        let is_workday = |day: u32| !matches!(day_of_week[day as usize], 0 | 6);
        let workdays = || (1..=length).filter(|&day| is_workday(day));
        let all = (1..=length).filter(|&day| {
            let weekday = day_of_week[day as usize];
            match kind {
                "before-last" => length.checked_sub(n) == Some(day),
                // n is 10 × weekday + which.
                "nth" => weekday == n / 10 && day.div_ceil(7) == n % 10,
                "last-of" => weekday == n && day + 7 > length,
                _ => false,
            }
        });
        match kind {
            "nearest" if n > length => Vec::new(),
            "nearest" => workdays().min_by_key(|&day| day.abs_diff(n)).into_iter().collect(),
            "last-workday" => workdays().next_back().into_iter().collect(),
            _ => all.collect(),
        }
    }

    #[test]
    fn the_extensions_agree_with_a_naive_calendar_over_four_hundred_years() {
        let table = [
            ("0 0 L * *", ("before-last", 0)),
            ("0 0 L-3 * *", ("before-last", 3)),
            ("0 0 L-30 * *", ("before-last", 30)),
            ("0 0 1W * *", ("nearest", 1)),
            ("0 0 15W * *", ("nearest", 15)),
            ("0 0 30W * *", ("nearest", 30)),
            ("0 0 31W * *", ("nearest", 31)),
            ("0 0 LW * *", ("last-workday", 0)),
            ("0 0 * * 1#1", ("nth", 11)),
            ("0 0 * * fri#5", ("nth", 55)),
            ("0 0 * * 5L", ("last-of", 5)),
            ("0 0 * * sunL", ("last-of", 0)),
        ];
        for (spec, meaning) in table {
            let fields = fields(spec);
            for (year, month) in (2000..2400).flat_map(|year| (1..=12).map(move |month| (year, month))) {
                let days: Vec<u32> = members(fields.days_of(year, month)).collect();
                assert_eq!(days, naive(meaning, year, month), "{spec} {year}-{month}");
            }
        }
    }

    #[test]
    fn the_next_time_is_the_first_that_matches() {
        let at = |text: &str| {
            let n: Vec<u32> = text.split(['-', ' ', ':']).filter_map(|n| n.parse().ok()).collect();
            Civil { year: n[0] as i32, month: n[1], day: n[2], hour: n[3], minute: n[4], second: n[5] }
        };
        for (spec, after, expected) in [
            ("*/5 * * * *", "2025-12-31 23:59:30", "2026-01-01 00:00:00"),
            ("0 0 29 2 *", "2096-02-29 00:00:00", "2104-02-29 00:00:00"),
            ("30 2 * * *", "2026-03-29 02:30:00", "2026-03-30 02:30:00"),
            ("59 59 23 31 12 *", "2026-01-01 00:00:00", "2026-12-31 23:59:59"),
            ("*/20 * * * * *", "2026-01-01 00:00:40", "2026-01-01 00:01:00"),
            ("0 12 */2 * 1", "2026-11-21 12:00:00", "2026-11-23 12:00:00"),
            ("0 0 13 * 5", "2026-11-13 00:00:00", "2026-11-20 00:00:00"),
        ] {
            assert_eq!(fields(spec).next_civil(at(after)), Some(at(expected)), "{spec}");
        }
    }
}

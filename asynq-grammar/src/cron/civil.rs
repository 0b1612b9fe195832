//! The proleptic Gregorian calendar, as far as a schedule needs it, without time zones and clocks.

/// A wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    /// The year.
    pub year: i32,
    /// 1–12.
    pub month: u32,
    /// 1–31.
    pub day: u32,
    /// 0–23.
    pub hour: u32,
    /// 0–59.
    pub minute: u32,
    /// 0–59.
    pub second: u32,
}

impl Civil {
    /// Returns the first second of a day.
    #[must_use]
    pub(super) const fn midnight(year: i32, month: u32, day: u32) -> Self {
        Self { year, month, day, hour: 0, minute: 0, second: 0 }
    }

    /// The second after this one.
    pub(super) fn next_second(self) -> Self {
        if self.second < 59 { Self { second: self.second + 1, ..self } } else { self.next_minute() }
    }

    /// The first second of the next minute.
    pub(super) fn next_minute(self) -> Self {
        if self.minute < 59 { Self { minute: self.minute + 1, second: 0, ..self } } else { self.next_hour() }
    }

    /// The first second of the next hour.
    pub(super) fn next_hour(self) -> Self {
        if self.hour < 23 { Self { hour: self.hour + 1, minute: 0, second: 0, ..self } } else { self.next_day() }
    }

    /// Midnight of the next day.
    pub(super) fn next_day(self) -> Self {
        if self.day < days_in_month(self.year, self.month) {
            Self::midnight(self.year, self.month, self.day + 1)
        } else {
            self.next_month()
        }
    }

    /// Midnight of the first of the next month.
    pub(super) fn next_month(self) -> Self {
        if self.month < 12 { Self::midnight(self.year, self.month + 1, 1) } else { self.next_year() }
    }

    /// Midnight of the next new year.
    pub(super) fn next_year(self) -> Self {
        Self::midnight(self.year.saturating_add(1), 1, 1)
    }
}

/// Returns how many days the month has.
#[must_use]
pub(super) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the weekday of a day, Sunday is 0 (Sakamoto's method).
#[must_use]
pub(super) fn weekday(year: i32, month: u32, day: u32) -> u32 {
    const SHIFT: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let year = i64::from(year) - i64::from(month < 3);
    let shift = SHIFT[(month.clamp(1, 12) - 1) as usize];
    let sum = year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + shift + i64::from(day);
    sum.rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_known_days_long() {
        for (year, month, day, expected) in
            [(2026, 11, 21, 6), (2000, 1, 1, 6), (1970, 1, 1, 4), (2024, 2, 29, 4), (1900, 3, 1, 4), (-4, 3, 1, 5)]
        {
            assert_eq!(weekday(year, month, day), expected, "{year}-{month}-{day}");
        }
        assert_eq!([1900, 2000, 2023, 2024].map(|year| days_in_month(year, 2)), [28, 29, 28, 29]);
    }

    #[test]
    fn weekdays_follow_each_other_through_four_hundred_years() {
        let mut day = Civil::midnight(1999, 12, 31);
        let mut expected = weekday(1999, 12, 31);
        let mut days = 0;
        while day.year < 2400 {
            day = day.next_day();
            expected = (expected + 1) % 7;
            days += 1;
            assert_eq!(weekday(day.year, day.month, day.day), expected, "{day:?}");
        }
        assert_eq!(days, 146_097 + 1);
    }
}

//! Says a schedule in English: "At 09:00, Monday to Friday".

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Fields,
    field::{bit, members, stepped},
};
use crate::counted;

const MONTHS: [&str; 13] = [
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Up to this many times of day are listed; more are described.
const MOST_TIMES: usize = 6;

/// The sentence for `@every`.
pub(super) fn of_interval(interval: Duration) -> String {
    let seconds = interval.as_secs();
    let parts = [(seconds / 3600, "hour"), (seconds / 60 % 60, "minute"), (seconds % 60, "second")];
    let parts: Vec<(u64, &str)> = parts.into_iter().filter(|(n, _)| *n > 0).collect();
    match parts[..] {
        [(1, unit)] => format!("Every {unit}"),
        _ => format!("Every {}", listed(parts.iter().map(|&(n, unit)| counted(n, unit)), "and")),
    }
}

/// The sentence for fields.
pub(super) fn of_fields(fields: &Fields) -> String {
    if fields.is_empty() {
        return "Never".to_owned();
    }
    let mut sentence = time(fields);
    if let Some(days) = days(fields) {
        sentence += &format!(", {days}");
    }
    let months = members(fields.months);
    if fields.months.count_ones() < 12 {
        sentence += &format!(", in {}", runs(months, |n| MONTHS[n as usize].to_owned()));
    }
    sentence
}

/// The part of the sentence about the time of day.
fn time(fields: &Fields) -> String {
    let (hours, minutes, seconds) = (fields.hours, fields.minutes, fields.seconds);
    let times = hours.count_ones() * minutes.count_ones() * seconds.count_ones();
    if times as usize <= MOST_TIMES {
        let with_seconds = seconds != bit(0);
        let mut all = Vec::new();
        for hour in members(hours) {
            for minute in members(minutes) {
                for second in members(seconds) {
                    let second = if with_seconds { format!(":{second:02}") } else { String::new() };
                    all.push(format!("{hour:02}:{minute:02}{second}"));
                }
            }
        }
        return format!("At {}", listed(all.into_iter(), "and"));
    }
    let mut parts = Vec::new();
    if seconds != bit(0) {
        parts.push(part(seconds, 0..=59, "second"));
    }
    let every_minute = minutes.count_ones() == 60;
    if !(every_minute && seconds != bit(0)) {
        parts.push(part(minutes, 0..=59, "minute"));
    }
    match hours.count_ones() {
        24 if parts.len() == 1 && minutes == bit(0) => return "Every hour".to_owned(),
        24 => {}
        _ => parts.push(match step(hours, 0..=23) {
            Some(step) => format!("past every {} hour", ordinal(step)),
            None => format!("past {}", runs(members(hours), |hour| format!("{hour:02}:00"))),
        }),
    }
    capitalised(&parts.join(", "))
}

/// "every 5 minutes", "at minute 7", "at minutes 0, 7 and 30".
fn part(set: u64, bounds: RangeInclusive<u32>, unit: &str) -> String {
    match step(set, bounds) {
        Some(1) => format!("every {unit}"),
        Some(step) => format!("every {}", counted(u64::from(step), unit)),
        None if set.count_ones() == 1 => format!("at {unit} {}", set.trailing_zeros()),
        None => format!("at {unit}s {}", runs(members(set), |n| n.to_string())),
    }
}

/// The step of a set that goes from the least number on in equal steps, evenly around the clock.
fn step(set: u64, bounds: RangeInclusive<u32>) -> Option<u32> {
    let size = bounds.end() - bounds.start() + 1;
    let mut found = members(set);
    let (first, second) = (found.next()?, found.next()?);
    let step = second - first;
    (first == *bounds.start() && set == stepped(step, bounds) && size.is_multiple_of(step)).then_some(step)
}

/// The part of the sentence about the days, unless the schedule has all days.
fn days(fields: &Fields) -> Option<String> {
    let mut of_month = Vec::new();
    let all_days = fields.days.count_ones() == 31;
    if fields.days != 0 {
        of_month.push(match fields.days {
            days if days == stepped(2, 1..=31) => "on odd days of the month".to_owned(),
            days if days == stepped(2, 2..=31) => "on even days of the month".to_owned(),
            days if days.count_ones() == 1 => format!("on day {} of the month", days.trailing_zeros()),
            days => format!("on days {} of the month", runs(members(days), |n| n.to_string())),
        });
    }
    for n in members(fields.before_last) {
        of_month.push(match n {
            0 => "on the last day of the month".to_owned(),
            n => format!("{} before the last day of the month", counted(u64::from(n), "day")),
        });
    }
    of_month.extend(members(fields.nearest).map(|n| format!("on the workday nearest to day {n} of the month")));
    if fields.last_workday {
        of_month.push("on the last workday of the month".to_owned());
    }
    // Beside all days, further ones add none.
    if all_days {
        of_month.clear();
    }

    let mut of_week = Vec::new();
    let all_weekdays = fields.weekdays.count_ones() == 7;
    if fields.weekdays != 0 {
        of_week.push(weekdays(fields.weekdays));
    }
    for at in members(fields.nth) {
        of_week.push(format!("on the {} {} of the month", ordinal(at % 5 + 1), WEEKDAYS[(at / 5) as usize]));
    }
    of_week.extend(members(fields.last_of).map(|n| format!("on the last {} of the month", WEEKDAYS[n as usize])));
    if all_weekdays {
        of_week.clear();
    }

    let strict = fields.day_star || fields.weekday_star;
    // If either field is enough and one matches every day, the other has no effect.
    if !strict && (all_days || all_weekdays) {
        return None;
    }
    let (by_day, by_week) = (listed(of_month.into_iter(), "or"), listed(of_week.into_iter(), "or"));
    match (by_day.is_empty(), by_week.is_empty()) {
        (true, true) => None,
        (false, true) => Some(by_day),
        (true, false) => Some(by_week),
        (false, false) if strict => Some(format!("{by_day} that is also {by_week}")),
        (false, false) => Some(format!("{by_day} or {by_week}")),
    }
}

fn weekdays(set: u64) -> String {
    let name = |n: u32| WEEKDAYS[n as usize].to_owned();
    match set.count_ones() {
        1 => format!("on {}", name(set.trailing_zeros())),
        // Monday comes first, as a week is read.
        _ => {
            let ordered = members(set).filter(|&n| n > 0).chain(members(set).filter(|&n| n == 0).map(|_| 7));
            runs(ordered, |n| name(n % 7))
        }
    }
}

/// "1, 3 to 7 and 12": three and more in a row are a range.
fn runs(numbers: impl Iterator<Item = u32>, name: impl Fn(u32) -> String) -> String {
    let mut groups: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match groups.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => groups.push((n, n)),
        }
    }
    let parts = groups.into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![name(first)],
        1 => vec![name(first), name(last)],
        _ => vec![format!("{} to {}", name(first), name(last))],
    });
    listed(parts, "and")
}

/// "a, b and c".
fn listed(parts: impl Iterator<Item = String>, and: &str) -> String {
    let parts: Vec<String> = parts.collect();
    match &parts[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
    }
}

fn ordinal(n: u32) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, parse};

    #[test]
    fn schedules_read_as_people_say_them() {
        for (spec, sentence) in [
            ("*/5 * * * *", "Every 5 minutes"),
            ("* * * * *", "Every minute"),
            ("0 * * * *", "Every hour"),
            ("@daily", "At 00:00"),
            ("0 9 * * mon-fri", "At 09:00, Monday to Friday"),
            ("0 9,12,18 * * *", "At 09:00, 12:00 and 18:00"),
            ("30 1 1 * *", "At 01:30, on day 1 of the month"),
            ("0 12 */2 * 1", "At 12:00, on odd days of the month or on Monday"),
            ("0 0 13 * fri", "At 00:00, on day 13 of the month or on Friday"),
            ("0 0 L * *", "At 00:00, on the last day of the month"),
            ("0 0 L-2 * *", "At 00:00, 2 days before the last day of the month"),
            ("0 0 1-31,L * *", "At 00:00"),
            ("0 0 *,L * mon", "At 00:00, on Monday"),
            ("0 0 1 * *,mon#1", "At 00:00, on day 1 of the month"),
            ("0 0 LW * *", "At 00:00, on the last workday of the month"),
            ("0 0 15W * *", "At 00:00, on the workday nearest to day 15 of the month"),
            ("0 8 * * 1#1", "At 08:00, on the 1st Monday of the month"),
            ("0 8 * * friL", "At 08:00, on the last Friday of the month"),
            ("0 0 1 1,7 *", "At 00:00, on day 1 of the month, in January and July"),
            ("15 */2 * * *", "At minute 15, past every 2nd hour"),
            ("*/10 9-17 * * 1-5", "Every 10 minutes, past 09:00 to 17:00, Monday to Friday"),
            ("*/15 * * * * *", "Every 15 seconds"),
            ("30 0 9 * * *", "At 09:00:30"),
            ("0 0 * * 0,6", "At 00:00, Saturday and Sunday"),
            ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
            ("0 0 29 2 *", "At 00:00, on day 29 of the month, in February"),
            ("@every 30s", "Every 30 seconds"),
            ("@every 1h", "Every hour"),
            ("@every 1h30m", "Every 1 hour and 30 minutes"),
        ] {
            let read = parse(spec, Mode::Default).unwrap_or_else(|error| panic!("{spec}: {error}"));
            assert_eq!(read.schedule.sentence(), sentence, "{spec}");
        }
        let never = parse(", * * * *", Mode::Compat).expect("compat takes it");
        assert_eq!(never.schedule.sentence(), "Never");
    }
}

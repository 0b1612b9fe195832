//! `next_after` against an oracle that looks at every single minute around every change of a clock, 2024–2040.
//!
//! The oracle shares no matcher, no calendar and no search with the engine: it matches fields given as closures against
//! chrono's own dates. `ASYNQ_CRON_ORACLE=all` compares every zone that chrono-tz knows and prints the figure; without it
//! a selection of zones with every kind of change is compared.

use std::collections::BTreeMap;

use asynq_cron::CronSpec;
use chrono::{DateTime, Datelike as _, Duration, NaiveDateTime, Offset as _, TimeZone as _, Timelike as _, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

/// A schedule, whether its hour has a star, and its meaning as a closure.
type Case = (&'static str, bool, fn(NaiveDateTime) -> bool);

const CASES: [Case; 8] = [
    ("30 2 * * *", false, |t| t.minute() == 30 && t.hour() == 2),
    ("*/20 1,2,3 * * *", false, |t| t.minute() % 20 == 0 && (1..=3).contains(&t.hour())),
    ("0 0 * * *", false, |t| t.minute() == 0 && t.hour() == 0),
    ("15 0-4 * * sun", false, |t| t.minute() == 15 && t.hour() < 5 && t.weekday().num_days_from_sunday() == 0),
    ("*/30 * * * *", true, |t| t.minute() % 30 == 0),
    ("45 */2 * * *", true, |t| t.minute() == 45 && t.hour() % 2 == 0),
    ("0 0 1 * mon", false, |t| {
        t.minute() == 0 && t.hour() == 0 && (t.day() == 1 || t.weekday().num_days_from_sunday() == 1)
    }),
    ("7 * 25-31 3,10 *", true, |t| t.minute() == 7 && t.day() >= 25 && matches!(t.month(), 3 | 10)),
];

/// Zones whose clocks change by an hour, by half an hour, by two, at midnight, on Fridays, south of the equator, and never.
const SELECTION: [&str; 10] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Asuncion",
    "Africa/Casablanca",
    "Asia/Kolkata",
];

fn offset(zone: Tz, at: DateTime<Utc>) -> i32 {
    zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc()
}

fn wall(zone: Tz, at: DateTime<Utc>) -> NaiveDateTime {
    at.naive_utc() + Duration::seconds(offset(zone, at).into())
}

/// Every instant at which the offset of the zone changes.
fn changes(zone: Tz) -> Vec<DateTime<Utc>> {
    let (begin, end) = (time("2024-01-01T00:00:00Z"), time("2041-01-01T00:00:00Z"));
    let mut found = Vec::new();
    let mut at = begin;
    while at < end {
        let next = at + Duration::hours(6);
        if offset(zone, at) != offset(zone, next) {
            // Offsets change at whole minutes in these years.
            let change = (0..=360).map(|minute| at + Duration::minutes(minute));
            found.extend(
                change.clone().zip(change.skip(1)).find_map(|(a, b)| (offset(zone, a) != offset(zone, b)).then_some(b)),
            );
        }
        at = next;
    }
    found
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().expect("a time")
}

/// Every minute between two instants, with the wall clock of the zone.
fn minutes(zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<(DateTime<Utc>, NaiveDateTime)> {
    let every = (0..).map(|n| from + Duration::minutes(n)).take_while(|&at| at <= to);
    every.map(|at| (at, wall(zone, at))).collect()
}

/// The times of the schedule after an instant, found by looking at every minute. Minutes before the instant show which wall-clock
/// times have passed already.
fn fires(case: &Case, minutes: &[(DateTime<Utc>, NaiveDateTime)], from: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let (_, follows, matches) = case;
    let mut fired = BTreeMap::new();
    let mut seen: Vec<NaiveDateTime> = Vec::new();
    let mut previous = minutes[0].1 - Duration::minutes(1);
    for &(at, now) in minutes {
        if *follows {
            if matches(now) {
                fired.insert(at, ());
            }
        } else {
            // A time that the clock jumped over is due now; one that it shows a second time is not.
            let mut skipped = previous + Duration::minutes(1);
            while skipped < now {
                if matches(skipped) {
                    fired.insert(at, ());
                }
                skipped += Duration::minutes(1);
            }
            if matches(now) && !seen.contains(&now) {
                fired.insert(at, ());
                seen.push(now);
            }
        }
        previous = now;
    }
    fired.into_keys().filter(|&at| at > from).collect()
}

/// Compares around every change of the zone; returns the number of comparisons.
fn compare(zone: Tz) -> usize {
    let specs: Vec<CronSpec> = CASES.iter().map(|(text, ..)| CronSpec::parse_in(text, zone).expect(text)).collect();
    let mut compared = 0;
    let mut days = changes(zone);
    // A zone without changes is compared on an ordinary day.
    if days.is_empty() {
        days.push(time("2030-03-31T12:00:00Z"));
    }
    for change in days {
        let (from, to) = (change - Duration::hours(5), change + Duration::hours(29));
        let minutes = minutes(zone, from - Duration::hours(26), to);
        for (case, spec) in CASES.iter().zip(&specs) {
            let expected = fires(case, &minutes, from);
            // Starts at minutes and seconds on both sides of the change.
            let mut at = from;
            while at < change + Duration::hours(5) {
                for start in [at, at + Duration::seconds(1), at + Duration::seconds(59)] {
                    let due = expected.iter().copied().find(|&due| due > start);
                    let next = spec.next_after(start).filter(|&next| next <= to);
                    assert_eq!(next, due, "{} in {zone} after {start}", case.0);
                    compared += 1;
                }
                at += Duration::minutes(17);
            }
        }
    }
    compared
}

#[test]
fn next_after_agrees_with_a_look_at_every_minute() {
    let all = std::env::var("ASYNQ_CRON_ORACLE").is_ok_and(|which| which == "all");
    let zones: Vec<Tz> =
        if all { TZ_VARIANTS.to_vec() } else { SELECTION.iter().map(|name| name.parse().expect(name)).collect() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let compared: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let mine: Vec<Tz> = zones.iter().copied().skip(n).step_by(threads).collect();
                scope.spawn(move || mine.into_iter().map(compare).sum::<usize>())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no mismatch")).sum()
    });
    println!("{compared} comparisons in {} zones, 0 mismatches", zones.len());
    assert!(compared >= 200_000, "only {compared} comparisons");
}

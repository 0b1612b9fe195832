//! The next time in a zone whose clock jumps.

use std::time::Duration;

use asynq_grammar::cron::{Civil, Fields};
use chrono::{
    DateTime, Datelike as _, MappedLocalTime, NaiveDate, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _,
    Timelike as _, Utc,
};
use chrono_tz::{GapInfo, Tz};

/// A safety limit: no schedule needs so many candidates; a gap of a day has 86,400 of them.
const MOST_CANDIDATES: usize = 200_000;

/// The first instant after `after` at which the clocks of `zone` match `fields`.
pub(super) fn after(fields: &Fields, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let follows = fields.follows_the_clock();
    let local = local(zone, after)?;
    let next = |from| {
        candidates(fields, from).find_map(|civil| {
            let instant = if follows { next_pass(zone, civil, after) } else { once(zone, civil) };
            instant.filter(|&instant| instant > after)
        })
    };
    let first = next(local);
    // In the first pass of an overlap, wall-clock times that have passed come again.
    let begins = second_pass_begins(zone, after).filter(|_| follows);
    let again = begins.and_then(|begins| next(begins.checked_sub_signed(TimeDelta::seconds(1))?));
    [first, again].into_iter().flatten().min()
}

/// The first multiple of `interval` since the Unix epoch after `after`.
pub(super) fn multiple_after(interval: Duration, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let interval = i64::try_from(interval.as_secs()).ok().filter(|&seconds| seconds > 0)?;
    let next = after.timestamp().div_euclid(interval).checked_add(1)?.checked_mul(interval)?;
    DateTime::from_timestamp(next, 0)
}

/// The wall-clock times that match, from the second after `from` on.
fn candidates(fields: &Fields, from: NaiveDateTime) -> impl Iterator<Item = NaiveDateTime> {
    let first = fields.next_civil(to_civil(from));
    std::iter::successors(first, |&civil| fields.next_civil(civil)).map_while(to_naive).take(MOST_CANDIDATES)
}

/// The instant of a wall-clock time that counts once: the first of two, and the end of the gap for a time that does not
/// exist.
fn once(zone: Tz, civil: NaiveDateTime) -> Option<DateTime<Utc>> {
    match zone.from_local_datetime(&civil) {
        MappedLocalTime::Single(instant) | MappedLocalTime::Ambiguous(instant, _) => Some(instant.to_utc()),
        MappedLocalTime::None => GapInfo::new(&civil, &zone)?.end.map(|end| end.to_utc()),
    }
}

/// The first instant after `after` at which the clock shows `civil`, if there is one.
fn next_pass(zone: Tz, civil: NaiveDateTime, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    match zone.from_local_datetime(&civil) {
        MappedLocalTime::Single(instant) => Some(instant.to_utc()),
        MappedLocalTime::Ambiguous(first, second) => {
            [first, second].into_iter().map(|pass| pass.to_utc()).find(|&pass| pass > after)
        }
        MappedLocalTime::None => None,
    }
}

/// If `instant` is in the first pass of an overlap: the wall clock at the beginning of the second pass.
fn second_pass_begins(zone: Tz, instant: DateTime<Utc>) -> Option<NaiveDateTime> {
    let offset = |at: i64| {
        let naive = DateTime::from_timestamp(at, 0)?.naive_utc();
        Some(i64::from(zone.offset_from_utc_datetime(&naive).fix().local_minus_utc()))
    };
    let wall = local(zone, instant)?;
    let MappedLocalTime::Ambiguous(first, second) = zone.from_local_datetime(&wall) else { return None };
    if first.timestamp() != instant.timestamp() {
        return None;
    }
    // The clock goes back at an instant between the two.
    let (mut before, mut since) = (first.timestamp(), second.timestamp());
    let (early, late) = (offset(before)?, offset(since)?);
    while since - before > 1 {
        let middle = before + (since - before) / 2;
        if offset(middle)? == early { before = middle } else { since = middle }
    }
    Some(DateTime::from_timestamp(since + late, 0)?.naive_utc())
}

/// The wall clock at `instant`, without the fraction of the second.
fn local(zone: Tz, instant: DateTime<Utc>) -> Option<NaiveDateTime> {
    let offset = zone.offset_from_utc_datetime(&instant.naive_utc()).fix();
    instant.naive_utc().checked_add_offset(offset)?.with_nanosecond(0)
}

fn to_civil(at: NaiveDateTime) -> Civil {
    Civil {
        year: at.year(),
        month: at.month(),
        day: at.day(),
        hour: at.hour(),
        minute: at.minute(),
        second: at.second(),
    }
}

fn to_naive(at: Civil) -> Option<NaiveDateTime> {
    NaiveDate::from_ymd_opt(at.year, at.month, at.day)?.and_hms_opt(at.hour, at.minute, at.second)
}

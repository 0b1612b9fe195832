//! Decides which missed ticks are fired: a pure function of schedule, policy and two moments.

use std::collections::VecDeque;

use asynq_grammar::cron::MOST_REPLAYED;
use chrono::{DateTime, TimeDelta, Utc};

use crate::CronSpec;

/// The policy for ticks that were not fired in time, because no scheduler ran or the broker was away.
///
/// A tick that is late by less than a minute and less than its interval is on time, and the policy does not apply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Missed {
    /// Missed ticks are passed over.
    Skip,
    /// The newest missed tick is fired for all of them; [`Tick::missed`](crate::Tick::missed) is the number of the others. The
    /// default.
    #[default]
    Once,
    /// This many of the newest missed ticks are fired, the oldest first: at most 10,000, and one for 0, which the attribute refuses.
    All(u32),
}

/// Most ticks that are counted; a larger number is reported as this one.
const MOST_COUNTED: usize = 10_000;
/// A tick that is later than this was missed, however long its interval.
const ON_TIME: TimeDelta = TimeDelta::seconds(60);

/// A tick that should be fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fire {
    /// The time that the tick is for.
    pub(crate) at: DateTime<Utc>,
    /// How many ticks before this one were left out.
    pub(crate) missed: u64,
}

/// The ticks of a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Due {
    /// The ticks to fire, the oldest first.
    pub(crate) fires: VecDeque<Fire>,
    /// The newest of all, fired or not.
    pub(crate) newest: Option<DateTime<Utc>>,
    /// How many ticks are left out if none is fired; otherwise [`Fire::missed`] says so.
    pub(crate) passed_over: u64,
}

/// A function that returns the first tick after an instant.
type Next<'a> = &'a dyn Fn(DateTime<Utc>) -> Option<DateTime<Utc>>;

/// Decides about the ticks later than `last`, up to `now`.
pub(crate) fn due(spec: &CronSpec, missed: Missed, last: DateTime<Utc>, now: DateTime<Utc>) -> Due {
    due_by(&|after| spec.next_after(after), missed, last, now)
}

/// Decides as [`due`] does. Leases are extended on the same thread, so that `next` is called about three times for each tick that is
/// counted or fired, however long the span is. Ticks with more than two distances, such as those of `0,5,20 * * * *`, take more
/// calls: the third distance is bisected.
fn due_by(next: Next<'_>, missed: Missed, last: DateTime<Utc>, now: DateTime<Utc>) -> Due {
    let Some(first) = next(last).filter(|&first| first <= now) else { return Due::default() };
    let newest = newest(next, first, now);
    let most = match missed {
        Missed::Skip if !is_recent(newest, next(newest), now) => 0,
        Missed::Skip | Missed::Once => 1,
        Missed::All(n) => n.clamp(1, MOST_REPLAYED) as usize,
    };
    let mut counted: VecDeque<_> = ticks(next, first, newest).take(MOST_COUNTED).collect();
    let count = counted.len();
    let fired = match most {
        0 => VecDeque::new(),
        _ if count < MOST_COUNTED => counted.split_off(count.saturating_sub(most)),
        _ => newest_of(next, first, newest, most),
    };
    let mut fires: VecDeque<_> = fired.into_iter().map(|at| Fire { at, missed: 0 }).collect();
    let left_out = count.saturating_sub(fires.len()) as u64;
    if let Some(oldest) = fires.front_mut() {
        oldest.missed = left_out;
    }
    let passed_over = if fires.is_empty() { left_out } else { 0 };
    Due { fires, newest: Some(newest), passed_over }
}

/// Whether a tick that is sent now is on time.
pub(crate) fn is_on_time(spec: &CronSpec, tick: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    is_recent(tick, spec.next_after(tick), now)
}

/// Whether a tick is on time, where `next` is the one after it.
fn is_recent(tick: DateTime<Utc>, next: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    let interval = next.map_or(TimeDelta::MAX, |next| next - tick);
    now - tick < interval.min(ON_TIME)
}

fn ticks(next: Next<'_>, first: DateTime<Utc>, newest: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    std::iter::successors(Some(first), move |&at| next(at)).take_while(move |&at| at <= newest)
}

/// The newest `n` ticks of a span too long to walk through, found from its end. Most ticks have one of the last two distances between
/// those after them, so the one before is looked for there first. The shorter distance comes first, because the longer one may pass
/// over several ticks.
fn newest_of(next: Next<'_>, first: DateTime<Utc>, last: DateTime<Utc>, n: usize) -> VecDeque<DateTime<Utc>> {
    let second = TimeDelta::seconds(1);
    let (mut found, mut at) = (VecDeque::from([last]), last);
    let (mut distance, mut other) = (second, second);
    while found.len() < n && at > first {
        let near = |distance: TimeDelta| {
            let near = at.checked_sub_signed(distance + second).and_then(next);
            near.filter(|&near| first <= near && near < at)
        };
        let known = [distance.min(other), distance.max(other)].into_iter().find_map(near).unwrap_or(first);
        let before = newest(next, known, at - second);
        if at - before != distance {
            (distance, other) = (at - before, distance);
        }
        at = before;
        found.push_front(at);
    }
    found
}

/// The last tick up to `now`, where `known` is one: bisected, because a week has 604,800 seconds.
fn newest(next: Next<'_>, known: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    let Some(second) = next(known).filter(|&second| second <= now) else { return known };
    let (mut found, mut upper) = (second, now.timestamp());
    while found.timestamp() < upper {
        let middle = found.timestamp() + (upper - found.timestamp()) / 2;
        let next = DateTime::from_timestamp(middle, 0).and_then(next);
        match next.filter(|&next| next <= now && next > found) {
            Some(next) => found = next,
            None => upper = middle,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use asynq_test_support::eventually_blocking;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    fn fires(spec: &str, missed: Missed, last: &str, now: &str) -> Vec<(String, u64)> {
        let due = due(&CronSpec::parse(spec).expect(spec), missed, at(last), at(now));
        due.fires.iter().map(|fire| (fire.at.format("%dT%H:%M:%S").to_string(), fire.missed)).collect()
    }

    #[test]
    fn each_policy_fires_its_missed_ticks() {
        let hourly = "0 * * * *";
        let (last, now) = ("2026-03-01T00:00:00Z", "2026-03-01T05:30:00Z");
        assert_eq!(fires(hourly, Missed::Skip, last, now), []);
        assert_eq!(fires(hourly, Missed::Once, last, now), [("01T05:00:00".to_owned(), 4)]);
        let three = [("01T03:00:00".to_owned(), 2), ("01T04:00:00".to_owned(), 0), ("01T05:00:00".to_owned(), 0)];
        assert_eq!(fires(hourly, Missed::All(3), last, now), three);
        assert_eq!(fires(hourly, Missed::All(100), last, now).len(), 5);
        // No tick is due, or `last` is in the future.
        for missed in [Missed::Skip, Missed::Once, Missed::All(3)] {
            assert_eq!(fires(hourly, missed, last, "2026-03-01T00:59:59Z"), []);
            assert_eq!(fires(hourly, missed, now, last), []);
        }
    }

    #[test]
    fn a_little_late_is_on_time() {
        for (spec, last, now, expected) in [
            ("0 * * * *", "2026-03-01T00:00:00Z", "2026-03-01T01:00:59Z", true),
            ("0 * * * *", "2026-03-01T00:00:00Z", "2026-03-01T01:01:00Z", false),
            // The tick that is on time is fired, the others are not.
            ("0 * * * *", "2026-03-01T00:00:00Z", "2026-03-01T09:00:02Z", true),
            // The interval is shorter than a minute, so the newest tick is always on time.
            ("@every 5s", "2026-03-01T00:00:00Z", "2026-03-01T00:00:09.9Z", true),
            ("* * * * * *", "2026-03-01T00:00:00Z", "2026-03-08T00:00:00.5Z", true),
        ] {
            assert_eq!(fires(spec, Missed::Skip, last, now).len(), usize::from(expected), "{spec} {now}");
        }
    }

    #[test]
    fn a_week_of_seconds_is_counted_no_further_than_it_matters() {
        let (last, now) = ("2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z");
        assert_eq!(fires("* * * * * *", Missed::Once, last, now), [("08T00:00:00".to_owned(), 9_999)]);
        let all = fires("* * * * * *", Missed::All(100), last, now);
        assert_eq!(
            (all.len(), all[0].clone(), all[99].0.as_str()),
            (100, ("07T23:58:21".to_owned(), 9_900), "08T00:00:00")
        );
    }

    #[test]
    fn a_century_of_seconds_is_not_walked_through() {
        // Three thousand million ticks would take far longer than the wait.
        let (last, now) = ("1926-03-01T00:00:00Z", "2026-03-01T00:00:00Z");
        let fires = std::thread::spawn(move || fires("* * * * * *", Missed::All(100), last, now));
        eventually_blocking("the newest ticks are found", || fires.is_finished().then_some(()));
        let fires = fires.join().expect("the newest ticks");
        assert_eq!((fires.len(), &fires[0]), (100, &("28T23:58:21".to_owned(), 9_900)));
    }

    #[test]
    fn bursts_and_gaps_lose_none() {
        // Every second of one hour a day: bisecting must not jump over the hour.
        let spec = "* * 3 * * *";
        let (last, now) = ("2026-03-01T00:00:00Z", "2026-03-20T02:00:00Z");
        let all = fires(spec, Missed::All(3_601), last, now);
        assert_eq!((all.len(), all[0].0.as_str(), all[1].0.as_str()), (3_601, "18T03:59:59", "19T03:00:00"));
        assert_eq!(all[3_600].0, "19T03:59:59");
        assert_eq!(fires(spec, Missed::Once, last, now)[0].0, "19T03:59:59");
        // The bisection agrees with a walk.
        for spec in [
            "*/7 * * * *",
            "0 9 * * mon-fri",
            "TZ=Europe/Berlin 30 2 * * *",
            "0 0 L * *",
            "@every 37s",
            "TZ=Europe/Berlin * * * * *",
            "* 3 * * *",
            "0,5 * * * *",
        ] {
            let spec = CronSpec::parse(spec).expect(spec);
            let next = |after| spec.next_after(after);
            let (last, now) = (at("2026-03-20T00:00:00Z"), at("2026-03-31T12:34:56Z"));
            let walked: Vec<_> = ticks(&next, next(last).expect("a tick"), now).collect();
            let expected = walked.last().copied();
            assert_eq!(due(&spec, Missed::Once, last, now).newest, expected, "{spec}");
            let n = walked.len().min(500);
            let bisected = newest_of(&next, walked[0], walked[walked.len() - 1], n);
            assert!(bisected.iter().eq(&walked[walked.len() - n..]), "{spec}");
        }
    }

    #[test]
    fn a_long_span_takes_a_few_steps_for_each_tick_that_is_counted_or_fired() {
        let minutes = "TZ=Europe/Berlin * * * * *";
        let (seconds, bursts) = ("TZ=Europe/Berlin * * * * * *", "TZ=Europe/Berlin * * 3 * * *");
        for (spec, days, missed, fired, most) in [
            (CronSpec::parse(minutes), 5, Missed::All(10_000), 7_200, 7_300),
            (CronSpec::parse(seconds), 7, Missed::Once, 1, 10_100),
            (CronSpec::parse(seconds), 7, Missed::All(10_000), 10_000, 30_100),
            (CronSpec::parse(bursts), 7, Missed::All(10_000), 10_000, 30_300),
            (CronSpec::parse_compat(minutes), 8, Missed::All(1_000), 1_000, 13_100),
            (CronSpec::parse("0,5 * * * *"), 300, Missed::All(1_000), 1_000, 12_700),
        ] {
            let (spec, steps) = (spec.expect("a schedule"), Cell::new(0));
            let next = |after| {
                steps.set(steps.get() + 1);
                spec.next_after(after)
            };
            let last = at("2026-03-01T00:00:00Z");
            let due = due_by(&next, missed, last, last + TimeDelta::days(days));
            assert_eq!(due.fires.len(), fired, "{spec} {missed:?}");
            assert!(steps.get() <= most, "{spec} {missed:?}: {} steps", steps.get());
        }
    }

    #[test]
    fn nights_when_the_clock_jumps_have_one_run() {
        for (spec, last, now, expected) in [
            // 02:30 does not exist in Berlin on 29 March 2026.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", vec!["29T01:00:00"]),
            // 02:30 comes twice on 25 October.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-24T00:30:00Z", "2026-10-25T12:00:00Z", vec!["25T00:30:00"]),
            ("TZ=Europe/Berlin */20 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", vec!["29T01:00:00"]),
            (
                "TZ=Europe/Berlin 0 */1 * * *",
                "2026-10-24T23:30:00Z",
                "2026-10-25T02:30:00Z",
                vec!["25T00:00:00", "25T01:00:00", "25T02:00:00"],
            ),
        ] {
            let fired: Vec<_> = fires(spec, Missed::All(10), last, now).into_iter().map(|(at, _)| at).collect();
            assert_eq!(fired, expected, "{spec}");
        }
    }
}

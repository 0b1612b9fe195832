//! Decides which missed ticks are fired: a pure function of schedule, policy and two moments.

use std::collections::VecDeque;

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
    /// This many of the newest missed ticks are fired, the oldest first: at least 1, at most 10,000.
    All(u32),
}

/// Most missed ticks that are fired one by one.
const MOST_REPLAYED: u32 = 10_000;
/// Most ticks that are counted; a larger number is reported as this one.
const MOST_COUNTED: u64 = 10_000;
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

/// Decides about the ticks later than `last`, up to `now`.
pub(crate) fn due(spec: &CronSpec, missed: Missed, last: DateTime<Utc>, now: DateTime<Utc>) -> Due {
    let Some(first) = spec.next_after(last).filter(|&first| first <= now) else { return Due::default() };
    let newest = match spec.next_after(first).filter(|&second| second <= now) {
        None => first,
        Some(second) => newest(spec, second, now),
    };
    let most = match missed {
        Missed::Skip if !is_on_time(spec, newest, now) => 0,
        Missed::Skip | Missed::Once => 1,
        Missed::All(n) => n.clamp(1, MOST_REPLAYED) as usize,
    };
    let count = ticks(spec, first, newest).take(MOST_COUNTED as usize).count();
    let mut fires = match most {
        0 => VecDeque::new(),
        _ if count < MOST_COUNTED as usize => {
            let skipped = count.saturating_sub(most);
            ticks(spec, first, newest).skip(skipped).map(|at| Fire { at, missed: 0 }).collect()
        }
        _ => newest_of(spec, first, newest, most),
    };
    let left_out = count.saturating_sub(fires.len()) as u64;
    if let Some(oldest) = fires.front_mut() {
        oldest.missed = left_out;
    }
    let passed_over = if fires.is_empty() { left_out } else { 0 };
    Due { fires, newest: Some(newest), passed_over }
}

/// Whether a tick that is sent now is on time.
pub(crate) fn is_on_time(spec: &CronSpec, tick: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let interval = spec.next_after(tick).map_or(TimeDelta::MAX, |next| next - tick);
    now - tick < interval.min(ON_TIME)
}

fn ticks(spec: &CronSpec, first: DateTime<Utc>, newest: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    std::iter::successors(Some(first), |&at| spec.next_after(at)).take_while(move |&at| at <= newest)
}

/// The newest `n` ticks of a span too long to walk through, found from its end.
fn newest_of(spec: &CronSpec, first: DateTime<Utc>, last: DateTime<Utc>, n: usize) -> VecDeque<Fire> {
    let mut fires = VecDeque::new();
    let mut at = last;
    loop {
        fires.push_front(Fire { at, missed: 0 });
        if fires.len() >= n || at <= first {
            return fires;
        }
        at = newest(spec, first, at - TimeDelta::seconds(1));
    }
}

/// The last tick up to `now`, where `known` is one: bisected, because a week has 604,800 seconds.
fn newest(spec: &CronSpec, known: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    let (mut found, mut upper) = (known, now.timestamp());
    while found.timestamp() < upper {
        let middle = found.timestamp() + (upper - found.timestamp()) / 2;
        let next = DateTime::from_timestamp(middle, 0).and_then(|middle| spec.next_after(middle));
        match next.filter(|&next| next <= now && next > found) {
            Some(next) => found = next,
            None => upper = middle,
        }
    }
    found
}

#[cfg(test)]
mod tests {
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
        for spec in ["*/7 * * * *", "0 9 * * mon-fri", "TZ=Europe/Berlin 30 2 * * *", "0 0 L * *", "@every 37s"] {
            let spec = CronSpec::parse(spec).expect(spec);
            let (last, now) = (at("2026-03-20T00:00:00Z"), at("2026-03-31T12:34:56Z"));
            let walked: Vec<_> = ticks(&spec, spec.next_after(last).expect("a tick"), now).collect();
            let expected = walked.last().copied();
            assert_eq!(due(&spec, Missed::Once, last, now).newest, expected, "{spec}");
            let bisected = newest_of(&spec, walked[0], walked[walked.len() - 1], walked.len().min(500));
            let tail = &walked[walked.len() - bisected.len()..];
            assert!(bisected.iter().map(|fire| fire.at).eq(tail.iter().copied()), "{spec}");
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

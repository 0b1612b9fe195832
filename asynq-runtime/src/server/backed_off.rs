//! Groups that could not be aggregated, each backed off for a while that grows.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::task::{GroupName, QueueName};

/// The first back-off of a group, and the longest; it doubles in between.
pub(crate) const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);
/// How many groups are remembered at most; beyond that the group whose back-off ends first is forgotten.
const MOST: usize = 10_000;

/// The groups that are backed off.
#[derive(Debug, Default)]
pub(crate) struct BackedOff(HashMap<(QueueName, GroupName), Rest>);

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    times: u32,
}

impl BackedOff {
    /// Backs off from a group from now on. Returns for how long.
    pub(crate) fn add(&mut self, queue: &QueueName, group: &GroupName, now: Instant) -> Duration {
        let key = (queue.clone(), group.clone());
        let times = self.0.get(&key).map_or(0, |rest| rest.times);
        let pause = pause_after(times);
        if self.0.len() >= MOST
            && !self.0.contains_key(&key)
            && let Some(soonest) = self.0.iter().min_by_key(|(_, rest)| rest.until).map(|(key, _)| key.clone())
        {
            self.0.remove(&soonest);
        }
        self.0.insert(key, Rest { until: now + pause, times: times.saturating_add(1) });
        pause
    }

    /// Returns whether a group is backed off now.
    pub(crate) fn contains(&self, queue: &QueueName, group: &GroupName, now: Instant) -> bool {
        !self.0.is_empty() && self.0.get(&(queue.clone(), group.clone())).is_some_and(|rest| now < rest.until)
    }

    /// Returns whether a group has been backed off as long as any, and may not be for a cause that passes by itself.
    pub(crate) fn is_longest(&self, queue: &QueueName, group: &GroupName) -> bool {
        let rest = self.0.get(&(queue.clone(), group.clone()));
        rest.is_some_and(|rest| pause_after(rest.times) == LONGEST)
    }

    /// Forgets a group after a success: its next back-off is the first again.
    pub(crate) fn forget(&mut self, queue: &QueueName, group: &GroupName) {
        if !self.0.is_empty() {
            self.0.remove(&(queue.clone(), group.clone()));
        }
    }
}

/// Returns for how long a group is backed off that was backed off so many times before.
fn pause_after(times: u32) -> Duration {
    FIRST.saturating_mul(1 << times.min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_backed_off_ever_longer_until_it_works() {
        let mut backed_off = BackedOff::default();
        let (queue, group) = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let mut now = Instant::now();
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            let pause = backed_off.add(&queue, &group, now);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(backed_off.contains(&queue, &group, now + pause - Duration::from_millis(1)));
            assert!(!backed_off.contains(&QueueName::from_wire("other"), &group, now));
            now += pause;
            assert!(!backed_off.contains(&queue, &group, now));
            assert_eq!(
                backed_off.is_longest(&queue, &group),
                seconds >= 320,
                "the next pause is the longest: {seconds}"
            );
        }
        backed_off.forget(&queue, &group);
        assert_eq!(backed_off.add(&queue, &group, now), FIRST);
    }

    #[test]
    fn it_remembers_a_bounded_number_of_groups() {
        let mut backed_off = BackedOff::default();
        let (queue, now) = (QueueName::from_wire("q"), Instant::now());
        let group = |n: usize| GroupName::from_wire(&n.to_string());
        for n in 0..=MOST {
            backed_off.add(&queue, &group(n), now + Duration::from_millis(n as u64));
        }
        assert_eq!(backed_off.0.len(), MOST);
        assert!(!backed_off.contains(&queue, &group(0), now) && backed_off.contains(&queue, &group(MOST), now));
    }
}

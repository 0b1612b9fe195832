//! Groups that could not be aggregated, each backed off for a while that grows.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::task::{GroupName, QueueName, TaskId};

/// The first back-off of a group, and the longest; it doubles in between.
pub(crate) const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);
/// How long a task of an unknown type stays in its group for a server that knows it.
const STRANDED: Duration = Duration::from_secs(1_200);
/// How many groups are remembered at most; beyond that the group whose back-off ends first is forgotten.
const MOST: usize = 10_000;

/// The groups that are backed off.
#[derive(Debug, Default)]
pub(crate) struct BackedOff(HashMap<(QueueName, GroupName), Rest>);

#[derive(Debug, Clone)]
struct Rest {
    until: Instant,
    times: u32,
    /// A task of each unknown type, and when it was seen first.
    unknown: Vec<(TaskId, Instant)>,
}

impl BackedOff {
    /// Backs off from a group from now on, whose set has these tasks of unknown types, one of each; none if the types are not the
    /// reason. Returns for how long.
    pub(crate) fn add(&mut self, queue: &QueueName, group: &GroupName, unknown: Vec<TaskId>, now: Instant) -> Duration {
        let key = (queue.clone(), group.clone());
        let before = self.0.get(&key);
        let times = before.map_or(0, |rest| rest.times);
        let known = before.map_or(&[][..], |rest| &rest.unknown);
        let since = |id: &TaskId| known.iter().find(|(known, _)| known == id).map_or(now, |&(_, since)| since);
        let seen = unknown.into_iter().map(|id| (since(&id), id)).map(|(since, id)| (id, since)).collect::<Vec<_>>();
        let unknown = if seen.is_empty() { known.to_vec() } else { seen };
        let pause = FIRST.saturating_mul(1 << times.min(10)).min(LONGEST);
        if self.0.len() >= MOST
            && !self.0.contains_key(&key)
            && let Some(soonest) = self.0.iter().min_by_key(|(_, rest)| rest.until).map(|(key, _)| key.clone())
        {
            self.0.remove(&soonest);
        }
        self.0.insert(key, Rest { until: now + pause, times: times.saturating_add(1), unknown });
        pause
    }

    /// Returns whether a group is backed off now.
    pub(crate) fn contains(&self, queue: &QueueName, group: &GroupName, now: Instant) -> bool {
        !self.0.is_empty() && self.0.get(&(queue.clone(), group.clone())).is_some_and(|rest| now < rest.until)
    }

    /// Returns the tasks of unknown types that have been in the group for so long that no other server seems to know them.
    pub(crate) fn stranded(&self, queue: &QueueName, group: &GroupName, now: Instant) -> Vec<TaskId> {
        let unknown = self.0.get(&(queue.clone(), group.clone())).map_or(&[][..], |rest| &rest.unknown);
        unknown.iter().filter(|(_, since)| now - *since >= STRANDED).map(|(id, _)| id.clone()).collect()
    }

    /// Returns whether the last set of a group failed.
    pub(crate) fn has(&self, queue: &QueueName, group: &GroupName) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(queue.clone(), group.clone()))
    }

    /// Forgets a group after a success: its next back-off is the first again.
    pub(crate) fn forget(&mut self, queue: &QueueName, group: &GroupName) {
        if !self.0.is_empty() {
            self.0.remove(&(queue.clone(), group.clone()));
        }
    }
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
            let pause = backed_off.add(&queue, &group, Vec::new(), now);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(backed_off.contains(&queue, &group, now + pause - Duration::from_millis(1)));
            assert!(!backed_off.contains(&QueueName::from_wire("other"), &group, now));
            now += pause;
            assert!(!backed_off.contains(&queue, &group, now));
        }
        backed_off.forget(&queue, &group);
        assert_eq!(backed_off.add(&queue, &group, Vec::new(), now), FIRST);
    }

    #[test]
    fn a_task_of_an_unknown_type_is_stranded_when_it_was_there_at_every_try_for_twenty_minutes() {
        let mut backed_off = BackedOff::default();
        let (queue, group) = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let begun = Instant::now();
        let mut look = |seconds, unknown: &[&str]| {
            let now = begun + Duration::from_secs(seconds);
            let stranded = backed_off.stranded(&queue, &group, now);
            backed_off.add(&queue, &group, unknown.iter().map(|id| TaskId::from_wire(id)).collect(), now);
            stranded.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        // Another server has taken the first task before the third look; a broker that fails, or a type that is new, begins no time anew.
        assert_eq!(look(0, &["taken", "left"]), [""; 0]);
        assert_eq!(look(600, &[]), [""; 0]);
        assert_eq!(look(1_199, &["new", "left"]), [""; 0]);
        assert_eq!(look(1_200, &["new", "left"]), ["left"]);
        assert_eq!(look(2_399, &["new"]), ["new", "left"]);
        assert_eq!(look(2_400, &["new"]), ["new"]);
        backed_off.forget(&queue, &group);
        assert!(
            backed_off.stranded(&queue, &group, begun + STRANDED * 9).is_empty() && !backed_off.has(&queue, &group)
        );
    }

    #[test]
    fn it_remembers_a_bounded_number_of_groups() {
        let mut backed_off = BackedOff::default();
        let (queue, now) = (QueueName::from_wire("q"), Instant::now());
        let group = |n: usize| GroupName::from_wire(&n.to_string());
        for n in 0..=MOST {
            backed_off.add(&queue, &group(n), Vec::new(), now + Duration::from_millis(n as u64));
        }
        assert_eq!(backed_off.0.len(), MOST);
        assert!(!backed_off.contains(&queue, &group(0), now) && backed_off.contains(&queue, &group(MOST), now));
    }
}

//! Groups that could not be aggregated, each backed off for a while that grows.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    pause::doubled,
    task::{GroupName, QueueName, TaskId},
};

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
    /// The unknown types among its tasks: the first task of each, and since when it is there.
    unknown: BTreeMap<String, (TaskId, Instant)>,
}

impl BackedOff {
    /// Backs off from a group from now on, where these unknown types were seen, each with its first task; none if another reason made
    /// the set fail. Returns for how long.
    pub(crate) fn add(
        &mut self,
        queue: &QueueName,
        group: &GroupName,
        unknown: BTreeMap<String, TaskId>,
        now: Instant,
    ) -> Duration {
        let key = (queue.clone(), group.clone());
        let (times, known) = self.0.remove(&key).map_or_else(Default::default, |rest| (rest.times, rest.unknown));
        // The task of a type that is stranded may have left: those behind it are stranded as well.
        let since = |r#type: &String, id: &TaskId| {
            known
                .get(r#type)
                .filter(|(known, since)| known == id || is_stranded(*since, now))
                .map_or(now, |known| known.1)
        };
        let seen: BTreeMap<_, _> = unknown
            .into_iter()
            .map(|(r#type, id)| {
                let since = since(&r#type, &id);
                (r#type, (id, since))
            })
            .collect();
        let unknown = if seen.is_empty() { known } else { seen };
        let pause = doubled(FIRST, times, LONGEST);
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

    /// Returns the types that have been unknown in the group for so long that no other server seems to know them.
    pub(crate) fn stranded(&self, queue: &QueueName, group: &GroupName, now: Instant) -> Vec<String> {
        let Some(rest) = self.0.get(&(queue.clone(), group.clone())) else { return Vec::new() };
        let stranded = rest.unknown.iter().filter(|(_, (_, since))| is_stranded(*since, now));
        stranded.map(|(r#type, _)| r#type.clone()).collect()
    }

    /// Ends the back-off of a group whose stranded tasks have left it, and remembers their types for the tasks behind them.
    pub(crate) fn go_on(&mut self, queue: &QueueName, group: &GroupName, now: Instant) {
        if let Some(rest) = self.0.get_mut(&(queue.clone(), group.clone())) {
            (rest.until, rest.times) = (now, 0);
        }
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

fn is_stranded(since: Instant, now: Instant) -> bool {
    now - since >= STRANDED
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
            let pause = backed_off.add(&queue, &group, BTreeMap::new(), now);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(backed_off.contains(&queue, &group, now + pause - Duration::from_millis(1)));
            assert!(!backed_off.contains(&QueueName::from_wire("other"), &group, now));
            now += pause;
            assert!(!backed_off.contains(&queue, &group, now));
        }
        backed_off.forget(&queue, &group);
        assert_eq!(backed_off.add(&queue, &group, BTreeMap::new(), now), FIRST);
    }

    #[test]
    fn a_type_is_stranded_when_one_task_of_it_was_there_at_every_look_for_twenty_minutes() {
        let mut backed_off = BackedOff::default();
        let (queue, group) = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut look = |seconds, unknown: &[(&str, &str)]| {
            let stranded = backed_off.stranded(&queue, &group, at(seconds));
            let unknown = unknown.iter().map(|(r#type, id)| ((*r#type).to_owned(), TaskId::from_wire(id))).collect();
            backed_off.add(&queue, &group, unknown, at(seconds));
            stranded
        };
        // Another server takes the tasks of the type `served`; a broker that fails begins no time anew.
        assert_eq!(look(0, &[("left", "1"), ("served", "2")]), [""; 0]);
        assert_eq!(look(600, &[]), [""; 0]);
        assert_eq!(look(1_199, &[("left", "1"), ("served", "3")]), [""; 0]);
        assert_eq!(look(1_200, &[("left", "1"), ("served", "3")]), ["left"]);
        // The first task has left, and the type is stranded all the same.
        assert_eq!(look(1_300, &[("left", "4"), ("served", "5")]), ["left"]);
        assert_eq!(look(2_499, &[("left", "4"), ("served", "5")]), ["left"]);
        assert_eq!(look(2_500, &[("left", "4"), ("served", "5")]), ["left", "served"]);
        backed_off.go_on(&queue, &group, at(2_500));
        assert!(!backed_off.contains(&queue, &group, at(2_500)));
        assert_eq!(backed_off.stranded(&queue, &group, at(2_500)), ["left", "served"]);
        backed_off.forget(&queue, &group);
        assert!(backed_off.stranded(&queue, &group, at(9_000)).is_empty() && !backed_off.has(&queue, &group));
    }

    #[test]
    fn it_remembers_a_bounded_number_of_groups() {
        let mut backed_off = BackedOff::default();
        let (queue, now) = (QueueName::from_wire("q"), Instant::now());
        let group = |n: usize| GroupName::from_wire(&n.to_string());
        for n in 0..=MOST {
            backed_off.add(&queue, &group(n), BTreeMap::new(), now + Duration::from_millis(n as u64));
        }
        assert_eq!(backed_off.0.len(), MOST);
        assert!(!backed_off.contains(&queue, &group(0), now) && backed_off.contains(&queue, &group(MOST), now));
    }
}

//! Groups that could not be aggregated, each backed off for a while that grows, and the types that nothing seems to take out of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    pause::doubled,
    task::{GroupName, QueueName, TaskId},
};

/// The first back-off of a group, and the longest; it doubles in between.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);
/// How long a task of an unknown type stays in its group for a server that takes it.
const STRANDED: Duration = Duration::from_secs(1_200);
/// How many groups are remembered at most; further groups are looked at once in each pass until there is room for them.
const MOST: usize = 10_000;
/// How many unknown types are remembered as warned about.
const WARNED: usize = 1_000;

/// A group with its queue.
pub(crate) type GroupKey = (QueueName, GroupName);

/// The groups that are backed off.
#[derive(Debug, Default)]
pub(crate) struct BackedOff {
    groups: HashMap<GroupKey, BackedOffGroup>,
    /// The groups that have failed in this pass, and for which there was no room.
    passed_over: HashSet<GroupKey>,
    /// The unknown types that were warned about, each with its queue.
    warned: HashSet<(QueueName, String)>,
}

#[derive(Debug, Clone)]
struct BackedOffGroup {
    until: Instant,
    times: u32,
    /// The unknown types among its tasks.
    unknown: BTreeMap<String, UnknownType>,
}

/// The findings of the looks at a group about one unknown type.
#[derive(Debug, Clone)]
enum UnknownType {
    /// The first task of the type, and since when each look has found that task: no other server has taken it since.
    First(TaskId, Instant),
    /// The tasks of the type have left as stranded; until this moment those behind them follow at once.
    Left(Instant),
}

/// The types of one group that are stranded: no other server seems to take their tasks, so they run alone. Each is there with the
/// task that shows it, and holds only for a set with that task; with `None` such tasks have just left, and those behind them follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stranded(BTreeMap<String, Option<TaskId>>);

impl Stranded {
    /// Returns whether tasks of this type are stranded in a set that has the task `id` of them.
    pub(crate) fn has(&self, r#type: &str, id: &TaskId) -> bool {
        self.0.get(r#type).is_some_and(|shown| shown.as_ref().is_none_or(|shown| shown == id))
    }
}

impl BackedOff {
    /// Begins a pass over all groups: those that were passed over are looked at again.
    pub(crate) fn begin_pass(&mut self, now: Instant) {
        self.passed_over.clear();
        if self.groups.len() >= MOST {
            // A group that was not looked at for so long after its back-off has no ripe tasks any more.
            self.groups.retain(|_, rest| now < rest.until + LONGEST);
        }
    }

    /// Backs off from a group from now on, where these unknown types were seen, each with its first task; none if another reason made
    /// the set fail. Returns for how long; `None` for the rest of the pass, where too many groups are backed off.
    pub(crate) fn add(
        &mut self,
        group: &GroupKey,
        unknown: BTreeMap<String, TaskId>,
        now: Instant,
    ) -> Option<Duration> {
        let (times, known) = self.groups.remove(group).map_or_else(Default::default, |rest| (rest.times, rest.unknown));
        let seen = |(r#type, id): (String, TaskId)| {
            let seen = match known.get(&r#type) {
                Some(UnknownType::Left(until)) if now < *until => UnknownType::Left(*until),
                Some(UnknownType::First(first, since)) if *first == id => UnknownType::First(id, *since),
                _ => UnknownType::First(id, now),
            };
            (r#type, seen)
        };
        let noted: BTreeMap<_, _> = unknown.into_iter().map(seen).collect();
        let unknown = if noted.is_empty() { known } else { noted };
        let pause = doubled(FIRST, times, LONGEST);
        if self.groups.len() >= MOST {
            // In place of another group, this one would make that group begin anew, and that one the next: no type would ever be stranded.
            self.passed_over.insert(group.clone());
            return None;
        }
        let backed_off = BackedOffGroup { until: now + pause, times: times.saturating_add(1), unknown };
        self.groups.insert(group.clone(), backed_off);
        Some(pause)
    }

    /// Notes that these unknown types are warned about. Returns whether one of them was not before: a queue may have very many groups of
    /// one type, one for each user for example, and it is as it should be that another server aggregates all of them.
    pub(crate) fn warn_of(&mut self, queue: &QueueName, unknown: &BTreeMap<String, TaskId>) -> bool {
        let mut has_new = false;
        for r#type in unknown.keys() {
            has_new |= self.warned.len() < WARNED && self.warned.insert((queue.clone(), r#type.clone()));
        }
        has_new
    }

    /// Returns whether a group is backed off now.
    pub(crate) fn contains(&self, group: &GroupKey, now: Instant) -> bool {
        self.groups.get(group).map_or_else(|| self.passed_over.contains(group), |rest| now < rest.until)
    }

    /// Returns the types that are stranded in the group: of each, one task was there at every look for so long that no other server
    /// seems to take it. The time alone shows nothing, because two looks may lie a day apart, and other tasks be there.
    pub(crate) fn stranded(&self, group: &GroupKey, now: Instant) -> Stranded {
        let Some(rest) = self.groups.get(group) else { return Stranded::default() };
        let shown = |seen: &UnknownType| match seen {
            UnknownType::First(first, since) => (now - *since >= STRANDED).then(|| Some(first.clone())),
            UnknownType::Left(until) => (now < *until).then_some(None),
        };
        Stranded(rest.unknown.iter().filter_map(|(r#type, seen)| Some((r#type.clone(), shown(seen)?))).collect())
    }

    /// Ends the back-off of a group that the stranded tasks of the types `left` have left, and lets the tasks behind them follow for a
    /// while. After that the types are watched anew, because another server may take their tasks by then. Returns whether such a while
    /// begins.
    pub(crate) fn go_on(&mut self, group: &GroupKey, left: &BTreeSet<String>, now: Instant) -> bool {
        let mut begins = false;
        if let Some(rest) = self.groups.get_mut(group) {
            (rest.until, rest.times) = (now, 0);
            for (r#type, seen) in &mut rest.unknown {
                // A while that has begun is not renewed.
                if left.contains(r#type) && matches!(seen, UnknownType::First(..)) {
                    *seen = UnknownType::Left(now + LONGEST);
                    begins = true;
                }
            }
        }
        begins
    }

    /// Returns whether the last set of a group failed.
    pub(crate) fn has(&self, group: &GroupKey) -> bool {
        self.groups.contains_key(group)
    }

    /// Forgets a group after a success: its next back-off is the first again.
    pub(crate) fn forget(&mut self, group: &GroupKey) {
        self.groups.remove(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_backed_off_ever_longer_until_it_works() {
        let mut backed_off = BackedOff::default();
        let group = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let mut now = Instant::now();
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            let pause = backed_off.add(&group, BTreeMap::new(), now).unwrap();
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(backed_off.contains(&group, now + pause - Duration::from_millis(1)));
            assert!(!backed_off.contains(&(QueueName::from_wire("other"), group.1.clone()), now));
            now += pause;
            assert!(!backed_off.contains(&group, now));
        }
        backed_off.forget(&group);
        assert_eq!(backed_off.add(&group, BTreeMap::new(), now), Some(FIRST));
    }

    #[test]
    fn a_type_is_stranded_when_one_task_of_it_was_there_at_every_look_for_twenty_minutes() {
        let group = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let begun = Instant::now();
        // Another server takes the tasks of the type `served`, and the task 1 of the type `left` stays. Each look has its second, the
        // tasks that it finds, and the types of them that are stranded.
        for looks in [
            // A broker that fails begins no time anew.
            &[
                (0, &[("left", "1"), ("served", "2")][..], &[""; 0][..]),
                (600, &[], &[]),
                (1_199, &[("left", "1"), ("served", "3")], &[]),
                (1_200, &[("left", "1"), ("served", "3")], &["left"]),
                (1_300, &[("left", "4"), ("served", "3")], &[]),
                (2_398, &[("left", "1"), ("served", "3")], &[]),
                (2_399, &[("left", "1"), ("served", "3")], &["served"]),
            ][..],
            // Two looks with a day between them show nothing where the tasks are others.
            &[(0, &[("daily", "1")], &[]), (86_400, &[("daily", "2")], &[]), (86_401, &[("daily", "3")], &[])],
            &[(0, &[("daily", "1")], &[]), (86_400, &[("daily", "1")], &["daily"])],
        ] {
            let mut backed_off = BackedOff::default();
            for (second, found, expected) in looks {
                let now = begun + Duration::from_secs(*second);
                let unknown: BTreeMap<_, _> =
                    found.iter().map(|(r#type, id)| ((*r#type).to_owned(), TaskId::from_wire(id))).collect();
                let stranded = backed_off.stranded(&group, now);
                let stranded: Vec<_> = unknown.iter().filter(|(r#type, id)| stranded.has(r#type, id)).collect();
                let types: Vec<_> = stranded.iter().map(|(r#type, _)| r#type.as_str()).collect();
                assert_eq!(types, *expected, "{second} s: {found:?}");
                backed_off.add(&group, unknown, now);
            }
        }
    }

    #[test]
    fn the_tasks_behind_those_that_have_left_follow_for_a_while_and_are_watched_anew_then() {
        let mut backed_off = BackedOff::default();
        let group = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let unknown =
            |id: &str| BTreeMap::from(["left", "other"].map(|r#type| (r#type.to_owned(), TaskId::from_wire(id))));
        let is_stranded = |backed_off: &BackedOff, r#type: &str, id: &str, seconds| {
            backed_off.stranded(&group, at(seconds)).has(r#type, &TaskId::from_wire(id))
        };
        backed_off.add(&group, unknown("1"), at(0));
        backed_off.add(&group, unknown("1"), at(1_200));
        let left = BTreeSet::from(["left".to_owned()]);
        assert!(backed_off.go_on(&group, &left, at(1_200)));
        assert!(!backed_off.contains(&group, at(1_200)));
        assert!(is_stranded(&backed_off, "left", "2", 1_200) && !is_stranded(&backed_off, "other", "2", 1_200));
        // Neither a failure nor a further set makes the while longer.
        backed_off.add(&group, unknown("3"), at(1_500));
        assert!(!backed_off.go_on(&group, &left, at(1_600)));
        assert!(is_stranded(&backed_off, "left", "4", 1_799) && !is_stranded(&backed_off, "left", "4", 1_800));
        backed_off.add(&group, unknown("4"), at(3_600));
        assert!(!is_stranded(&backed_off, "left", "4", 4_799) && is_stranded(&backed_off, "left", "4", 4_800));
        backed_off.forget(&group);
        assert!(!is_stranded(&backed_off, "left", "4", 4_800) && !backed_off.has(&group));
    }

    #[test]
    fn an_unknown_type_is_warned_of_once_in_each_queue_whatever_the_group() {
        let mut backed_off = BackedOff::default();
        let mut warns = |queue: &str, types: &[&str]| {
            let unknown: BTreeMap<_, _> =
                types.iter().map(|r#type| ((*r#type).to_owned(), TaskId::from_wire("1"))).collect();
            backed_off.warn_of(&QueueName::from_wire(queue), &unknown)
        };
        assert!(warns("q", &["mail"]) && warns("other", &["mail"]) && warns("q", &["mail", "note"]));
        assert!(!warns("q", &["mail", "note"]) && !warns("q", &["note"]) && !warns("q", &[]));
        let many: Vec<_> = (0..2 * WARNED).map(|n| n.to_string()).collect();
        warns("q", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!warns("q", &["one more"]) && backed_off.warned.len() == WARNED);
    }

    #[test]
    fn it_remembers_a_bounded_number_of_groups() {
        let mut backed_off = BackedOff::default();
        let now = Instant::now();
        let group = |n: usize| (QueueName::from_wire("q"), GroupName::from_wire(&n.to_string()));
        for n in 0..=MOST {
            backed_off.add(&group(n), BTreeMap::new(), now);
        }
        assert_eq!(backed_off.groups.len(), MOST);
        assert!(backed_off.contains(&group(0), now));
        assert!(backed_off.contains(&group(MOST), now), "a set of it is not claimed again and again in this pass");
        let later = now + FIRST + LONGEST;
        backed_off.begin_pass(now);
        assert!(!backed_off.contains(&group(MOST), now), "the next pass looks at it");
        backed_off.begin_pass(later);
        backed_off.add(&group(MOST), BTreeMap::new(), later);
        assert!(backed_off.groups.len() == 1 && backed_off.contains(&group(MOST), later));
    }

    #[test]
    fn more_groups_than_it_remembers_are_freed_of_their_stranded_tasks_one_after_the_other() {
        let mut backed_off = BackedOff::default();
        let (queue, begun) = (QueueName::from_wire("q"), Instant::now());
        let (left, task) = (BTreeSet::from(["left".to_owned()]), TaskId::from_wire("1"));
        let mut waiting: Vec<_> =
            (0..MOST + 50).map(|n| (queue.clone(), GroupName::from_wire(&n.to_string()))).collect();
        // The looks of a pass follow one another, in another order than those of the pass a minute before.
        for minute in 0..70 {
            let mut now = begun + Duration::from_secs(60 * minute);
            let half = waiting.len() / 2;
            waiting.rotate_left(half);
            backed_off.begin_pass(now);
            waiting.retain(|group| {
                now += Duration::from_micros(1);
                if backed_off.contains(group, now) {
                    return true;
                }
                if backed_off.stranded(group, now).has("left", &task) {
                    backed_off.go_on(group, &left, now);
                    return false;
                }
                backed_off.add(group, BTreeMap::from([("left".to_owned(), task.clone())]), now);
                true
            });
        }
        assert!(waiting.is_empty(), "{} groups still have their tasks", waiting.len());
    }
}

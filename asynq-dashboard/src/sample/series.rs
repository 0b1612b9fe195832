//! The last hour of each queue in a bounded ring.
//!
//! A point has 56 bytes and a ring at most 720 of them, one each 5 seconds or less often, in a buffer of 1,024: 57 kB. At most 256
//! queues have a ring, so that all rings stay below 15 MB however many queues there are. Where there are more, queues
//! have one that a user looked at or that work now.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::TaskState;

use super::snapshot::{Snapshot, Totals};

/// Most points of one ring: an hour of sweeps, 5 seconds apart.
const POINTS: usize = 720;
/// The age of the oldest point of a ring, in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// Most queues that have a ring.
const RINGS: usize = 256;
/// How long a ring is safe from a queue that works now, after a user looked at its queue or the queue worked.
const GRACE: Duration = Duration::from_secs(60);

/// One queue, or all together, at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
    /// Tasks by state, in the order of [`TaskState::ALL`].
    pub(crate) tasks: [u32; TaskState::ALL.len()],
    /// Runs per second that ended since the point before.
    pub(crate) processed: f32,
    /// Runs per second that failed since the point before.
    pub(crate) failed: f32,
    /// For how long the next task has waited, in milliseconds.
    pub(crate) latency_ms: u64,
}

impl Point {
    /// Returns the number of tasks in a state.
    pub(crate) fn count(&self, state: TaskState) -> u32 {
        self.tasks[usize::from(state.number()) - 1]
    }
}

/// Points, the oldest first.
pub(crate) type Series = Vec<Point>;

/// All rings.
#[derive(Debug, Default)]
pub(super) struct Rings {
    totals: Ring,
    /// The snapshot of the last point, which the rates of all queues together are counted from, and when it was added.
    last: Option<(Arc<Snapshot>, Instant)>,
    queues: HashMap<String, Ring>,
    /// Queues without a ring that users looked at since the last sweep: at most half as many as have a ring, so that those of one
    /// sweep take no ring from each other.
    wanted: HashSet<String>,
}

#[derive(Debug, Default)]
struct Ring {
    points: VecDeque<Point>,
    /// The time and the totals of the last point.
    last: Option<(i64, Totals)>,
    /// When a user last looked, or the queue last worked.
    interest: Option<Instant>,
}

impl Rings {
    /// Adds one point to every ring, and gives a ring to queues that work or that a user looked at. A snapshot that was added before
    /// is left out: it is shown again while a new one would cost too much, and between the two nothing would have run.
    pub(super) fn add(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        if self.last.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, snapshot)) {
            return;
        }
        let at = snapshot.at.timestamp_millis();
        let ended = self.last.replace((Arc::clone(snapshot), now));
        let ended = ended.map(|(before, _)| ended_between(&before, snapshot));
        self.totals.push(at, snapshot.totals, ended.unwrap_or_default(), now);
        // A queue that cannot be read now still has its last hour; a deleted one has none.
        self.queues.retain(|name, _| snapshot.names(name));
        for queue in &snapshot.queues {
            let (name, numbers) = (queue.name.as_str(), Totals::of(queue));
            if let Some(ring) = self.queues.get_mut(name) {
                let ended = ring.last.map(|(_, before)| Ended::between(&before, &numbers));
                ring.push(at, numbers, ended.unwrap_or_default(), now);
                continue;
            }
            let is_wanted = self.wanted.contains(name);
            let works = queue.active > 0 || queue.pending > 0;
            if self.queues.len() < RINGS || ((is_wanted || works) && self.make_room(now, is_wanted)) {
                let mut ring = Ring::default();
                ring.push(at, numbers, Ended::default(), now);
                ring.interest = (is_wanted || works).then_some(now);
                self.queues.insert(name.to_owned(), ring);
            }
        }
        self.wanted.clear();
    }

    /// Takes the ring away from the queue that has been idle for longest, if longer than [`GRACE`] or `by_force`; says if there
    /// is room.
    fn make_room(&mut self, now: Instant, by_force: bool) -> bool {
        let Some((name, ring)) = self.queues.iter().min_by_key(|(_, ring)| ring.interest) else { return true };
        let idle = ring.interest.is_none_or(|interest| now.saturating_duration_since(interest) > GRACE);
        if idle || by_force {
            let name = name.clone();
            self.queues.remove(&name);
            return true;
        }
        false
    }

    /// Returns the points of one queue in the last hour, or of all together.
    pub(super) fn series(&mut self, queue: Option<&str>, now: Instant) -> Series {
        // No point is added while the sampler sleeps, or while the queue cannot be read.
        let now_ms = self.last.as_ref().map_or(0, |(last, added)| {
            let since = now.saturating_duration_since(*added).as_millis();
            last.at.timestamp_millis().saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
        });
        let Some(name) = queue else { return self.totals.last_hour(now_ms) };
        match self.queues.get_mut(name) {
            Some(ring) => {
                ring.interest = Some(now);
                ring.last_hour(now_ms)
            }
            None => {
                if self.wanted.len() < RINGS / 2 {
                    self.wanted.insert(name.to_owned());
                }
                Series::new()
            }
        }
    }
}

/// The runs that ended between two points.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    processed: u64,
    failed: u64,
}

impl Ended {
    /// Returns the runs of one queue. Its totals start anew when it is deleted: then there are none.
    fn between(before: &Totals, after: &Totals) -> Self {
        Self {
            processed: after.processed_total.saturating_sub(before.processed_total),
            failed: after.failed_total.saturating_sub(before.failed_total),
        }
    }
}

/// Returns the runs between two snapshots, without those of queues that could not be read before: all runs since the beginning of
/// such a queue would look like runs of this moment. A new queue has begun in between.
fn ended_between(before: &Snapshot, after: &Snapshot) -> Ended {
    after.queues.iter().fold(Ended::default(), |sum, queue| {
        let name = queue.name.as_str();
        let then = match before.queue(name) {
            Some(then) => Totals::of(then),
            None if before.names(name) => return sum,
            None => Totals::default(),
        };
        let ended = Ended::between(&then, &Totals::of(queue));
        Ended {
            processed: sum.processed.saturating_add(ended.processed),
            failed: sum.failed.saturating_add(ended.failed),
        }
    })
}

impl Ring {
    fn last_hour(&self, now_ms: i64) -> Series {
        self.points.iter().filter(|point| is_in_hour(point, now_ms)).copied().collect()
    }

    fn push(&mut self, at_ms: i64, numbers: Totals, ended: Ended, now: Instant) {
        let (mut processed, mut failed) = (0.0, 0.0);
        if let Some((before_ms, before)) = self.last {
            // Over no time, or with a clock that was set back, there is no rate.
            if at_ms > before_ms {
                let seconds = (at_ms - before_ms) as f32 / 1000.0;
                (processed, failed) = (ended.processed as f32 / seconds, ended.failed as f32 / seconds);
            }
            if (Totals { latency_ms: 0, ..numbers }) != (Totals { latency_ms: 0, ..before }) {
                self.interest = Some(now);
            }
        }
        self.last = Some((at_ms, numbers));
        self.points.retain(|point| is_in_hour(point, at_ms));
        if self.points.len() >= POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            at_ms,
            tasks: numbers.tasks.map(|tasks| u32::try_from(tasks).unwrap_or(u32::MAX)),
            processed,
            failed,
            latency_ms: numbers.latency_ms,
        });
    }
}

/// Returns whether the point is of the hour before `now_ms`. A point of a time to come was taken before the broker's clock was set
/// back.
fn is_in_hour(point: &Point, now_ms: i64) -> bool {
    (now_ms.saturating_sub(HOUR_MS)..=now_ms).contains(&point.at_ms)
}

#[cfg(test)]
mod tests {
    use asynq_runtime::{broker::QueueStats, inspector::UnreadableQueue, task::QueueName};
    use chrono::DateTime;

    use super::*;

    fn snapshot(seconds: i64, queues: &[(&str, u64, u64)]) -> Arc<Snapshot> {
        with_unreadable(seconds, queues, &[])
    }

    fn with_unreadable(seconds: i64, queues: &[(&str, u64, u64)], unreadable: &[&str]) -> Arc<Snapshot> {
        let at = DateTime::from_timestamp(seconds, 0).expect("a time");
        let queue = |&(name, pending, processed): &(&str, u64, u64)| {
            let mut stats = QueueStats::empty(QueueName::from_wire(name), at);
            (stats.pending, stats.processed_total, stats.failed_total) = (pending, processed, processed / 2);
            stats
        };
        let unreadable = unreadable.iter().map(|name| UnreadableQueue::new(QueueName::from_wire(name), "WRONGTYPE"));
        Arc::new(Snapshot::new(at, queues.iter().map(queue).collect(), unreadable.collect()))
    }

    #[test]
    fn a_point_is_32_bytes_more_than_its_numbers_at_most() {
        assert!(size_of::<Point>() <= 56, "{}", size_of::<Point>());
    }

    #[test]
    fn a_latency_of_months_is_kept() {
        let (mut rings, now, at) = (Rings::default(), Instant::now(), DateTime::UNIX_EPOCH);
        let mut stats = QueueStats::empty(QueueName::from_wire("a"), at);
        stats.latency = Duration::from_secs(60 * 86_400);
        rings.add(&Arc::new(Snapshot::new(at, vec![stats], Vec::new())), now);
        assert_eq!(rings.series(None, now)[0].latency_ms, 5_184_000_000);
    }

    #[test]
    fn rates_are_per_second_and_start_anew_with_a_deleted_queue() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        for (at, processed) in [(0, 100), (5, 150), (10, 150), (15, 3)] {
            rings.add(&snapshot(at, &[("a", 1, processed)]), now);
        }
        let rates: Vec<_> = rings.series(Some("a"), now).iter().map(|p| (p.processed, p.failed)).collect();
        assert_eq!(rates, [(0.0, 0.0), (10.0, 5.0), (0.0, 0.0), (0.0, 0.0)]);
        assert_eq!(rings.series(None, now).len(), 4);
    }

    #[test]
    fn a_queue_that_cannot_be_read_for_a_while_makes_no_peak_and_keeps_its_series() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        rings.add(&snapshot(0, &[("a", 1, 100), ("b", 1, 1_000_000)]), now);
        rings.add(&with_unreadable(5, &[("a", 1, 150)], &["b"]), now);
        rings.add(&snapshot(10, &[("a", 1, 200), ("b", 1, 1_000_100)]), now);
        rings.add(&snapshot(15, &[("a", 1, 200), ("b", 1, 1_000_200)]), now);
        let rates = |rings: &mut Rings, queue| -> Vec<f32> {
            rings.series(queue, now).iter().map(|point| point.processed).collect()
        };
        assert_eq!(rates(&mut rings, None), [0.0, 10.0, 10.0, 20.0]);
        assert_eq!(rates(&mut rings, Some("b")), [0.0, 10.0, 20.0], "its rate is that of the whole time without it");
        rings.add(&with_unreadable(20, &[("a", 1, 200)], &["c"]), now);
        assert!(rates(&mut rings, Some("b")).is_empty(), "a deleted queue keeps nothing");
    }

    #[test]
    fn a_snapshot_that_is_shown_again_is_one_point() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        for read in [snapshot(0, &[("a", 1, 100)]), snapshot(5, &[("a", 1, 150)])] {
            rings.add(&read, now);
            rings.add(&read, now);
        }
        for queue in [None, Some("a")] {
            let rates: Vec<f32> = rings.series(queue, now).iter().map(|point| point.processed).collect();
            assert_eq!(rates, [0.0, 10.0], "{queue:?}");
        }
    }

    #[test]
    fn the_runs_of_a_new_queue_count_from_its_beginning() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        rings.add(&snapshot(0, &[("a", 1, 100)]), now);
        rings.add(&snapshot(5, &[("a", 1, 150), ("new", 0, 500)]), now);
        let rates: Vec<f32> = rings.series(None, now).iter().map(|point| point.processed).collect();
        assert_eq!(rates, [0.0, 110.0]);
    }

    #[test]
    fn an_hour_is_kept_and_a_deleted_queue_is_not() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        for at in 0..POINTS as i64 + 10 {
            rings.add(&snapshot(at * 5, &[("a", 0, 0)]), now);
        }
        let series = rings.series(Some("a"), now);
        assert_eq!((series.len(), series[0].at_ms), (POINTS, 50_000));
        rings.add(&snapshot(9_000, &[]), now);
        assert!(rings.series(Some("a"), now).is_empty());
    }

    #[test]
    fn slow_sweeps_and_a_sleep_leave_no_point_that_is_older_than_an_hour() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        for minutes in 0..600 {
            rings.add(&snapshot(minutes * 60, &[("a", 0, 0)]), now);
        }
        for queue in [None, Some("a")] {
            let times: Vec<_> = rings.series(queue, now).iter().map(|point| point.at_ms / 60_000).collect();
            assert_eq!((times.len(), times[0]), (61, 539), "{queue:?}");
        }
        // The sampler slept, and a user looks before it has read anything.
        for (minutes, points) in [(30, 31), (61, 0)] {
            let later = now + Duration::from_secs(minutes * 60);
            assert_eq!(rings.series(None, later).len(), points, "{minutes}");
            assert_eq!(rings.series(Some("a"), later).len(), points, "{minutes}");
        }
        rings.add(&snapshot(100_000, &[("a", 0, 0)]), now);
        assert_eq!(rings.totals.points.len(), 1, "the ring itself forgets them");
    }

    #[test]
    fn a_queue_that_cannot_be_read_has_the_last_hour_of_all() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        rings.add(&snapshot(0, &[("a", 0, 0)]), now);
        rings.add(&with_unreadable(3_600, &[], &["a"]), now);
        assert_eq!(rings.series(Some("a"), now).len(), 1);
        rings.add(&with_unreadable(3_605, &[], &["a"]), now);
        assert_eq!(rings.series(Some("a"), now), []);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_peak_and_no_time_that_is_to_come() {
        let (mut rings, now) = (Rings::default(), Instant::now());
        for (at, processed) in [(7_200, 100), (10, 150), (10, 200), (20, 250)] {
            rings.add(&snapshot(at, &[("a", 1, processed)]), now);
        }
        for queue in [None, Some("a")] {
            let points = rings.series(queue, now);
            let points: Vec<_> = points.iter().map(|point| (point.at_ms / 1000, point.processed)).collect();
            assert_eq!(points, [(10, 0.0), (10, 0.0), (20, 5.0)], "{queue:?}");
        }
    }

    #[test]
    fn of_ten_thousand_queues_only_active_or_viewed_ones_have_a_series() {
        let names: Vec<_> = (0..10_000).map(|n| format!("q{n:05}")).collect();
        let of = |working: &str, processed| {
            let row = |name: &'_ String| {
                (name.clone(), u64::from(name == working), if name == working { processed } else { 0 })
            };
            names.iter().map(row).collect::<Vec<_>>()
        };
        let (mut rings, start) = (Rings::default(), Instant::now());
        let add = |rings: &mut Rings, rows: Vec<(String, u64, u64)>, after: u64| {
            let rows: Vec<_> = rows.iter().map(|(name, pending, done)| (name.as_str(), *pending, *done)).collect();
            rings.add(&snapshot(after as i64, &rows), start + Duration::from_secs(after));
        };
        add(&mut rings, of("", 0), 0);
        assert_eq!(rings.queues.len(), RINGS);
        // One queue works, others are looked at: all get rings, at the cost of idle ones.
        for viewed in &names[9_975..] {
            assert!(rings.series(Some(viewed), start).is_empty());
        }
        add(&mut rings, of("q05000", 7), 5);
        assert_eq!(rings.queues.len(), RINGS);
        let now = start + Duration::from_secs(6);
        assert_eq!(rings.series(Some("q05000"), now).len(), 1);
        for viewed in &names[9_975..] {
            assert_eq!(rings.series(Some(viewed), now).len(), 1, "{viewed}");
        }
    }
}

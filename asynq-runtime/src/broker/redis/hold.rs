//! Decides when a lapsed lease may be recovered: not before every live server has had time to extend its leases.
//!
//! All leases lapse at once when Redis was away for longer than a lease, when its clock steps ahead, and when this
//! machine was suspended. Where that clock is set back by more than an hour, the sweep ends leases that are too long. They have lapsed, too, in a Redis that came back from an older snapshot, and in a replica that lacked the last
//! writes when it was promoted. Live servers extend their leases as soon as they can, and recovery must not be faster. Where one master
//! of a cluster takes no writes, this is so for its queues; another process in the place of one holds the queues of all, because one
//! number stands for all. A new connection to the same process, if it says which it is, begins no hold: connections that are
//! cut again and again would keep every lease from recovery.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};

use crate::task::QueueName;

/// A difference between two clocks that is not yet a step.
const SLACK: Duration = Duration::from_secs(2);

/// The hold of one broker.
#[derive(Debug)]
pub(super) struct Hold {
    lease: Duration,
    until: Option<Instant>,
    /// The last look, and the process of Redis that answered it.
    last: Option<(Instant, DateTime<Utc>, u64)>,
    /// When Redis last answered, as far as is known here.
    answered: Option<Instant>,
    /// The queues that took no writes a short time ago, and until when each is held.
    queues: HashMap<QueueName, Instant>,
}

impl Hold {
    /// Begins with a hold at the first look.
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, until: None, last: None, answered: None, queues: HashMap::new() }
    }

    /// Notes that Redis's clock showed `redis` at `now`, in the `process` of this number; another one may have older leases. Returns
    /// how long lapsed leases must not be recovered yet.
    pub(super) fn look(&mut self, now: Instant, redis: DateTime<Utc>, process: u64) -> Duration {
        let may_recover = self.last.is_some_and(|(then, redis_then, of)| {
            let most = now.duration_since(then).saturating_add(SLACK);
            // A negative time shows that the clock was set back.
            let has_not_stepped = (redis - redis_then).to_std().is_ok_and(|elapsed_on_redis| elapsed_on_redis < most);
            of == process && self.is_soon(now) && has_not_stepped
        });
        (self.last, self.answered) = (Some((now, redis, process)), Some(now));
        if !may_recover {
            self.until = Some(now + self.length());
        }
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Returns whether the last look, if there was one, was answered by this process.
    pub(super) fn is_on(&self, process: u64) -> bool {
        self.last.is_none_or(|(.., of)| of == process)
    }

    /// Notes that Redis has answered another call. Between two looks there are the pause of their caller and several round trips,
    /// which together may be longer than what counts as a gap.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.is_soon(now) {
            self.answered = Some(now);
        }
    }

    /// Returns whether there is no gap between the last answer and one at `now`.
    fn is_soon(&self, now: Instant) -> bool {
        self.answered.is_some_and(|then| now.duration_since(then) < self.lease / 3)
    }

    /// Notes that no server can extend a lease just now, so that the next look counts as the first one after a gap.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Notes that no server can extend a lease in these queues just now.
    pub(super) fn hold<'q>(&mut self, queues: impl IntoIterator<Item = &'q QueueName>, now: Instant) {
        let until = now + self.length();
        self.queues.retain(|_, until| *until > now);
        self.queues.extend(queues.into_iter().map(|queue| (queue.clone(), until)));
    }

    /// Returns whether lapsed leases of this queue must not be recovered yet, although others may be.
    pub(super) fn is_held(&self, queue: &QueueName, now: Instant) -> bool {
        self.queues.get(queue).is_some_and(|until| *until > now)
    }

    /// Returns the length of a hold: a server extends every third of a lease, tries again after at most a tenth, and
    /// connects within a second or two.
    fn length(&self) -> Duration {
        self.lease / 3 + self.lease / 10 + SLACK.min(self.lease / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// Looks at these seconds, with Redis's clock at those; returns the seconds of hold that are left.
    fn looks(at: &[(u64, i64)]) -> Vec<u64> {
        let (start, mut hold) = (Instant::now(), Hold::new(LEASE));
        let redis = |seconds: i64| DateTime::from_timestamp(1_893_000_000 + seconds, 0).unwrap();
        at.iter()
            .map(|&(at, redis_at)| hold.look(start + Duration::from_secs(at), redis(redis_at), 1).as_secs())
            .collect()
    }

    #[test]
    fn recovery_waits_at_the_start_after_a_gap_and_after_a_step_of_the_clock() {
        // At the start.
        assert_eq!(looks(&[(0, 0), (5, 5), (10, 10), (15, 15), (20, 20)]), [15, 10, 5, 0, 0]);
        // Redis was away for 38 s.
        assert_eq!(looks(&[(0, 0), (8, 8), (16, 16), (54, 54), (58, 58)])[2..], [0, 15, 11]);
        // Redis's clock goes ahead by 40 s, and later back again.
        assert_eq!(
            looks(&[(0, 0), (8, 8), (16, 16), (20, 60), (25, 65), (30, 70), (35, 75), (40, 40), (45, 45), (50, 50)])
                [2..],
            [0, 15, 10, 5, 0, 15, 10, 5]
        );
    }

    #[test]
    fn recovery_waits_where_another_process_answers_which_may_have_older_leases() {
        let (start, mut hold) = (Instant::now(), Hold::new(LEASE));
        let mut look = |at: u64, process: u64| {
            let redis = DateTime::from_timestamp(1_893_000_000, 0).unwrap() + Duration::from_secs(at);
            hold.look(start + Duration::from_secs(at), redis, process).as_secs()
        };
        assert_eq!([0, 5, 10, 15, 20].map(|at| look(at, 1)), [15, 10, 5, 0, 0]);
        assert_eq!([24, 29, 34, 39].map(|at| look(at, 2)), [15, 10, 5, 0]);
        // A recovery that meets the next process waits for the look at it.
        assert_eq!([2, 3].map(|process| hold.is_on(process)), [true, false]);
        assert!(Hold::new(LEASE).is_on(1), "without a look");
    }

    #[test]
    fn recovery_waits_after_a_time_in_which_no_server_could_extend() {
        let (start, mut hold) = (Instant::now(), Hold::new(LEASE));
        let look = |hold: &mut Hold, at: u64| {
            let redis = DateTime::from_timestamp(1_893_000_000, 0).unwrap() + Duration::from_secs(at);
            hold.look(start + Duration::from_secs(at), redis, 1).as_secs()
        };
        assert_eq!([0, 5, 10, 15].map(|at| look(&mut hold, at)), [15, 10, 5, 0]);
        hold.forget();
        assert_eq!([17, 22].map(|at| look(&mut hold, at)), [15, 10]);
    }

    #[test]
    fn answers_between_two_looks_show_that_redis_was_there() {
        let (start, lease) = (Instant::now(), Duration::from_secs(2));
        let time = |ms: u64| start + Duration::from_millis(ms);
        // Round trips of 150 ms and a pause of 380 ms: two looks are further apart than a third of the lease.
        let left = |answers: &[u64]| {
            let mut hold = Hold::new(lease);
            let mut left = Duration::MAX;
            for pass in 0..10 {
                let at = 830 * pass;
                let redis = DateTime::from_timestamp_millis(1_893_000_000_000 + i64::try_from(at).unwrap()).unwrap();
                left = hold.look(time(at), redis, 1);
                answers.iter().for_each(|after| hold.answered(time(at + after)));
            }
            left
        };
        assert_eq!(left(&[150, 300]), Duration::ZERO);
        assert!(!left(&[]).is_zero() && !left(&[829]).is_zero(), "an answer that itself came late shows nothing");
    }

    #[test]
    fn a_queue_that_took_no_writes_is_held_by_itself() {
        let (start, mut hold) = (Instant::now(), Hold::new(LEASE));
        let [away, here] = ["away", "here"].map(QueueName::from_wire);
        let is_held = |hold: &Hold, at: u64| hold.is_held(&away, start + Duration::from_secs(at));
        hold.hold([&away], start);
        hold.hold([&away], start + Duration::from_secs(10));
        assert!(is_held(&hold, 24) && !is_held(&hold, 25));
        assert!(!hold.is_held(&here, start));
        hold.hold([&here], start + Duration::from_secs(30));
        assert_eq!(hold.queues.len(), 1, "what is over is forgotten");
    }
}

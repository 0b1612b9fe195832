//! Notices that Redis's tracking table is too small: Redis then forgets keys that it should announce, and announces each of them as
//! if it had changed.
//!
//! To read such a key again makes Redis forget another one. Waits that read at once would do nothing else
//! (docs/design/wire.md#waiting-without-polling).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So many evictions within [`WITHIN`] are many. Only those of the keys `paused` are counted, a fifth of the keys that waits read: fewer
/// cost little, and no push causes any.
const MANY: usize = 32;
const WITHIN: Duration = Duration::from_secs(1);
/// How long the waits gather announcements after there were many.
const LASTS: Duration = Duration::from_secs(10);

/// The evictions that the waits of a broker have noticed.
#[derive(Debug, Default)]
pub(super) struct Evictions(Mutex<Noticed>);

#[derive(Debug, Default)]
struct Noticed {
    /// When `count` began.
    since: Option<Instant>,
    count: usize,
    many_until: Option<Instant>,
}

impl Evictions {
    /// Notes that `count` keys were announced and have not changed. The first time that there are many is logged.
    pub(super) fn note(&self, count: usize, now: Instant) {
        if count > 0 && self.are_many_first(count, now) {
            log!(
                warn,
                "Redis announces keys that have not changed: its tracking-table-max-keys is too small for the keys of all queues, \
                 and an idle worker may take a task a quarter of a second late"
            );
        }
    }

    /// Notes evictions; returns whether there are many for the first time.
    fn are_many_first(&self, count: usize, now: Instant) -> bool {
        let mut noticed = self.0.lock();
        if noticed.since.is_none_or(|since| now.saturating_duration_since(since) > WITHIN) {
            (noticed.since, noticed.count) = (Some(now), 0);
        }
        noticed.count += count;
        noticed.count >= MANY && noticed.many_until.replace(now + LASTS).is_none()
    }

    /// Returns whether Redis evicts so many keys that a wait has to gather announcements before it reads.
    pub(super) fn are_many(&self, now: Instant) -> bool {
        self.0.lock().many_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evictions_are_many_for_ten_seconds_after_thirty_two_within_a_second_and_are_told_once() {
        let (evictions, start) = (Evictions::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let cases = [
            (0, 31, false, false),
            (1_001, 31, false, false),
            (1_002, 1, true, true),
            (11_001, 0, false, true),
            (11_002, 0, false, false),
            (11_003, 32, false, true),
        ];
        for (ms, count, is_first, are_many) in cases {
            let found = (evictions.are_many_first(count, at(ms)), evictions.are_many(at(ms)));
            assert_eq!(found, (is_first, are_many), "{count} after {ms} ms");
        }
    }
}

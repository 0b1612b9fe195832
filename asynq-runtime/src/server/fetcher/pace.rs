//! Decides how many tasks of one queue to ask for at once, where there are several queues.
//!
//! A call costs a broker a step for each queue that it asks, so one task of each of a hundred queues costs as much as a
//! hundred calls. Asking few queues for more tasks each is cheaper, and as fair over time; for a while, though, one queue has
//! all slots. So chunks grow only while all slots are filled anew within some fifty milliseconds.

use std::time::{Duration, Instant};

/// How long one queue may have all slots.
const BRIEF: Duration = Duration::from_millis(50);

/// The yield of the last calls.
#[derive(Debug)]
pub(super) struct Pace {
    chunk: usize,
    /// When the count of taken tasks began.
    since: Instant,
    taken: usize,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { chunk: 1, since: now, taken: 0 }
    }

    /// Returns how many tasks of one queue to ask for at once, at least; 1 unless tasks end as soon as they are taken.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Notes that a call brought `got` of the `wanted` tasks, for a server with so many slots.
    pub(super) fn took(&mut self, got: usize, wanted: usize, slots: usize, now: Instant) {
        self.taken = self.taken.saturating_add(got);
        if now.saturating_duration_since(self.since) > BRIEF {
            // To fill all slots once took longer.
            (self.chunk, self.since, self.taken) = (1, now, 0);
        } else if got.saturating_mul(2) < wanted {
            self.chunk = (self.chunk / 2).max(1);
        } else if self.taken >= slots {
            self.chunk = (self.chunk * 2).min(slots).max(1);
            (self.since, self.taken) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_asked_of_a_queue_only_while_all_slots_are_filled_anew_at_once() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut pace = Pace::new(start);
        for (got, wanted, at, expected, what) in [
            (50, 50, ms(1), 1, "half of the slots"),
            (50, 50, ms(2), 2, "all of them"),
            (100, 100, ms(4), 4, "again"),
            (100, 100, ms(6), 8, "again"),
            (100, 100, ms(8), 16, "again"),
            (30, 100, ms(9), 8, "little came: the queues are shallow"),
            (0, 100, ms(10), 4, "nothing"),
            (60, 100, ms(11), 4, "enough, but the slots were not filled"),
            (100, 100, ms(70), 1, "a job took its time"),
            (100, 100, ms(115), 2, "and no other did"),
        ] {
            pace.took(got, wanted, 100, at);
            assert_eq!(pace.chunk(), expected, "{what}");
        }
        for (slots, most) in [(100, 100), (10, 10), (1, 1)] {
            let mut pace = Pace::new(start);
            (0..10).for_each(|_| pace.took(slots, slots, slots, start));
            assert_eq!(pace.chunk(), most, "{slots} slots");
        }
    }
}

//! Confirms the lapse of a lease whose server is on the list and was not found dead: a second look must see the lapse again, a
//! lease later.
//!
//! A wall clock decides nothing alone. It steps ahead when a suspended machine resumes, and a write lock that another program
//! holds for longer than a lease keeps every living server from extending its leases. Both end all leases at once, and a server
//! that lives extends them within a third of a lease. So a lapse counts only when it is seen again a whole lease later, by the
//! monotonic clock and inside a write transaction: a file that no program can write to confirms nothing.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// A lapse is remembered for at least this time: with a very short lease the next look comes many leases later.
const REMEMBERED: Duration = Duration::from_secs(5);

/// A lapsed lease: the row of its task, its run, and when it ended by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lapse {
    pub(super) row: i64,
    pub(super) run: i64,
    pub(super) ended: i64,
}

/// The lapses that were seen lately.
#[derive(Debug, Default)]
pub(in super::super) struct Lapses(Mutex<HashMap<Lapse, Seen>>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    first: Instant,
    last: Instant,
}

impl Lapses {
    /// Returns those of `lapses` that were first seen `wait` before `now` or earlier, and remembers all of them. A lapse that
    /// was not seen for twice that time, and for [`REMEMBERED`], is forgotten: its lease was extended, or its task has ended.
    pub(super) fn confirmed(&self, lapses: &[Lapse], now: Instant, wait: Duration) -> HashSet<Lapse> {
        let mut all = self.0.lock();
        all.retain(|_, seen| now.duration_since(seen.last) < wait.saturating_mul(2).max(REMEMBERED));
        for lapse in lapses {
            all.entry(*lapse).or_insert(Seen { first: now, last: now }).last = now;
        }
        lapses.iter().filter(|lapse| now.duration_since(all[*lapse].first) >= wait).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn a_lapse_counts_when_it_is_seen_again_a_lease_later() {
        let (lapses, start) = (Lapses::default(), Instant::now());
        let [a, b] = [1, 2].map(|row| Lapse { row, run: 7, ended: 1_000 });
        assert!(lapses.confirmed(&[a, b], start, LEASE).is_empty());
        assert!(lapses.confirmed(&[a, b], start + LEASE - Duration::from_millis(1), LEASE).is_empty());
        // The server of b extended its lease.
        assert_eq!(lapses.confirmed(&[a], start + LEASE, LEASE), HashSet::from([a]));
        // The lease of b lapsed again, which is another lapse.
        let again = Lapse { ended: 2_000, ..b };
        assert!(lapses.confirmed(&[again], start + 2 * LEASE, LEASE).is_empty());
        // A server of other queues looks, too.
        assert!(lapses.confirmed(&[], start + 2 * LEASE, LEASE).is_empty());
        assert_eq!(lapses.confirmed(&[again], start + 3 * LEASE, LEASE), HashSet::from([again]));
        assert_eq!(lapses.0.lock().len(), 1, "the others were forgotten");
    }

    #[test]
    fn a_lapse_of_a_very_short_lease_counts_at_the_next_look() {
        let (lapses, start, lease) = (Lapses::default(), Instant::now(), Duration::from_millis(50));
        let lapse = Lapse { row: 1, run: 7, ended: 1_000 };
        assert!(lapses.confirmed(&[lapse], start, lease).is_empty());
        assert_eq!(lapses.confirmed(&[lapse], start + Duration::from_millis(250), lease), HashSet::from([lapse]));
    }
}

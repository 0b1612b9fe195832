//! Remembers the last look of each component at many queues, so that only the queues whose keys have changed are looked at again.
//!
//! The answers themselves are known as well (`seen.rs`). But to find ten thousand known answers takes a hundred milliseconds of a
//! processor, which an idle server would spend several times a second.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    super::{ArchivePolicy, BrokerError},
    seen::{self, SharedSeen},
    wake::TrackedReads,
};
use crate::task::QueueName;

/// Up to so many queues are all looked at in each of these times: their answers are asked again that often (`seen.rs`).
const FEW: usize = 64;
const FEW_ARE_LOOKED_AT_EVERY: Duration = Duration::from_secs(10);
const MANY_ARE_LOOKED_AT_EVERY: Duration = Duration::from_secs(60);

/// The last looks of the components of a server.
#[derive(Debug, Default)]
pub(super) struct LastLooks {
    pub(super) work: LastLook<QueueName>,
    pub(super) due: LastLook<QueueName>,
    pub(super) leases: LastLook<QueueName>,
    pub(super) groups: LastLook<QueueName>,
    pub(super) cleaning: LastLook<ArchivePolicy>,
}

/// The last look of one component.
#[derive(Debug)]
pub(super) struct LastLook<T>(Mutex<Option<Look<T>>>);

impl<T> Default for LastLook<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The subject of a look.
pub(super) trait Subject: Clone + PartialEq {
    fn queue(&self) -> &QueueName;
}

impl Subject for QueueName {
    fn queue(&self) -> &QueueName {
        self
    }
}

impl Subject for ArchivePolicy {
    fn queue(&self) -> &QueueName {
        &self.queue
    }
}

/// The moments that a look has found, one per subject.
#[derive(Debug)]
pub(super) struct Look<T> {
    about: Vec<T>,
    positions: HashMap<QueueName, usize>,
    /// From when on there is something to do, in a unit of the component's; `None` if only a change can bring something.
    found: Vec<Option<i64>>,
    /// The subjects that have to be looked at, in ascending order.
    stale: Vec<usize>,
    seen: SharedSeen,
    /// The number of the last announcement that `stale` takes into account.
    known: u64,
    /// When all subjects were looked at.
    since: Instant,
}

impl<T: Subject> LastLook<T> {
    /// Returns the last look at `about`, with those subjects marked as stale whose keys have changed since. Returns a look that has
    /// seen nothing if there is none. The caller looks at the stale subjects, and [`keep`](Self::keep)s the look.
    pub(super) fn take(&self, reads: &TrackedReads<'_>, about: &[T]) -> Look<T> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match last.filter(|look| look.about == about) {
            Some(mut look) => {
                look.refresh(reads);
                look
            }
            None => Look::new(reads.seen(), about),
        }
    }

    /// [`take`](Self::take) that knows every change until now: it waits for the announcements of those made before.
    pub(super) async fn take_now(&self, reads: &mut TrackedReads<'_>, about: &[T]) -> Result<Look<T>, BrokerError> {
        let mut look = self.take(reads, about);
        if !look.is_all_stale() {
            reads.catch_up().await?;
            look.refresh(reads);
        }
        Ok(look)
    }

    /// Keeps a look for the next call.
    pub(super) fn keep(&self, look: Look<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }
}

impl<T: Subject> Look<T> {
    fn new(seen: &SharedSeen, about: &[T]) -> Self {
        let positions = about.iter().enumerate().map(|(place, subject)| (subject.queue().clone(), place)).collect();
        Self {
            about: about.to_vec(),
            positions,
            found: vec![None; about.len()],
            stale: (0..about.len()).collect(),
            seen: Arc::clone(seen),
            known: seen::lock(seen).changes(),
            since: Instant::now(),
        }
    }

    /// Marks the subjects as stale whose keys were announced since the last look: all of them where announcements may have been
    /// missed, or when it is time to look at all again.
    pub(super) fn refresh(&mut self, reads: &TrackedReads<'_>) {
        self.refresh_by(reads.seen(), reads.is_tracked(), Instant::now());
    }

    fn refresh_by(&mut self, shared: &SharedSeen, is_tracked: bool, now: Instant) {
        let every = if self.about.len() <= FEW { FEW_ARE_LOOKED_AT_EVERY } else { MANY_ARE_LOOKED_AT_EVERY };
        let is_usable =
            is_tracked && Arc::ptr_eq(&self.seen, shared) && now.saturating_duration_since(self.since) < every;
        let seen = seen::lock(shared);
        match seen.changed_since(self.known).filter(|_| is_usable) {
            Some(keys) => {
                self.stale.extend(keys.filter_map(|key| self.positions.get(queue_of(key)?)));
                self.stale.sort_unstable();
                self.stale.dedup();
            }
            None => {
                self.stale = (0..self.about.len()).collect();
                (self.seen, self.since) = (Arc::clone(shared), now);
            }
        }
        self.known = seen.changes();
    }

    /// Returns the subjects to look at.
    pub(super) fn stale(&self) -> &[usize] {
        &self.stale
    }

    pub(super) fn is_all_stale(&self) -> bool {
        self.stale.len() == self.about.len()
    }

    /// Notes what a look at the stale subjects has found, in their order; a subject that is not known stays stale.
    pub(super) fn note(&mut self, found: impl IntoIterator<Item = Known>) {
        let stale = std::mem::take(&mut self.stale);
        for (place, known) in stale.into_iter().zip(found) {
            match known {
                Known::From(moment) => self.found[place] = moment,
                Known::Not => {
                    self.found[place] = Some(i64::MIN);
                    self.stale.push(place);
                }
            }
        }
    }

    /// Marks subjects as stale, because the caller is about to change them.
    pub(super) fn forget(&mut self, places: &[usize]) {
        self.stale.extend(places);
        self.stale.sort_unstable();
        self.stale.dedup();
    }

    /// Returns the subjects for which there is something to do at `now`, or about which nothing is known.
    pub(super) fn due(&self, now: i64) -> Vec<usize> {
        (0..self.found.len()).filter(|&place| self.found[place].is_some_and(|moment| moment <= now)).collect()
    }

    /// Returns the first moment at which there is something to do.
    pub(super) fn next(&self) -> Option<i64> {
        self.found.iter().flatten().min().copied()
    }
}

/// The outcome of a look at one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// From this moment on there is something to do; never, if nothing changes.
    From(Option<i64>),
    /// The keys could not be read: there may be something to do.
    Not,
}

/// Returns the name of the queue to which a key belongs.
fn queue_of(key: &str) -> Option<&str> {
    Some(key.strip_prefix("asynq:{")?.split_once("}:")?.0)
}

#[cfg(test)]
mod tests {
    use super::{super::seen::Change, *};

    fn queues(n: usize) -> Vec<QueueName> {
        (0..n).map(|i| QueueName::from_wire(&format!("tenant:{i}"))).collect()
    }

    /// Returns a look at `n` queues that has found something at 100 in each, and its answers.
    fn looked(n: usize) -> (Look<QueueName>, SharedSeen) {
        let seen = SharedSeen::default();
        let mut look = Look::new(&seen, &queues(n));
        assert_eq!(look.stale().len(), n);
        look.note(vec![Known::From(Some(100)); n]);
        (look, seen)
    }

    fn announce(seen: &SharedSeen, keys: &[&str]) {
        seen::lock(seen).changed(&Change::Keys(keys.iter().map(|&key| key.to_owned()).collect()));
    }

    #[test]
    fn only_queues_whose_keys_were_announced_are_looked_at_again() {
        let (mut look, seen) = looked(10_000);
        let now = Instant::now();
        look.refresh_by(&seen, true, now);
        assert!(look.stale().is_empty());
        announce(&seen, &["asynq:{tenant:7}:pending", "asynq:{elsewhere}:pending", "asynq:queues", "theirs"]);
        announce(&seen, &["asynq:{tenant:3}:paused", "asynq:{tenant:7}:pending"]);
        look.refresh_by(&seen, true, now);
        assert_eq!(look.stale(), [3, 7]);
        look.note([Known::From(None), Known::Not]);
        look.refresh_by(&seen, true, now);
        assert_eq!(look.stale(), [7], "a queue that is not known stays stale");
        look.forget(&[9]);
        assert_eq!(look.stale(), [7, 9]);
    }

    #[test]
    fn every_queue_is_looked_at_again_where_announcements_may_be_missing() {
        let now = Instant::now();
        let all = |look: &Look<QueueName>| look.is_all_stale();
        let (mut look, seen) = looked(100);
        look.refresh_by(&SharedSeen::default(), true, now);
        assert!(all(&look), "another connection");
        let (mut look, _) = looked(100);
        look.refresh_by(&seen, false, now);
        assert!(all(&look), "Redis announces nothing");
        let (mut look, seen) = looked(100);
        seen::lock(&seen).changed(&Change::All);
        look.refresh_by(&seen, true, now);
        assert!(all(&look), "the connection was lost");
        let (mut look, seen) = looked(100);
        (0..2_000).for_each(|i| announce(&seen, &[&format!("key {i}")]));
        look.refresh_by(&seen, true, now);
        assert!(all(&look), "more changes than are remembered");
    }

    #[test]
    fn few_queues_are_all_looked_at_every_ten_seconds_and_many_every_minute() {
        for (n, seconds, is_due) in [(1, 9, false), (64, 11, true), (65, 11, false), (65, 59, false), (65, 61, true)] {
            let (mut look, seen) = looked(n);
            look.refresh_by(&seen, true, look.since + Duration::from_secs(seconds));
            assert_eq!(look.is_all_stale(), is_due, "{n} queues after {seconds} s");
        }
    }

    #[test]
    fn the_moments_that_were_found_say_what_is_due() {
        let seen = SharedSeen::default();
        let mut look = Look::new(&seen, &queues(4));
        look.note([Known::From(Some(5)), Known::From(None), Known::Not, Known::From(Some(9))]);
        assert_eq!((look.due(4), look.due(5), look.due(9)), (vec![2], vec![0, 2], vec![0, 2, 3]));
        assert_eq!(look.next(), Some(i64::MIN));
        look.note([Known::From(Some(7))]);
        assert_eq!((look.next(), look.stale().len()), (Some(5), 0));
    }
}

//! Remembers the last look of each component at many queues, so that only the queues whose keys have changed are looked at again.
//!
//! The answers themselves are known as well (`seen.rs`). But to find ten thousand known answers takes a hundred milliseconds of a
//! processor, which an idle server would spend several times a second.

use std::{
    cell::OnceCell,
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    super::{ArchivePolicy, BrokerError},
    seen::{Question, SharedSeen, Topic},
    wake::TrackedReads,
};
use crate::task::QueueName;

/// Up to this many queues are all looked at every 10 s, when some of their answers are asked again (`seen.rs`); more queues every 60 s.
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
    /// The place of each queue, once an announced key has asked for one.
    places: OnceCell<HashMap<QueueName, usize>>,
    /// The moment from which there is something to do, `None` if only a change can bring something: in Unix milliseconds for due tasks, in
    /// Unix seconds for leases and cleaning; for work and groups 0, which has always come.
    found: Vec<Option<i64>>,
    /// The subjects that have to be looked at, in ascending order.
    stale: Vec<usize>,
    seen: SharedSeen,
    /// The number of the last announcement that is taken into account in `stale`.
    announced: u64,
    /// When all subjects were looked at.
    since: Instant,
}

impl<T: Subject> LastLook<T> {
    /// Returns the last look at `about`, or one that has seen nothing. The caller [`refresh`](Look::refresh)es it, looks at the stale
    /// subjects, and [`keep`](Self::keep)s it.
    pub(super) fn take(&self, reads: &TrackedReads<'_>, about: &[T]) -> Look<T> {
        let last = self.0.lock().take();
        last.filter(|look| look.about == about).unwrap_or_else(|| Look::new(&reads.seen, about))
    }

    /// Looks at those subjects of `about` whose keys have changed until now, by `questions` about each, whose answers `find` judges. The
    /// caller [`keep`](Self::keep)s the look.
    ///
    /// # Errors
    ///
    /// Redis cannot be asked.
    pub(super) async fn look<const N: usize>(
        &self,
        reads: &mut TrackedReads<'_>,
        about: &[T],
        questions: impl Fn(&T) -> [Question; N],
        find: impl Fn(&T, &[Option<Option<i64>>]) -> Finding,
    ) -> Result<Look<T>, BrokerError> {
        let mut look = self.take(reads, about);
        look.refresh(reads);
        if !look.is_all_stale() {
            reads.catch_up().await?;
            look.refresh(reads);
        }
        let stale: Vec<&T> = look.stale().iter().map(|&place| &about[place]).collect();
        let asked: Vec<Question> = stale.iter().flat_map(|subject| questions(subject)).collect();
        let answers = reads.look(&asked).await?;
        look.note(stale.into_iter().zip(answers.chunks(N)).map(|(subject, answers)| find(subject, answers)));
        Ok(look)
    }

    /// Keeps a look for the next call, unless `reads` had to ask elsewhere than where the changes are announced.
    pub(super) fn keep(&self, look: Look<T>, reads: &TrackedReads<'_>) {
        if reads.is_tracked() && Arc::ptr_eq(&look.seen, &reads.seen) {
            *self.0.lock() = Some(look);
        }
    }
}

impl<T: Subject> Look<T> {
    fn new(seen: &SharedSeen, about: &[T]) -> Self {
        Self {
            about: about.to_vec(),
            places: OnceCell::new(),
            found: vec![None; about.len()],
            stale: (0..about.len()).collect(),
            seen: Arc::clone(seen),
            announced: seen.lock().changes(),
            since: Instant::now(),
        }
    }

    /// Marks the subjects as stale whose keys were announced since the last look: all of them where announcements may have been
    /// missed, or when it is time to look at all again.
    pub(super) fn refresh(&mut self, reads: &TrackedReads<'_>) {
        self.refresh_by(&reads.seen, reads.topic, reads.is_tracked(), Instant::now());
    }

    fn refresh_by(&mut self, shared: &SharedSeen, topic: Topic, is_tracked: bool, now: Instant) {
        let every = if self.about.len() <= FEW { FEW_ARE_LOOKED_AT_EVERY } else { MANY_ARE_LOOKED_AT_EVERY };
        let is_usable =
            is_tracked && Arc::ptr_eq(&self.seen, shared) && now.saturating_duration_since(self.since) < every;
        let seen = shared.lock();
        match seen.changed_since(self.announced, topic).filter(|_| is_usable) {
            Some(keys) => {
                let about = &self.about;
                let places =
                    || about.iter().enumerate().map(|(place, subject)| (subject.queue().clone(), place)).collect();
                let places = keys.filter_map(|key| self.places.get_or_init(places).get(queue_of(key)?).copied());
                let changed: Vec<usize> = places.collect();
                self.forget(&changed);
            }
            None => {
                self.stale = (0..self.about.len()).collect();
                (self.seen, self.since) = (Arc::clone(shared), now);
            }
        }
        self.announced = seen.changes();
    }

    /// Returns the subjects to look at.
    pub(super) fn stale(&self) -> &[usize] {
        &self.stale
    }

    fn is_all_stale(&self) -> bool {
        self.stale.len() == self.about.len()
    }

    /// Notes what a look at the stale subjects has found, in their order; a subject that is not known stays stale.
    pub(super) fn note(&mut self, found: impl IntoIterator<Item = Finding>) {
        let stale = std::mem::take(&mut self.stale);
        for (place, finding) in stale.into_iter().zip(found) {
            match finding {
                Finding::From(moment) => self.found[place] = moment,
                Finding::Unknown => {
                    self.found[place] = Some(i64::MIN);
                    self.stale.push(place);
                }
            }
        }
    }

    /// Marks subjects as stale, because their keys have changed or the caller is about to change them.
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
pub(super) enum Finding {
    /// From this moment on there is something to do; never, if nothing changes.
    From(Option<i64>),
    /// The keys could not be read: there may be something to do.
    Unknown,
}

/// Returns the name of the queue to which a key belongs.
fn queue_of(key: &str) -> Option<&str> {
    Some(key.strip_prefix("asynq:{")?.rsplit_once("}:")?.0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::seen::{Change, Kind},
        *,
    };

    fn queues(n: usize) -> Vec<QueueName> {
        (0..n).map(|i| QueueName::from_wire(&format!("tenant:{i}"))).collect()
    }

    /// Returns a look at `n` queues that has found something at 100 in each, and its answers.
    fn looked(n: usize) -> (Look<QueueName>, SharedSeen) {
        let seen = SharedSeen::default();
        let mut look = Look::new(&seen, &queues(n));
        assert_eq!(look.stale().len(), n);
        look.note(vec![Finding::From(Some(100)); n]);
        (look, seen)
    }

    /// Reads `keys` for `topic`, and has them announced.
    fn announce(seen: &SharedSeen, topic: Topic, keys: &[&str]) {
        let questions: Vec<Question> = keys.iter().map(|&key| Question::new(Kind::Length, key.to_owned())).collect();
        seen.lock().begin_read(topic, &questions.iter().collect::<Vec<_>>());
        seen.lock().changed(&Change::Keys(keys.iter().map(|&key| key.to_owned()).collect()));
    }

    #[test]
    fn only_queues_whose_keys_were_announced_are_looked_at_again() {
        let (mut look, seen) = looked(10_000);
        let now = Instant::now();
        look.refresh_by(&seen, Topic::Work, true, now);
        assert!(look.stale().is_empty());
        announce(
            &seen,
            Topic::Work,
            &["asynq:{tenant:7}:pending", "asynq:{elsewhere}:pending", "asynq:queues", "theirs"],
        );
        announce(&seen, Topic::Work, &["asynq:{tenant:3}:paused", "asynq:{tenant:7}:pending"]);
        announce(&seen, Topic::Leases, &["asynq:{tenant:5}:lease"]);
        look.refresh_by(&seen, Topic::Work, true, now);
        assert_eq!(look.stale(), [3, 7], "a key that another component has read brings nothing");
        look.note([Finding::From(None), Finding::Unknown]);
        look.refresh_by(&seen, Topic::Work, true, now);
        assert_eq!(look.stale(), [7], "a queue that is not known stays stale");
        look.forget(&[9]);
        assert_eq!(look.stale(), [7, 9]);
    }

    #[test]
    fn every_queue_is_looked_at_again_where_announcements_may_be_missing() {
        let now = Instant::now();
        let all = |look: &Look<QueueName>| look.is_all_stale();
        let (mut look, seen) = looked(100);
        look.refresh_by(&SharedSeen::default(), Topic::Work, true, now);
        assert!(all(&look), "another connection");
        let (mut look, _) = looked(100);
        look.refresh_by(&seen, Topic::Work, false, now);
        assert!(all(&look), "Redis announces nothing");
        let (mut look, seen) = looked(100);
        seen.lock().changed(&Change::All);
        look.refresh_by(&seen, Topic::Work, true, now);
        assert!(all(&look), "the connection was lost");
        let (mut look, seen) = looked(100);
        (0..2_000).for_each(|i| announce(&seen, Topic::Work, &[&format!("key {i}")]));
        look.refresh_by(&seen, Topic::Work, true, now);
        assert!(all(&look), "more changes than are remembered");
    }

    #[test]
    fn few_queues_are_all_looked_at_every_ten_seconds_and_many_every_minute() {
        for (n, seconds, is_due) in [(1, 9, false), (64, 11, true), (65, 11, false), (65, 59, false), (65, 61, true)] {
            let (mut look, seen) = looked(n);
            look.refresh_by(&seen, Topic::Work, true, look.since + Duration::from_secs(seconds));
            assert_eq!(look.is_all_stale(), is_due, "{n} queues after {seconds} s");
        }
    }

    #[test]
    fn the_moments_that_were_found_say_what_is_due() {
        let seen = SharedSeen::default();
        let mut look = Look::new(&seen, &queues(4));
        look.note([Finding::From(Some(5)), Finding::From(None), Finding::Unknown, Finding::From(Some(9))]);
        assert_eq!((look.due(4), look.due(5), look.due(9)), (vec![2], vec![0, 2], vec![0, 2, 3]));
        assert_eq!(look.next(), Some(i64::MIN));
        look.note([Finding::From(Some(7))]);
        assert_eq!((look.next(), look.stale().len()), (Some(5), 0));
    }
}

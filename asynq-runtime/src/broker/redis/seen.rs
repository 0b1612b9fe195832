//! Caches answers that were read on a tracking connection until Redis announces a change: Redis's client-side caching.
//!
//! Redis announces the next change of each key that was read there, once. Answers about an announced key are not known
//! any more; all others need not be asked again, so that the cost of a wake-up grows with the keys that changed and not
//! with those that are watched.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{PushInfo, PushKind, Value};

use super::{reply, script::Call};

/// Some of the known answers are asked again this often, whatever Redis announced.
const NET: Duration = Duration::from_secs(10);
/// Number of questions of each topic that are asked again at a time: the oldest ones, so that the cost does not grow
/// with the number of known answers.
const NET_SIZE: usize = 32;
/// Most questions of a topic that are asked again at a time, where a component has looked at none of them for a minute
/// (`last_look.rs`).
const MOST_OF_NET: usize = 6 * NET_SIZE;

/// Keys of announcements that are remembered. More changes between two looks make a component look at all of its queues.
const LOG: usize = 1024;

/// The purpose of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// Tasks to run.
    Work,
    /// Tasks that become due.
    Due,
    /// Groups of tasks.
    Groups,
    /// Leases that end.
    Leases,
    /// Housekeeping.
    Cleaning,
    /// The lead of schedulers, and which queues there are.
    Names,
}

/// The property of a key that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// How long a list is.
    Length,
    /// 1 if the key is there, or 0.
    Exists,
    /// The score of a zset's first member, none if it is empty.
    Head,
    /// How many members a zset has.
    Size,
    /// How many members a set has.
    Members,
    /// Milliseconds until the key expires; the answer holds for the moment only.
    TimeToLive,
}

/// A question that a plain command answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    kind: Kind,
    key: String,
}

impl Question {
    pub(super) fn new(kind: Kind, key: String) -> Self {
        Self { kind, key }
    }

    pub(super) fn call(&self) -> Call {
        match self.kind {
            Kind::Length => Call::plain("LLEN").arg(&self.key),
            Kind::Exists => Call::plain("EXISTS").arg(&self.key),
            Kind::Head => Call::plain("ZRANGE").arg(&self.key).arg(0).arg(0).arg("WITHSCORES"),
            Kind::Size => Call::plain("ZCARD").arg(&self.key),
            Kind::Members => Call::plain("SCARD").arg(&self.key),
            Kind::TimeToLive => Call::plain("PTTL").arg(&self.key),
        }
    }

    pub(super) fn read(&self, answer: Value) -> Option<i64> {
        match self.kind {
            Kind::Head => reply::only_score(answer),
            _ => reply::number(&answer),
        }
    }
}

/// The subject of an announcement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Keys(Vec<String>),
    /// Anything may have changed.
    All,
}

impl Change {
    /// Reads the keys of an invalidation; one without keys is about all of them. `None` for notifications of another
    /// kind.
    pub(super) fn read(push: PushInfo) -> Option<Self> {
        if push.kind != PushKind::Invalidate {
            return None;
        }
        let keys = push.data.into_iter().next().and_then(|keys| reply::array(keys).ok()).unwrap_or_default();
        let keys: Vec<String> = keys.into_iter().filter_map(reply::text).collect();
        Some(if keys.is_empty() { Self::All } else { Self::Keys(keys) })
    }
}

/// The answers that still hold, of one connection or of all connections of a router.
#[derive(Debug, Default)]
pub(super) struct Seen {
    keys: HashMap<String, Key>,
    /// Whether keys existed ([`Kind::Exists`]) that were announced and not read since.
    existed: HashMap<String, Option<i64>>,
    reads: u64,
    /// Counts the announcements.
    changes: u64,
    /// The keys of the last announcements that were read for a topic, the oldest first.
    log: VecDeque<Announced>,
    /// The last announcement whose keys are not in the log any more.
    forgotten: u64,
    /// Counts, for each topic, the announcements about its keys.
    changes_of: HashMap<Topic, u64>,
    /// Per topic: the time at which it last got a share of questions to ask again, and the rest of that share.
    nets: HashMap<Topic, (Instant, usize)>,
}

/// A key that was read and announced.
#[derive(Debug)]
struct Announced {
    /// The number of the announcement.
    number: u64,
    key: String,
    topics: Vec<Topic>,
}

/// A key whose next change Redis announces.
#[derive(Debug, Default)]
struct Key {
    /// The answers about the key; none if they were forgotten.
    known: Vec<(Kind, Known)>,
    /// The topics for which the key was read.
    topics: Vec<Topic>,
}

impl Key {
    fn known(&self, kind: Kind) -> Option<Known> {
        self.known.iter().find(|(noted, _)| *noted == kind).map(|&(_, known)| known)
    }

    fn note_topic(&mut self, topic: Topic) {
        if !self.topics.contains(&topic) {
            self.topics.push(topic);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Known {
    /// A read is under way; the number of the first reader.
    Reading(u64),
    /// The number of the read, its answer and the time of that.
    Answer { read: u64, answer: Option<i64>, since: Instant },
}

/// Shared by the callers that ask on one connection and the listener of its announcements.
pub(super) type SharedSeen = Arc<Mutex<Seen>>;

impl Seen {
    /// Returns the answer, if it is known. The inner `None` is an answer without a number, such as the head of an empty
    /// zset.
    pub(super) fn answer(&self, question: &Question) -> Option<Option<i64>> {
        match self.known(question)? {
            Known::Answer { answer, .. } => Some(answer),
            Known::Reading(_) => None,
        }
    }

    /// Returns those of `questions` that have to be asked: those without a known answer, and every [`NET`] some of the
    /// oldest.
    pub(super) fn unknown<'q>(
        &mut self,
        topic: Topic,
        questions: impl IntoIterator<Item = &'q Question>,
        now: Instant,
    ) -> Vec<&'q Question> {
        let (mut unknown, mut old) = (Vec::new(), Vec::new());
        let (since, mut share) = self.nets.get(&topic).copied().unwrap_or((now, 0));
        let is_due = since + NET <= now;
        if is_due {
            let nets = now.saturating_duration_since(since).as_secs() / NET.as_secs();
            let more = NET_SIZE.saturating_mul(usize::try_from(nets).unwrap_or(usize::MAX));
            share = share.saturating_add(more).min(MOST_OF_NET);
        }
        for question in questions {
            // A topic that relies on an answer is notified of its change, also if another topic has asked for it.
            let known = self.keys.get_mut(&question.key).and_then(|key| {
                key.note_topic(topic);
                key.known(question.kind)
            });
            match known {
                Some(Known::Answer { since, .. }) if share > 0 && since + NET <= now => old.push((since, question)),
                Some(Known::Answer { .. }) => {}
                Some(Known::Reading(_)) | None => unknown.push(question),
            }
        }
        old.sort_by_key(|&(since, _)| since);
        old.truncate(share);
        self.nets.insert(topic, (if is_due { now } else { since }, share - old.len()));
        unknown.extend(old.into_iter().map(|(_, question)| question));
        unknown
    }

    /// Notes that these questions are asked now. Returns the number under which they are [`answered`](Self::answered).
    pub(super) fn begin_read(&mut self, topic: Topic, questions: &[&Question]) -> u64 {
        self.reads += 1;
        for question in questions {
            let key = self.keys.entry(question.key.clone()).or_default();
            key.note_topic(topic);
            let known = &mut key.known;
            match known.iter_mut().find(|(kind, _)| *kind == question.kind) {
                // The number of the first read stays: no change was announced since it began, so the answers of all
                // reads hold.
                Some((_, Known::Reading(_))) => {}
                Some((_, known)) => *known = Known::Reading(self.reads),
                None => known.push((question.kind, Known::Reading(self.reads))),
            }
        }
        self.reads
    }

    /// Returns whether Redis has announced a key that has not changed. It does so when its tracking table is full, and forgets the key.
    ///
    /// Only the existence of a key tells that: where a list is as long as before, another server may have taken a new task. The answer is
    /// not noted yet ([`answered`](Self::answered)).
    pub(super) fn was_evicted(&mut self, question: &Question, answer: Option<i64>) -> bool {
        if question.kind != Kind::Exists {
            return false;
        }
        let before = self.existed.remove(&question.key);
        if !self.keys.contains_key(&question.key) {
            self.existed.insert(question.key.clone(), answer);
        }
        before == Some(answer)
    }

    /// Notes an answer, unless a change was announced since the question was asked under this number. The answer of a later read is
    /// not overwritten: the change between the two may have been announced.
    pub(super) fn answered(&mut self, read: u64, question: &Question, answer: Option<i64>, now: Instant) {
        let Some(Key { known, .. }) = self.keys.get_mut(&question.key) else { return };
        match known.iter_mut().find(|(kind, _)| *kind == question.kind) {
            Some((_, Known::Reading(later) | Known::Answer { read: later, .. })) if *later > read => {}
            Some((_, known)) => *known = Known::Answer { read, answer, since: now },
            None => {}
        }
    }

    /// Forgets an answer, because the caller is about to change it. The change is still announced to others.
    pub(super) fn forget(&mut self, question: &Question) {
        if let Some(Key { known, .. }) = self.keys.get_mut(&question.key) {
            known.retain(|(kind, _)| *kind != question.kind);
        }
    }

    /// Applies an announcement.
    pub(super) fn changed(&mut self, change: &Change) {
        self.changes += 1;
        match change {
            Change::Keys(keys) => {
                for key in keys {
                    if let Some(Known::Answer { answer: existed, .. }) =
                        self.keys.get(key).and_then(|key| key.known(Kind::Exists))
                    {
                        self.existed.insert(key.clone(), existed);
                    }
                }
                for (key, Key { topics, .. }) in keys.iter().filter_map(|key| self.keys.remove_entry(key)) {
                    for &topic in &topics {
                        *self.changes_of.entry(topic).or_default() += 1;
                    }
                    self.log.push_back(Announced { number: self.changes, key, topics });
                }
                let over = self.log.len().saturating_sub(LOG);
                self.forgotten = self.log.drain(..over).next_back().map_or(self.forgotten, |last| last.number);
            }
            Change::All => {
                self.keys.clear();
                self.existed.clear();
                self.log.clear();
                self.forgotten = self.changes;
                self.changes_of.values_mut().for_each(|changes| *changes += 1);
            }
        }
    }

    /// Returns a number that grows with each announcement.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the keys that were read for `topic` and announced after the announcement of this number, some of them more than once;
    /// `None` where not all of them are known any more.
    pub(super) fn changed_since(&self, number: u64, topic: Topic) -> Option<impl Iterator<Item = &str>> {
        let from = self.log.partition_point(|announced| announced.number <= number);
        let of_topic = move |announced: &&Announced| announced.topics.contains(&topic);
        (number >= self.forgotten)
            .then(|| self.log.range(from..).filter(of_topic).map(|announced| announced.key.as_str()))
    }

    /// Returns a number that grows with each announcement about a key that was read for this topic.
    pub(super) fn changes_of(&mut self, topic: Topic) -> u64 {
        *self.changes_of.entry(topic).or_default()
    }

    fn known(&self, question: &Question) -> Option<Known> {
        self.keys.get(&question.key)?.known(question.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(key: &str) -> Question {
        Question::new(Kind::Length, key.to_owned())
    }

    fn keys(keys: &[&str]) -> Change {
        Change::Keys(keys.iter().map(|&key| key.to_owned()).collect())
    }

    #[test]
    fn a_topic_that_finds_a_known_answer_is_notified_of_its_change() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let question = length("a");
        let read = seen.begin_read(Topic::Cleaning, &[&question]);
        seen.answered(read, &question, Some(0), now);
        assert_eq!(seen.unknown(Topic::Work, [&question], now), Vec::<&Question>::new());
        let before = [Topic::Work, Topic::Cleaning, Topic::Due].map(|topic| seen.changes_of(topic));
        seen.changed(&keys(&["a"]));
        let after = [Topic::Work, Topic::Cleaning, Topic::Due].map(|topic| seen.changes_of(topic));
        assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [1, 1, 0]);
    }

    #[test]
    fn only_changed_keys_are_asked_again() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let questions = [length("a"), length("b"), Question::new(Kind::Exists, "a".to_owned())];
        let unknown: Vec<&Question> = seen.unknown(Topic::Work, &questions, now);
        assert_eq!(unknown.len(), 3);
        let read = seen.begin_read(Topic::Work, &unknown);
        questions.iter().for_each(|question| seen.answered(read, question, Some(0), now));
        assert_eq!(seen.unknown(Topic::Work, &questions, now), [] as [&Question; 0]);
        seen.changed(&keys(&["b", "elsewhere"]));
        assert_eq!(seen.unknown(Topic::Work, &questions, now), [&questions[1]]);
        assert_eq!((seen.answer(&questions[0]), seen.answer(&questions[1])), (Some(Some(0)), None));
        seen.changed(&keys(&["a"]));
        assert_eq!(seen.unknown(Topic::Work, &questions, now).len(), 3, "all that was asked of the key");
        seen.changed(&Change::All);
        assert_eq!(seen.unknown(Topic::Work, &questions, now).len(), 3);
    }

    #[test]
    fn a_key_was_evicted_where_it_was_announced_and_exists_or_not_as_before() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let paused = Question::new(Kind::Exists, "a".to_owned());
        let note = |seen: &mut Seen, read, question: &Question, answer| {
            let was_evicted = seen.was_evicted(question, answer);
            seen.answered(read, question, answer, now);
            was_evicted
        };
        let read = |seen: &mut Seen, question: &Question, answer| {
            let read = seen.begin_read(Topic::Work, &[question]);
            note(seen, read, question, answer)
        };
        assert!(!read(&mut seen, &paused, Some(0)));
        assert!(!read(&mut seen, &paused, Some(0)), "it is asked again every while");
        seen.changed(&keys(&["a"]));
        assert!(!read(&mut seen, &paused, Some(1)), "it has changed");
        seen.changed(&keys(&["a"]));
        assert!(read(&mut seen, &paused, Some(1)));
        assert!(!read(&mut seen, &paused, Some(1)));
        let overtaken = |seen: &mut Seen, question: &Question| {
            let read = seen.begin_read(Topic::Work, &[question]);
            seen.changed(&keys(&["a"]));
            note(seen, read, question, Some(1))
        };
        assert_eq!(
            [0; 3].map(|_| overtaken(&mut seen, &paused)),
            [false, true, true],
            "announced before the answer came"
        );
        seen.changed(&Change::All);
        assert!(!read(&mut seen, &paused, Some(1)), "the connection was lost");
        assert_eq!([0; 3].map(|_| overtaken(&mut seen, &length("a"))), [false; 3], "tasks come and go");
    }

    #[test]
    fn an_answer_that_a_change_has_overtaken_does_not_count() {
        let (mut seen, now, a) = (Seen::default(), Instant::now(), length("a"));
        let first = seen.begin_read(Topic::Work, &[&a]);
        seen.changed(&keys(&["a"]));
        seen.answered(first, &a, Some(0), now);
        assert_eq!(seen.answer(&a), None);
        // Another caller has asked again before the first answer came.
        let first = seen.begin_read(Topic::Work, &[&a]);
        seen.changed(&keys(&["a"]));
        let second = seen.begin_read(Topic::Work, &[&a]);
        seen.answered(first, &a, Some(0), now);
        assert_eq!(seen.answer(&a), None);
        seen.answered(second, &a, Some(1), now);
        assert_eq!(seen.answer(&a), Some(Some(1)));
        // The answer of the second caller was noted first.
        seen.answered(first, &a, Some(0), now);
        assert_eq!(seen.answer(&a), Some(Some(1)));
        // Two callers ask at once, and nothing changes: either answer holds.
        seen.forget(&a);
        let (first, second) = (seen.begin_read(Topic::Work, &[&a]), seen.begin_read(Topic::Work, &[&a]));
        seen.answered(second, &a, Some(2), now);
        assert_eq!(seen.answer(&a), Some(Some(2)));
        seen.answered(first, &a, Some(2), now);
        assert_eq!(seen.answer(&a), Some(Some(2)));
        seen.forget(&a);
        assert_eq!(seen.answer(&a), None);
    }

    #[test]
    fn the_oldest_answers_are_asked_again_every_while_and_only_so_many() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let questions: Vec<Question> = (0..100).map(|i| length(&i.to_string())).collect();
        let look = |seen: &mut Seen, at: u32| {
            let now = start + NET * at;
            let unknown = seen.unknown(Topic::Work, &questions, now);
            let read = seen.begin_read(Topic::Work, &unknown);
            unknown.iter().for_each(|question| seen.answered(read, question, Some(0), now));
            unknown.iter().map(|question| question.key.parse::<usize>().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(look(&mut seen, 0).len(), 100);
        assert!(look(&mut seen, 0).is_empty());
        let again: Vec<usize> = (1..=4).flat_map(|at| look(&mut seen, at)).collect();
        assert_eq!(again[..100], (0..100).collect::<Vec<_>>(), "in turn");
        assert_eq!(again.len(), 4 * NET_SIZE);
    }

    #[test]
    fn a_topic_receives_its_own_keys_and_those_that_another_caller_has_forgotten() {
        let (mut seen, now, a, b) = (Seen::default(), Instant::now(), length("a"), length("b"));
        let read = |seen: &mut Seen, topic, question: &Question| {
            let read = seen.begin_read(topic, &[question]);
            seen.answered(read, question, Some(0), now);
        };
        let both = |seen: &mut Seen| [Topic::Work, Topic::Due].map(|topic| seen.changes_of(topic));
        assert_eq!(both(&mut seen), [0, 0]);
        read(&mut seen, Topic::Work, &a);
        read(&mut seen, Topic::Due, &b);
        seen.changed(&keys(&["a", "elsewhere"]));
        assert_eq!(both(&mut seen), [1, 0]);
        seen.forget(&b);
        assert_eq!(seen.answer(&b), None);
        seen.changed(&keys(&["b"]));
        assert_eq!(both(&mut seen), [1, 1]);
        // A change of a key that was read for both topics is announced to both.
        read(&mut seen, Topic::Work, &a);
        read(&mut seen, Topic::Due, &a);
        seen.changed(&keys(&["a"]));
        assert_eq!(both(&mut seen), [2, 2]);
        seen.changed(&Change::All);
        assert_eq!(both(&mut seen), [3, 3]);
    }

    #[test]
    fn an_invalidation_names_its_keys_and_one_without_keys_is_about_everything() {
        let push = |data| PushInfo { kind: PushKind::Invalidate, data };
        let named = Value::Array(vec![Value::BulkString(b"a".to_vec())]);
        assert_eq!(Change::read(push(vec![named])), Some(keys(&["a"])));
        assert_eq!(Change::read(push(vec![Value::Nil])), Some(Change::All));
        assert_eq!(Change::read(PushInfo { kind: PushKind::Message, data: Vec::new() }), None);
    }
}

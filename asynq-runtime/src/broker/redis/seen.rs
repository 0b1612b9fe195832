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

/// Keys about which no component has asked for this long are forgotten: their queue is gone, or this program serves it no more. Each
/// component asks about all of its keys within some minutes (`last_look.rs`).
const UNUSED: Duration = Duration::from_secs(600);

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
    /// Counts the searches for unused keys.
    searches: u64,
    searched: Option<Instant>,
    reads: u64,
    /// The number of the last read that began before anything might have changed ([`Change::All`]).
    last_before_all: u64,
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
    /// The number of searches for unused keys before the key was last asked about.
    used: u64,
}

impl Key {
    fn known(&self, kind: Kind) -> Option<Known> {
        self.known.iter().find(|(noted, _)| *noted == kind).map(|&(_, known)| known)
    }

    fn note_use(&mut self, topic: Topic, searches: u64) {
        self.used = searches;
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
        match self.keys.get(&question.key)?.known(question.kind)? {
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
        self.forget_unused(now);
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
                key.note_use(topic, self.searches);
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

    /// Forgets the keys about which no component asks any more, as if they had changed: a component that relies on an answer all the same
    /// asks again.
    fn forget_unused(&mut self, now: Instant) {
        if *self.searched.get_or_insert(now) + UNUSED > now {
            return;
        }
        self.searched = Some(now);
        let unused = self.keys.iter().filter(|(_, key)| key.used != self.searches);
        let unused: Vec<String> = unused.map(|(name, _)| name.clone()).collect();
        if !unused.is_empty() {
            self.changed(&Change::Keys(unused));
        }
        self.existed.clear();
        self.searches += 1;
    }

    /// Notes that these questions are asked now. Returns the number under which they are [`answered`](Self::answered).
    pub(super) fn begin_read(&mut self, topic: Topic, questions: &[&Question]) -> u64 {
        self.reads += 1;
        for question in questions {
            let key = self.keys.entry(question.key.clone()).or_default();
            key.note_use(topic, self.searches);
            let known = &mut key.known;
            match known.iter_mut().find(|(kind, _)| *kind == question.kind) {
                // The number of the first read stays: no change was announced since it began, so the answers of all
                // reads hold.
                Some((_, Known::Reading(_))) => {}
                Some((_, known)) => *known = Known::Reading(self.reads),
                None => {
                    // Most keys have one answer, for which a list would take room for four.
                    known.reserve_exact(1);
                    known.push((question.kind, Known::Reading(self.reads)));
                }
            }
        }
        self.reads
    }

    /// Returns whether Redis has announced a key that has not changed. It does so when its tracking table is full, and forgets the key.
    ///
    /// Only the existence of a key tells that: where a list is as long as before, another server may have taken a new task. The answer to
    /// a read that [`Change::All`] has overtaken does not tell it either, because its key was not announced by name. The answer is
    /// not noted yet ([`answered`](Self::answered)).
    pub(super) fn was_evicted(&mut self, read: u64, question: &Question, answer: Option<i64>) -> bool {
        if question.kind != Kind::Exists || read <= self.last_before_all {
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
                self.last_before_all = self.reads;
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
}

#[cfg(test)]
mod tests;

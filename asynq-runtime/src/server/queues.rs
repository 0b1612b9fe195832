//! Decides how many tasks to ask of each queue: by weight or strictly by rank, within the limit of each queue.
//!
//! A server serves *entries*: queues, and patterns that stand for all queues of such a name. The queues of a pattern share
//! its weight, so that a thousand tenants do not drown the rest; its limit holds for each of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use asynq_grammar::Pattern;

use crate::task::{QueueName, QueueWeight};
use fastrand::Rng;

/// How many queues one call asks at most.
pub(crate) const MOST_QUEUES_PER_CALL: usize = 100;

/// A queue that a server serves, or a pattern of such queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name of a queue, or a pattern that matches names.
    pub(crate) pattern: Pattern,
    /// At least 1.
    pub(crate) weight: u32,
    /// How many tasks of one queue run at a time on this server at most.
    pub(crate) limit: Option<usize>,
}

/// The queues that a server serves at the moment.
#[derive(Debug)]
pub(crate) struct Queues {
    names: Vec<QueueName>,
    positions: HashMap<QueueName, usize>,
    /// Per queue: the entry by which it is served.
    entry_of: Vec<usize>,
    entries: Vec<Entry>,
    /// Per entry: its weight, divided by the greatest common divisor of all weights.
    weights: Vec<u64>,
    /// The queues of each weight, the greatest weight first.
    ranked: Vec<Vec<usize>>,
}

/// A queue that may be asked for tasks, and for how many at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) queue: usize,
    pub(crate) room: usize,
}

impl Queues {
    /// Returns the queues of `entries`, where `known` are the queues that exist. A queue that is named is served by its own
    /// entry and need not exist; of several patterns that match, the first one counts.
    pub(crate) fn new<'a>(entries: &[Entry], known: impl IntoIterator<Item = &'a QueueName>) -> Self {
        let named = entries.iter().enumerate().filter(|(_, entry)| entry.pattern.is_exact());
        let mut found: HashMap<QueueName, usize> =
            named.map(|(i, entry)| (QueueName::from_wire(entry.pattern.as_str()), i)).collect();
        for name in known {
            if !found.contains_key(name)
                && let Some(by) = entries.iter().position(|entry| entry.pattern.matches(name.as_str()))
            {
                found.insert(name.clone(), by);
            }
        }
        let mut found: Vec<(usize, QueueName)> = found.into_iter().map(|(name, by)| (by, name)).collect();
        found.sort();
        let (entry_of, names): (Vec<usize>, Vec<QueueName>) = found.into_iter().unzip();
        let positions = names.iter().enumerate().map(|(queue, name)| (name.clone(), queue)).collect();
        let divisor = entries.iter().map(|entry| entry.weight).fold(0, gcd).max(1);
        let weights = entries.iter().map(|entry| u64::from(entry.weight / divisor)).collect();
        let mut ranks = BTreeMap::<_, Vec<usize>>::new();
        for (queue, &entry) in entry_of.iter().enumerate() {
            ranks.entry(Reverse(entries[entry].weight)).or_default().push(queue);
        }
        let ranked = ranks.into_values().collect();
        Self { ranked, names, positions, entry_of, entries: entries.to_vec(), weights }
    }

    pub(crate) fn names(&self) -> &[QueueName] {
        &self.names
    }

    /// Returns the position of a queue among the [`names`](Self::names).
    pub(crate) fn position(&self, name: &QueueName) -> Option<usize> {
        self.positions.get(name).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns how many tasks of this queue run at a time at most; `None` = as many as there are slots.
    pub(crate) fn limit(&self, queue: usize) -> Option<usize> {
        self.entries[self.entry_of[queue]].limit
    }

    /// Returns the queues by rank: queues of one weight have one rank.
    pub(crate) fn ranked(&self) -> &[Vec<usize>] {
        &self.ranked
    }

    /// Returns the open queues in an order drawn by weight, without replacement: the chance of a queue to come first is its share
    /// of the weights, and so on among the rest.
    pub(crate) fn order(&self, open: &[Open], random: &mut Rng) -> Vec<Open> {
        let weights = self.weights_of(open.iter().map(|open| open.queue));
        // The queue with the shortest wait by a clock that ticks with its weight comes first (Efraimidis and Spirakis).
        let keyed = weights.zip(open).map(|(weight, &open)| (-(1.0 - random.f64()).ln() / weight, open));
        let mut keyed: Vec<(f64, Open)> = keyed.collect();
        keyed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        keyed.into_iter().map(|(_, open)| open).collect()
    }

    /// Shares `free` slots among the open queues by weight, as far as they have room. The shares are at most `free` in all and go
    /// to at most [`MOST_QUEUES_PER_CALL`] queues. A slot is left over only when none of those queues has room for it.
    ///
    /// One random number decides: on average each queue gets exactly its share, and never differs from it by a whole slot.
    fn share(&self, free: usize, open: &[Open], random: &mut Rng) -> Vec<(usize, usize)> {
        if free.min(open.len()) > MOST_QUEUES_PER_CALL {
            let mut some = self.order(open, random);
            some.truncate(MOST_QUEUES_PER_CALL);
            return self.share(free, &some, random);
        }
        let mut counts = vec![0; open.len()];
        let (mut left, mut places): (usize, Vec<usize>) = (free, (0..open.len()).collect());
        while left > 0 {
            places.retain(|&place| counts[place] < open[place].room);
            if places.is_empty() {
                break;
            }
            let weights: Vec<f64> = self.weights_of(places.iter().map(|&place| open[place].queue)).collect();
            for (&place, n) in places.iter().zip(portions(left, &weights, random)) {
                let n = n.min(open[place].room - counts[place]);
                counts[place] += n;
                left -= n;
            }
        }
        open.iter().map(|open| open.queue).zip(counts).filter(|&(_, n)| n > 0).collect()
    }

    /// Shares slots as [`share`](Self::share) does, but in whole chunks, so that fewer queues are asked. On average each queue
    /// still gets its share. Slots that are left, because a queue has no room for a chunk, are shared one by one. `open` must be
    /// sorted by queue. Which queue comes first is drawn at random: a call ends at so many bytes, and the large tasks of a queue that
    /// always came first would take the slots of the others.
    pub(crate) fn share_in_chunks(
        &self,
        free: usize,
        open: &[Open],
        chunk: usize,
        random: &mut Rng,
    ) -> Vec<(usize, usize)> {
        let mut shares = self.in_chunks(free, open, chunk, random);
        let first = random.usize(..shares.len().max(1));
        shares.rotate_left(first);
        shares
    }

    fn in_chunks(&self, free: usize, open: &[Open], chunk: usize, random: &mut Rng) -> Vec<(usize, usize)> {
        // Without chunks each queue would get as many slots.
        if chunk <= 1 || free >= open.len().saturating_mul(chunk) {
            return self.share(free, open, random);
        }
        let in_chunks: Vec<Open> = open.iter().map(|open| Open { room: open.room.div_ceil(chunk), ..*open }).collect();
        let mut counts = self.share(free.div_ceil(chunk), &in_chunks, random);
        let room_of = |queue| open.binary_search_by_key(&queue, |open| open.queue).map_or(0, |place| open[place].room);
        let chunks: usize = counts.iter().map(|(_, n)| n).sum();
        // The last chunk may not be whole; the queue that gets it is drawn at random.
        let (over, mut whole) = ((chunks * chunk).saturating_sub(free), random.usize(..chunks.max(1)));
        for (queue, n) in &mut counts {
            let is_short = whole < *n;
            whole = if is_short { usize::MAX } else { whole - *n };
            *n = (*n * chunk - if is_short { over } else { 0 }).min(room_of(*queue));
        }
        let left = free - counts.iter().map(|(_, n)| n).sum::<usize>();
        if left > 0 {
            let had: HashMap<usize, usize> = counts.iter().copied().collect();
            let room = |open: &Open| open.room - had.get(&open.queue).copied().unwrap_or_default();
            let rest: Vec<Open> = open.iter().map(|open| Open { room: room(open), ..*open }).collect();
            let more: HashMap<usize, usize> = self.share(left, &rest, random).into_iter().collect();
            for (queue, n) in &mut counts {
                *n += more.get(queue).copied().unwrap_or_default();
            }
            counts.extend(more.into_iter().filter(|(queue, _)| !had.contains_key(queue)));
        }
        counts.retain(|&(_, n)| n > 0);
        counts.truncate(MOST_QUEUES_PER_CALL);
        counts
    }

    /// Shares `free` slots so that as many open queues as possible are asked at all, in one round trip: for a server that
    /// knows of no work anywhere, where weights need not decide yet.
    pub(crate) fn probe(&self, free: usize, open: &[Open], random: &mut Rng) -> Vec<(usize, usize)> {
        let mut reached = self.order(open, random);
        reached.retain(|open| open.room > 0);
        reached.truncate(free.min(MOST_QUEUES_PER_CALL));
        let more: Vec<Open> = reached.iter().map(|open| Open { room: open.room - 1, ..*open }).collect();
        let mut counts: Vec<(usize, usize)> = reached.iter().map(|open| (open.queue, 1)).collect();
        let extra: HashMap<usize, usize> = self.share(free - reached.len(), &more, random).into_iter().collect();
        for (queue, n) in &mut counts {
            *n += extra.get(queue).copied().unwrap_or_default();
        }
        counts
    }

    /// Returns the weight of each of `queues`: those of an entry share its weight equally.
    fn weights_of(&self, queues: impl Iterator<Item = usize> + Clone) -> impl Iterator<Item = f64> {
        let mut queues_of = vec![0_u64; self.entries.len()];
        let entries = queues.map(|queue| self.entry_of[queue]);
        entries.clone().for_each(|entry| queues_of[entry] += 1);
        entries.map(move |entry| self.weights[entry] as f64 / queues_of[entry] as f64)
    }
}

/// Returns the entries with their weights as they were declared, as asynq shows them; a pattern is shown as written.
pub(crate) fn to_wire(entries: &[Entry]) -> Vec<QueueWeight> {
    let one = |entry: &Entry| QueueWeight {
        queue: Some(entry.pattern.as_str().to_owned()),
        weight: Some(i32::try_from(entry.weight).unwrap_or(i32::MAX)),
    };
    entries.iter().map(one).collect()
}

/// Divides `slots` into whole portions by weight, with one random number: it moves all borders between the portions by the
/// same fraction of a slot (systematic sampling).
fn portions(slots: usize, weights: &[f64], random: &mut Rng) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let shift = random.f64();
    let (mut below, mut before, last) = (0.0, 0, weights.len().saturating_sub(1));
    let portion = |(place, weight): (usize, &f64)| {
        below += weight;
        // The last border is exact, however the sum was rounded.
        let border = if place == last { slots } else { ((slots as f64 * below / total + shift) as usize).min(slots) };
        border - std::mem::replace(&mut before, border)
    };
    weights.iter().enumerate().map(portion).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;

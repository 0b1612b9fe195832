//! Waits for tasks to run and for tasks that become due: each wait ends with the next write that matters.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::sleep;

use super::{
    super::{BrokerError, Presence as _, Quarantined, far},
    RedisBroker,
    jitter::jitter,
    keys::Keys,
    last_look::{Finding, Look},
    quarantine::TRUSTED_FOR,
    seen::{Kind, Question, Topic},
    wake::TrackedReads,
};
use crate::task::QueueName;

/// Time after a notification of a schedule in which further ones are gathered.
const TOGETHER: Duration = Duration::from_millis(5);
/// Shortest time between two looks at schedules while notifications keep coming: every delayed task sends one.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Poll interval of a given clock, which a test may set.
const MANUAL_CLOCK_POLL: Duration = Duration::from_millis(2);
/// Most changed queues to dequeue from without a look at their lengths; more suggest that the connection was lost.
const FEW: usize = 8;
/// The time after which queues that could not be read are read again. Until then a wait goes on for the other queues.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// A queue, with the questions that tell whether it has tasks to take.
struct WatchedQueue<'q> {
    queue: &'q QueueName,
    pending: Question,
    /// Needed beside the length, which does not change with a resume.
    paused: Question,
}

/// Whether a watched queue has tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Something,
    Nothing,
    /// Not known yet.
    Unknown,
    /// Tasks that all seem to be quarantined. The assumption holds for [`TRUSTED_FOR`].
    Spared,
}

impl Readiness {
    /// Returns the finding about a queue in this state.
    fn finding(self) -> Finding {
        match self {
            Self::Something => Finding::From(Some(0)),
            Self::Nothing => Finding::From(None),
            Self::Unknown | Self::Spared => Finding::Unknown,
        }
    }
}

impl<'q> WatchedQueue<'q> {
    fn of(queues: &'q [QueueName], places: &[usize]) -> Vec<Self> {
        let watched = |&place: &usize| {
            let queue = &queues[place];
            let keys = Keys::new(queue);
            let pending = Question::new(Kind::Length, keys.pending());
            WatchedQueue { queue, pending, paused: Question::new(Kind::Exists, keys.paused()) }
        };
        places.iter().map(watched).collect()
    }

    /// Returns the questions to ask. Of a queue that is known to be paused, only the pause is asked.
    fn questions<'d>(&'d self, reads: &TrackedReads<'_>) -> impl Iterator<Item = &'d Question> + use<'d, 'q> {
        let is_paused = reads.answer(&self.paused) == Some(Some(1));
        [(!is_paused).then_some(&self.pending), Some(&self.paused)].into_iter().flatten()
    }

    /// Returns whether one of the questions is among those.
    fn is_among(&self, questions: &HashSet<&Question>) -> bool {
        questions.contains(&self.pending) || questions.contains(&self.paused)
    }

    fn look(&self, answer: impl Fn(&Question) -> Option<Option<i64>>, is_spared: impl Fn(i64) -> bool) -> Readiness {
        match (answer(&self.paused), answer(&self.pending)) {
            (None, _) | (Some(Some(0)), None) => Readiness::Unknown,
            (Some(Some(0)), Some(Some(pending))) if pending > 0 && is_spared(pending) => Readiness::Spared,
            (Some(Some(0)), Some(Some(pending))) if pending > 0 => Readiness::Something,
            _ => Readiness::Nothing,
        }
    }
}

impl RedisBroker {
    /// See [`Consume::wait_for_work`](crate::broker::Consume::wait_for_work).
    pub(super) async fn wait_for_pending(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        let end = end(limit);
        if queues.is_empty() {
            sleep(limit).await;
            return Ok(Vec::new());
        }
        let mut reads = self.own_reads();
        let (mut look, mut read_again) = (self.looks.work.take(&reads, queues), None);
        loop {
            look.refresh(&reads);
            look.forget(&look.due(0));
            let watched = WatchedQueue::of(queues, look.stale());
            let questions: Vec<&Question> = watched.iter().flat_map(|queue| queue.questions(&reads)).collect();
            let report = reads.ask(questions).await?;
            let overtaken = self.answers_of_evicted(report.answers);
            let answer = |question: &Question| reads.answer(question).or_else(|| overtaken.get(question).copied());
            let readiness = self.readiness(&watched, answer, quarantined);
            let open = places_of(&look, &readiness, Readiness::Something);
            let spared = places_of(&look, &readiness, Readiness::Spared);
            let is_unreadable = |queue: &WatchedQueue<'_>| queue.is_among(&report.failed);
            let unreadable = places_where(&look, watched.iter().map(is_unreadable));
            look.note(readiness.into_iter().map(Readiness::finding));
            if !open.is_empty() {
                return Ok(self.take_from(queues, &open, look, &reads));
            }
            // The other queues are waited for, unless there are none.
            let failure = report.failure.filter(|_| unreadable.len() == queues.len());
            failure.map_or(Ok(()), Err)?;
            // `changed` would not report what was announced between the refresh above and the questions, so the wait is skipped then.
            look.refresh(&reads);
            let is_announced = reads.is_tracked() && look.stale().len() > spared.len() + unreadable.len();
            let wait = if spared.is_empty() { left(end) } else { left(end).min(TRUSTED_FOR) };
            let wait = if unreadable.is_empty() { wait } else { wait.min(until_read_again(&mut read_again)) };
            if !reads.changed_or(is_announced, wait).await? {
                // A dequeue from a queue that cannot be read reports the error.
                return Ok(self.take_from(queues, &[spared, unreadable].concat(), look, &reads));
            }
            look.refresh(&reads);
            let watched = WatchedQueue::of(queues, look.stale());
            let readiness = self.readiness(&watched, |question| reads.answer(question), quarantined);
            let mut changed = places_of(&look, &readiness, Readiness::Unknown);
            changed.retain(|place| unreadable.binary_search(place).is_err());
            if changed.is_empty() || !reads.is_tracked() {
                continue;
            }
            if self.servers_alive() <= 1 && changed.len() <= FEW {
                // An announcement means that the queue has tasks, or had some: a look before the dequeue would only
                // cost time.
                return Ok(self.take_from(queues, &changed, look, &reads));
            }
            // Other servers receive the same push. A dequeue after another server took the task finds an empty list, which
            // is its cheapest path.
            let delay = jitter(self.servers_alive()).min(left(end));
            // A sleep of zero would last up to a millisecond, too.
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }

    /// Returns the queues at `places`, from which the caller takes now, and keeps the look. Their lengths are forgotten, because
    /// they change.
    fn take_from(
        &self,
        queues: &[QueueName],
        places: &[usize],
        mut look: Look<QueueName>,
        reads: &TrackedReads<'_>,
    ) -> Vec<QueueName> {
        let taken = WatchedQueue::of(queues, places);
        reads.forget(taken.iter().map(|watched| &watched.pending));
        look.forget(places);
        self.looks.work.keep(look, reads);
        taken.into_iter().map(|watched| watched.queue.clone()).collect()
    }

    /// See [`Consume::ready`](crate::broker::Consume::ready).
    pub(super) async fn ready_at(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
    ) -> Result<Vec<QueueName>, BrokerError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let mut reads = self.own_reads();
        let mut look = self.looks.work.take(&reads, queues);
        // Announcements made before an answer arrive with it, so the second round knows all changes until the call.
        for is_first in [true, false] {
            look.refresh(&reads);
            if quarantined == Quarantined::None {
                // The tasks of a queue that was ready may all be quarantined.
                look.forget(&look.due(0));
            }
            let watched = WatchedQueue::of(queues, look.stale());
            let questions: Vec<&Question> = watched.iter().flat_map(|queue| queue.questions(&reads)).collect();
            let report = match reads.ask(questions.clone()).await {
                // Redis may answer on other connections.
                Err(_) if reads.is_tracked() => {
                    reads.stop_tracking();
                    reads.ask(questions).await?
                }
                report => report?,
            };
            // The answer of one node does not bring the announcements of the others. Where tracking is refused, none come.
            let is_behind = reads.is_tracked() && (report.count == 0 || !reads.is_own());
            if is_first && is_behind && reads.catch_up().await.is_err() {
                reads.stop_tracking();
            }
        }
        let watched = WatchedQueue::of(queues, look.stale());
        let readiness = self.readiness(&watched, |question| reads.answer(question), quarantined);
        let spared: Vec<usize> = places_of(&look, &readiness, Readiness::Spared);
        look.note(readiness.into_iter().map(Readiness::finding));
        // A queue whose keys cannot be read counts as ready: the dequeue reports the error. The lengths stay known: the caller
        // takes from some of these queues, which Redis announces.
        let ready = look.due(0).into_iter().filter(|place| spared.binary_search(place).is_err());
        let ready = ready.map(|place| queues[place].clone()).collect();
        self.looks.work.keep(look, &reads);
        Ok(ready)
    }

    /// Returns the answers that count although their keys were announced since: where Redis evicts many keys, none might ever hold, and a
    /// task would not be seen.
    fn answers_of_evicted<'q>(&self, answers: Vec<(&'q Question, Option<i64>)>) -> HashMap<&'q Question, Option<i64>> {
        if self.evictions.are_many(Instant::now()) { answers.into_iter().collect() } else { HashMap::new() }
    }

    /// Returns the readiness of each of the watched queues.
    fn readiness(
        &self,
        watched: &[WatchedQueue<'_>],
        answer: impl Fn(&Question) -> Option<Option<i64>>,
        quarantined: Quarantined,
    ) -> Vec<Readiness> {
        let look =
            |queue: &WatchedQueue<'_>| queue.look(&answer, |pending| self.is_spared(queue.queue, pending, quarantined));
        watched.iter().map(look).collect()
    }

    /// See [`Maintain::wait_for_due`](crate::broker::Maintain::wait_for_due).
    pub(super) async fn wait_for_next_due(
        &self,
        queues: &[QueueName],
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        let end = end(limit);
        if queues.is_empty() {
            sleep(limit).await;
            return Ok(Vec::new());
        }
        let mut reads = self.reads(Topic::Due);
        let mut look = self.looks.due.take(&reads, queues);
        let mut has_let_others_go = false;
        let (mut last_look, mut read_again): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            look.refresh(&reads);
            let heads: Vec<[Question; 3]> = look.stale().iter().map(|&place| heads_of(&queues[place])).collect();
            let report = reads.ask(heads.iter().flatten()).await?;
            let is_unreadable = |heads: &[Question; 3]| heads.iter().any(|head| report.failed.contains(head));
            let unreadable_heads: Vec<bool> = heads.iter().map(is_unreadable).collect();
            let unreadable = places_where(&look, unreadable_heads.iter().copied());
            // The other queues are waited for, unless there are none.
            let failure = report.failure.clone().filter(|_| unreadable.len() == queues.len());
            failure.map_or(Ok(()), Err)?;
            let since = last_look.replace(Instant::now());
            let dues = dues(&heads, report.answers, |question| reads.answer(question));
            let dues = dues.into_iter().zip(unreadable_heads);
            look.note(dues.map(|(due, is_unreadable)| Finding::From(due.filter(|_| !is_unreadable))));
            look.forget(&unreadable);
            let due = look.due(self.clock.now().timestamp_millis());
            if !due.is_empty() {
                // Every forwarder wakes at this moment. The jitter lets later ones see that the first has moved the
                // tasks.
                let delay = jitter(self.servers_alive());
                if has_let_others_go || delay.is_zero() {
                    let heads: Vec<[Question; 3]> = due.iter().map(|&place| heads_of(&queues[place])).collect();
                    reads.forget(heads.iter().flatten());
                    look.forget(&due);
                    self.looks.due.keep(look, &reads);
                    return Ok(due.into_iter().map(|place| queues[place].clone()).collect());
                }
                has_let_others_go = true;
                sleep(delay).await;
                continue;
            }
            has_let_others_go = false;
            let next = look.next().and_then(DateTime::from_timestamp_millis);
            // `changed` would not report what was announced between the refresh above and the questions, so the wait is skipped then.
            look.refresh(&reads);
            let is_announced = reads.is_tracked() && look.stale().len() > unreadable.len();
            let wait = if unreadable.is_empty() { left(end) } else { left(end).min(until_read_again(&mut read_again)) };
            let has_changed = tokio::select! {
                biased;
                () = self.sleep_until(next) => continue,
                received = reads.changed_or(is_announced, wait) => received?,
            };
            if !has_changed {
                self.looks.due.keep(look, &reads);
                // The other queues were waited for.
                return report.failure.map_or(Ok(Vec::new()), Err);
            }
            if reads.is_tracked() {
                tokio::select! {
                    () = sleep(gather(since.map(|since| since.elapsed())).min(left(end))) => {}
                    () = self.sleep_until(next) => {}
                }
            }
        }
    }

    /// Sleeps until the broker's clock shows `at`; for ever if there is no such time.
    async fn sleep_until(&self, at: Option<DateTime<Utc>>) {
        let Some(at) = at else { return std::future::pending().await };
        loop {
            let left = at - self.clock.now();
            if left <= TimeDelta::zero() {
                return;
            }
            let left = left.to_std().unwrap_or_default();
            sleep(if self.clock.is_given() { left.min(MANUAL_CLOCK_POLL) } else { left }).await;
        }
    }
}

/// Returns those of the stale places of `look` that have this readiness.
fn places_of(look: &Look<QueueName>, readiness: &[Readiness], wanted: Readiness) -> Vec<usize> {
    places_where(look, readiness.iter().map(|readiness| *readiness == wanted))
}

/// Returns those of the stale places of `look` for which `is_wanted` is true, in ascending order.
fn places_where(look: &Look<QueueName>, is_wanted: impl Iterator<Item = bool>) -> Vec<usize> {
    look.stale().iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted).map(|(&place, _)| place).collect()
}

/// Returns the heads of `x:due`, `scheduled` and `retry` of a queue.
fn heads_of(queue: &QueueName) -> [Question; 3] {
    let keys = Keys::new(queue);
    [keys.due(), keys.scheduled(), keys.retry()].map(|key| Question::new(Kind::Head, key))
}

/// Returns the earliest of the heads of `x:due` (milliseconds), `scheduled` and `retry` (seconds), in milliseconds.
fn due([due, scheduled, retry]: [Option<i64>; 3]) -> Option<i64> {
    let in_milliseconds = |seconds: i64| seconds.saturating_mul(1000);
    [due, scheduled.map(in_milliseconds), retry.map(in_milliseconds)].into_iter().flatten().min()
}

/// Returns when, in milliseconds, the next task of each queue is due, by the `fresh` answers and those `known`
/// before.
///
/// An answer that a change has overtaken counts, too. Without it the wait would gather notifications past the next due
/// time, and the change is often that of the wait's own caller, which forwarded tasks a moment ago.
fn dues(
    heads: &[[Question; 3]],
    fresh: Vec<(&Question, Option<i64>)>,
    known: impl Fn(&Question) -> Option<Option<i64>>,
) -> Vec<Option<i64>> {
    let fresh: HashMap<&Question, Option<i64>> = fresh.into_iter().collect();
    let head = |question| fresh.get(question).copied().or_else(|| known(question)).flatten();
    heads.iter().map(|heads| due([0, 1, 2].map(|i| head(&heads[i])))).collect()
}

/// Returns how long to gather notifications of schedules, if the look before the last one was `since` ago.
fn gather(since: Option<Duration>) -> Duration {
    since.map_or(TOGETHER, |since| BETWEEN_LOOKS.saturating_sub(since).max(TOGETHER))
}

/// Returns how long a wait that has found queues it could not read goes on for the others; `at` remembers its end.
fn until_read_again(at: &mut Option<Instant>) -> Duration {
    left(*at.get_or_insert_with(|| Instant::now() + READ_AGAIN))
}

/// Returns the end of a wait, which lasts no longer than [`FAR`](super::super::FAR).
pub(super) fn end(limit: Duration) -> Instant {
    far(Instant::now(), limit)
}

pub(super) fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_the_three_heads_is_due() {
        let cases = [
            ([None, None, None], None),
            ([Some(5500), Some(6), None], Some(5500)),
            ([Some(5500), Some(6), Some(5)], Some(5000)),
            ([None, Some(i64::MAX), None], Some(i64::MAX)),
        ];
        for (heads, expected) in cases {
            assert_eq!(due(heads), expected, "{heads:?}");
        }
    }

    #[test]
    fn the_next_due_time_is_known_from_an_answer_that_a_change_has_overtaken() {
        let queues = ["a", "b"].map(|name| QueueName::new(name).unwrap());
        let heads: Vec<[Question; 3]> = queues.iter().map(heads_of).collect();
        let is_of_a = |question: &Question| heads[0].contains(question);
        // Only answers asked just now are about queue a, and only those known before about queue b.
        let known = |question: &Question| (!is_of_a(question)).then_some(Some(7));
        let fresh = vec![(&heads[0][0], Some(5500)), (&heads[0][1], None)];
        assert_eq!(dues(&heads, fresh, known), [Some(5500), Some(7)]);
        assert_eq!(dues(&heads, Vec::new(), known), [None, Some(7)]);
    }

    #[test]
    fn notifications_of_schedules_are_gathered_longer_while_they_keep_coming() {
        let ms = Duration::from_millis;
        let cases = [(None, 5), (Some(ms(1)), 49), (Some(ms(30)), 20), (Some(ms(48)), 5), (Some(ms(9000)), 5)];
        for (since, expected) in cases {
            assert_eq!(gather(since), ms(expected), "{since:?}");
        }
    }
}

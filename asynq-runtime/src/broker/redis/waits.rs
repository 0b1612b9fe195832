//! Waits for tasks to run, for tasks that become due, and for a free lead: each wait ends with the next write that
//! matters.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::sleep;

use super::{
    super::{BrokerError, Presence as _, Quarantined, timeouts::FAR},
    RedisBroker,
    keys::{self, Keys},
    quarantine::TRUSTED_FOR,
    reply,
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
/// Poll interval of the names of queues where Redis sends no notifications.
const LOOK_FOR_QUEUES: Duration = Duration::from_millis(500);
/// Most changed queues to dequeue from without a look at their lengths; more suggest that the connection was lost.
const FEW: usize = 8;
/// Number of servers, all of which receive the same notification, for each millisecond of [`RedisBroker::jitter`].
const SERVERS_PER_MS: usize = 8;
/// Longest delay of [`RedisBroker::jitter`], in milliseconds.
const LATEST: u64 = 10;

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

impl<'q> WatchedQueue<'q> {
    fn of(queues: &'q [QueueName]) -> Vec<Self> {
        let queue_reads = |queue: &'q QueueName| {
            let keys = Keys::new(queue);
            let pending = Question::new(Kind::Length, keys.pending());
            WatchedQueue { queue, pending, paused: Question::new(Kind::Exists, keys.paused()) }
        };
        queues.iter().map(queue_reads).collect()
    }

    /// Returns the questions to ask. Of a queue that is known to be paused, only the pause is asked.
    fn questions<'d>(&'d self, reads: &TrackedReads<'_>) -> impl Iterator<Item = &'d Question> + use<'d, 'q> {
        let is_paused = reads.answer(&self.paused) == Some(Some(1));
        [(!is_paused).then_some(&self.pending), Some(&self.paused)].into_iter().flatten()
    }

    fn look(&self, reads: &TrackedReads<'_>, is_spared: impl FnOnce(i64) -> bool) -> Readiness {
        match (reads.answer(&self.paused), reads.answer(&self.pending)) {
            (Some(Some(0)), Some(Some(pending))) if pending > 0 => {
                if is_spared(pending) {
                    Readiness::Spared
                } else {
                    Readiness::Something
                }
            }
            (Some(Some(0)), Some(_)) => Readiness::Nothing,
            (None, _) | (Some(Some(0)), None) => Readiness::Unknown,
            (Some(_), _) => Readiness::Nothing,
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
        let watched = WatchedQueue::of(queues);
        if watched.is_empty() {
            sleep(limit).await;
            return Ok(Vec::new());
        }
        let mut reads = self.own_reads();
        loop {
            ask_about(&watched, &mut reads).await?;
            let of_readiness =
                |reads: &TrackedReads<'_>, wanted| self.of_readiness(&watched, reads, quarantined, wanted);
            let open = of_readiness(&reads, Readiness::Something);
            if !open.is_empty() {
                return Ok(take_from(&open, &reads));
            }
            let spared = of_readiness(&reads, Readiness::Spared);
            let wait = if spared.is_empty() { left(end) } else { left(end).min(TRUSTED_FOR) };
            if !reads.changed(wait).await? {
                return Ok(take_from(&spared, &reads));
            }
            let changed = of_readiness(&reads, Readiness::Unknown);
            if changed.is_empty() || !reads.is_tracked() {
                continue;
            }
            if self.servers_alive() <= 1 && changed.len() <= FEW {
                // An announcement means that the queue has tasks, or had some: a look before the dequeue would only
                // cost time.
                return Ok(take_from(&changed, &reads));
            }
            // Other servers receive the same push. A dequeue after another server took the task finds an empty list, which
            // is its cheapest path.
            let delay = self.jitter().min(left(end));
            // A sleep of zero would last up to a millisecond, too.
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }

    /// See [`Consume::ready`](crate::broker::Consume::ready); `None` if no connection remembers answers, or Redis
    /// cannot be asked.
    pub(super) async fn ready_at(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
    ) -> Result<Option<Vec<QueueName>>, BrokerError> {
        let watched = WatchedQueue::of(queues);
        let mut reads = self.own_reads();
        // Announcements made before an answer arrive with it, so the second look knows all changes until the call.
        for is_first in [true, false] {
            let questions: Vec<&Question> =
                watched.iter().flat_map(|queue_reads| queue_reads.questions(&reads)).collect();
            let Ok(report) = reads.ask(questions).await else { return Ok(None) };
            // The answer of one node does not bring the announcements of the others.
            let is_behind = report.count == 0 || !reads.is_own();
            if is_first && is_behind && reads.catch_up().await.is_err() {
                return Ok(None);
            }
            if !reads.is_tracked() {
                return Ok(None);
            }
        }
        // A queue whose keys cannot be read counts as ready: the dequeue reports the error.
        let is_open = |queue_reads: &&WatchedQueue<'_>| {
            let is_spared = |pending| self.is_spared(queue_reads.queue, pending, quarantined);
            matches!(queue_reads.look(&reads, is_spared), Readiness::Something | Readiness::Unknown)
        };
        // The lengths stay known: the caller takes from some of these queues, which Redis announces.
        Ok(Some(watched.iter().filter(is_open).map(|queue_reads| queue_reads.queue.clone()).collect()))
    }

    fn of_readiness<'d, 'q>(
        &self,
        watched: &'d [WatchedQueue<'q>],
        reads: &TrackedReads<'_>,
        quarantined: Quarantined,
        wanted: Readiness,
    ) -> Vec<&'d WatchedQueue<'q>> {
        let look = |queue_reads: &&WatchedQueue<'_>| {
            queue_reads.look(reads, |pending| self.is_spared(queue_reads.queue, pending, quarantined)) == wanted
        };
        watched.iter().filter(look).collect()
    }

    /// See [`Maintain::wait_for_due`](crate::broker::Maintain::wait_for_due).
    pub(super) async fn wait_for_next_due(
        &self,
        queues: &[QueueName],
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        let end = end(limit);
        let heads: Vec<[Question; 3]> = queues.iter().map(heads_of).collect();
        if heads.is_empty() {
            sleep(limit).await;
            return Ok(Vec::new());
        }
        let mut reads = self.reads(Topic::Due);
        let mut has_let_others_go = false;
        let mut last_look: Option<Instant> = None;
        loop {
            let report = reads.ask(heads.iter().flatten()).await?;
            if let Some(error) = report.failure {
                return Err(error);
            }
            let since = last_look.replace(Instant::now());
            let dues = dues(&heads, report.answers, |question| reads.answer(question));
            let now = self.clock.now().timestamp_millis();
            let is_due: Vec<usize> = (0..queues.len()).filter(|&i| dues[i].is_some_and(|due| due <= now)).collect();
            if !is_due.is_empty() {
                // Every forwarder wakes at this moment. The jitter lets later ones see that the first has moved the
                // tasks.
                let delay = self.jitter();
                if has_let_others_go || delay.is_zero() {
                    reads.forget(is_due.iter().flat_map(|&i| &heads[i]));
                    return Ok(is_due.into_iter().map(|i| queues[i].clone()).collect());
                }
                has_let_others_go = true;
                sleep(delay).await;
                continue;
            }
            has_let_others_go = false;
            let next = dues.into_iter().flatten().min().and_then(DateTime::from_timestamp_millis);
            let is_tracked = tokio::select! {
                biased;
                () = self.sleep_until(next) => continue,
                received = reads.changed(left(end)) => {
                    if received? { reads.is_tracked() } else { return Ok(Vec::new()) }
                }
            };
            if is_tracked {
                tokio::select! {
                    () = sleep(gather(since.map(|since| since.elapsed())).min(left(end))) => {}
                    () = self.sleep_until(next) => {}
                }
            }
        }
    }

    /// See [`Schedules::wait_for_lead`](crate::broker::Schedules::wait_for_lead). `late` is the time after the end of
    /// the lead to wait before a look, so that not all waiting schedulers ask at once.
    pub(super) async fn wait_for_free_lead(
        &self,
        program: &str,
        late: Duration,
        limit: Duration,
    ) -> Result<(), BrokerError> {
        let end = end(limit);
        let lead = Question::new(Kind::TimeToLive, keys::leader(program));
        let mut reads = self.reads(Topic::Names);
        loop {
            reads.forget([&lead]);
            if let Some(error) = reads.ask([&lead]).await?.failure {
                return Err(error);
            }
            // -2: there is no leader. -1: the key has no end, so its holder leads until the key is deleted.
            let lasts = match reads.answer(&lead) {
                Some(Some(-2)) => return Ok(()),
                Some(Some(ms)) => u64::try_from(ms).map_or(FAR, Duration::from_millis).saturating_add(late),
                Some(None) => return Err(reply::unexpected("no time to live")),
                // The lead has changed since it was read.
                None => continue,
            };
            // A renewal of the lead is announced, too: then the wait looks again.
            let until = Instant::now().checked_add(lasts.min(left(end))).unwrap_or(end);
            while reads.answer(&lead).is_some() {
                if !reads.changed(left(until)).await? {
                    return Ok(());
                }
            }
        }
    }

    /// See [`Inspect::wait_for_queues`](crate::broker::Inspect::wait_for_queues).
    pub(super) async fn wait_for_other_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        let end = end(limit);
        let names = Question::new(Kind::Members, keys::QUEUES.to_owned());
        let mut reads = self.reads(Topic::Names);
        if reads.answer(&names).is_none() {
            // Changes are announced from here on. The caller has to look for earlier ones itself.
            reads.ask([&names]).await?.failure.map_or(Ok(()), Err)?;
            if !reads.is_tracked() {
                sleep(LOOK_FOR_QUEUES.min(left(end))).await;
            }
            return Ok(());
        }
        while reads.answer(&names).is_some() && reads.changed(left(end)).await? {}
        Ok(())
    }

    /// Returns a random delay that grows with the number of servers, in whole milliseconds, the resolution of timers;
    /// zero for fewer than 8 servers.
    fn jitter(&self) -> Duration {
        let most = u64::try_from(self.servers_alive() / SERVERS_PER_MS).unwrap_or(LATEST).min(LATEST);
        Duration::from_millis(fastrand::u64(..=most))
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

/// Asks for the unknown answers about these queues.
async fn ask_about(watched: &[WatchedQueue<'_>], reads: &mut TrackedReads<'_>) -> Result<(), BrokerError> {
    let questions: Vec<&Question> = watched.iter().flat_map(|queue_reads| queue_reads.questions(reads)).collect();
    reads.ask(questions).await?.failure.map_or(Ok(()), Err)
}

/// Returns the names of queues from which the caller takes now. Their lengths are forgotten, because they change.
fn take_from(watched: &[&WatchedQueue<'_>], reads: &TrackedReads<'_>) -> Vec<QueueName> {
    reads.forget(watched.iter().map(|queue_reads| &queue_reads.pending));
    watched.iter().map(|queue_reads| queue_reads.queue.clone()).collect()
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

/// Returns the end of a wait; [`FAR`] away if it lies beyond the range of the clock.
pub(super) fn end(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + FAR)
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

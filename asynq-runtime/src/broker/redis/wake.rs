//! Wakes up on the next write by anyone, without polling: client-side caching on a connection used for nothing else.
//!
//! Redis announces the next change of each key that was read on a tracking connection. Scripts must never run on it: one
//! that reads a single key registers every key it declares (docs/design/wire.md#waiting-without-polling).

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use redis::{PushInfo, PushKind};
use tokio::{
    sync::broadcast,
    time::{sleep, timeout},
};

use super::{
    super::{BrokerError, BrokerErrorKind, Quarantined},
    RedisBroker,
    connection::{Answer, Link},
    direct::Direct,
    io::Io,
    keeper::{News, Role},
    keys::{self, Keys},
    quarantine::TRUSTED_FOR,
    reply,
    script::Call,
};
use crate::task::QueueName;

/// How often to look where tracking is refused.
const POLL: Duration = Duration::from_millis(250);
/// After news of a schedule, news of this long are looked at together: every enqueue of a delayed task is one.
const TOGETHER: Duration = Duration::from_millis(5);
/// How often to look at a clock that a test turns by hand.
const HAND_CLOCK: Duration = Duration::from_millis(2);
/// Where a wait without an end ends.
const FAR: Duration = Duration::from_secs(86_400);
/// News that may wait for one listener; a slower one is told that it missed some.
const NEWS: usize = 256;

/// The tracking connection and the bell it rings.
#[derive(Debug)]
pub(super) struct Wake {
    link: Link,
    bell: broadcast::Sender<Ring>,
}

#[derive(Debug, Clone)]
enum Ring {
    /// These keys changed.
    Keys(Arc<[String]>),
    /// Anything may have changed.
    All,
}

impl Wake {
    pub(super) fn open(io: &Io, role: Role) -> Self {
        let (bell, _) = broadcast::channel(NEWS);
        let ring = bell.clone();
        let news = move |news| {
            let change = match news {
                News::Push(push) => changed(push),
                News::Lost => Some(Ring::All),
                // A key that is not there says nothing when its slot goes to another node.
                #[cfg(feature = "cluster")]
                News::Moved => Some(Ring::All),
                News::Connected => None,
            };
            // An error means that nobody waits.
            let _ = change.map(|change| ring.send(change));
        };
        let mut track = redis::cmd("CLIENT");
        track.arg("TRACKING").arg("ON");
        let link = Link::open(io, Role { greeting: vec![track], news: Some(Arc::new(news)), ..role });
        Self { link, bell }
    }
}

/// What an invalidation is about; without keys it is about all of them.
fn changed(push: PushInfo) -> Option<Ring> {
    if push.kind != PushKind::Invalidate {
        return None;
    }
    let keys = push.data.into_iter().next().and_then(|keys| reply::array(keys).ok()).unwrap_or_default();
    let keys: Vec<String> = keys.into_iter().filter_map(reply::text).collect();
    Some(if keys.is_empty() { Ring::All } else { Ring::Keys(keys.into()) })
}

/// How a waiter learns of changes.
enum Ears {
    Bell(broadcast::Receiver<Ring>),
    Poll,
}

impl Ears {
    /// Returns when one of `keys` may have changed.
    async fn hear(&mut self, keys: &HashSet<String>) {
        let Self::Bell(bell) = self else { return sleep(POLL).await };
        loop {
            match bell.recv().await {
                Ok(Ring::Keys(changed)) if !changed.iter().any(|key| keys.contains(key)) => {}
                _ => return,
            }
        }
    }
}

impl RedisBroker {
    /// Asks on the tracking connection, so that changes of what was asked for are heard from then on.
    async fn ask_and_hear(&self, calls: Vec<Call>) -> Result<(Vec<Answer>, Ears), BrokerError> {
        let wake = self.wake();
        // Before the question: nothing may happen in between.
        let ears = Ears::Bell(wake.bell.subscribe());
        match wake.link.send(calls.clone()).await {
            Ok(answers) => Ok((answers, ears)),
            Err(error) if error.is_unavailable() || error.kind() == BrokerErrorKind::Closed => Err(error),
            // Tracking is refused, by a proxy or a missing permission.
            Err(_) => Ok((self.link.send(calls).await?, Ears::Poll)),
        }
    }

    /// See [`Consume::wait_for_work`](crate::broker::Consume::wait_for_work). `false` if the time was over
    /// and nothing was there.
    pub(super) async fn wait_for_pending(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<bool, BrokerError> {
        let end = end(limit);
        let look = |answers| self.look_at_pending(queues, answers, quarantined);
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        // The length alone would miss a resume.
        let calls: Vec<Call> = keys
            .iter()
            .flat_map(|keys| [Call::plain("LLEN").arg(keys.pending()), Call::plain("EXISTS").arg(keys.paused())])
            .collect();
        let watched: HashSet<String> = keys.iter().flat_map(|keys| [keys.pending(), keys.paused()]).collect();
        if calls.is_empty() {
            sleep(limit).await;
            return Ok(false);
        }
        // Where nobody else has to be woken to hear of it. Without an answer Redis may be another by now: look again.
        if let Some(mut own) = self.waiting.as_ref().and_then(Direct::take) {
            let Some(answers) = own.ask_and_hear(calls).await else { return Ok(true) };
            let Pending { any, spared } = look(answers)?;
            return Ok(any || self.until_closed(own.hear(spared.cut(left(end)))).await? || spared.0);
        }
        loop {
            let (answers, mut ears) = self.ask_and_hear(calls.clone()).await?;
            let Pending { any, spared } = look(answers)?;
            if any {
                return Ok(true);
            }
            let heard = self.until_closed(timeout(spared.cut(left(end)), ears.hear(&watched))).await?;
            // A poll has to look first; the bell means that there is something, or was.
            if heard.is_err() || matches!(ears, Ears::Bell(_)) {
                return Ok(heard.is_ok() || spared.0);
            }
        }
    }

    /// See [`Maintain::wait_for_due`](crate::broker::Maintain::wait_for_due). `true` if something is due.
    pub(super) async fn wait_for_next_due(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError> {
        let end = end(limit);
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        let head = |key: String| Call::plain("ZRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES");
        let calls: Vec<Call> =
            keys.iter().flat_map(|keys| [head(keys.due()), head(keys.scheduled()), head(keys.retry())]).collect();
        let watched: HashSet<String> =
            keys.iter().flat_map(|keys| [keys.due(), keys.scheduled(), keys.retry()]).collect();
        if calls.is_empty() {
            sleep(limit).await;
            return Ok(false);
        }
        loop {
            let (answers, mut ears) = self.ask_and_hear(calls.clone()).await?;
            let heads: Vec<Option<i64>> =
                answers.into_iter().map(|answer| Ok(reply::only_score(answer?))).collect::<Result<_, BrokerError>>()?;
            let next = next_due(&heads);
            let heard = tokio::select! {
                biased;
                () = self.sleep_until(next) => return Ok(true),
                heard = self.until_closed(timeout(left(end), ears.hear(&watched))) => heard?,
            };
            if heard.is_err() {
                return Ok(false);
            }
            tokio::select! {
                () = sleep(TOGETHER.min(left(end))) => {}
                () = self.sleep_until(next) => return Ok(true),
            }
        }
    }

    /// See [`Schedules::wait_for_lead`](crate::broker::Schedules::wait_for_lead). `late` is how long after the end of the
    /// lead to look, so that not all who wait ask at once.
    pub(super) async fn wait_for_free_lead(
        &self,
        program: &str,
        late: Duration,
        limit: Duration,
    ) -> Result<(), BrokerError> {
        let end = end(limit);
        let leader = keys::leader(program);
        let watched = HashSet::from([leader.clone()]);
        loop {
            let (answers, mut ears) = self.ask_and_hear(vec![Call::plain("PTTL").arg(&leader)]).await?;
            let answer = answers.into_iter().next().ok_or_else(|| reply::unexpected("no answer"))??;
            // -2: nobody leads. -1: somebody without an end, who leads until somebody deletes that key.
            let lasts = match reply::number(&answer) {
                Some(-2) => return Ok(()),
                Some(ms) => u64::try_from(ms).map_or(FAR, Duration::from_millis).saturating_add(late),
                None => return Err(reply::unexpected("no time to live")),
            };
            // Whoever leads renews the lead, of which the bell tells, too: then look again.
            let heard = self.until_closed(timeout(lasts.min(left(end)), ears.hear(&watched))).await?;
            if heard.is_err() {
                return Ok(());
            }
        }
    }

    /// Sleeps until the broker's clock shows `at`; for ever if there is nothing to wait for.
    async fn sleep_until(&self, at: Option<DateTime<Utc>>) {
        let Some(at) = at else { return std::future::pending().await };
        loop {
            let left = at - self.clock.now();
            if left <= TimeDelta::zero() {
                return;
            }
            let left = left.to_std().unwrap_or_default();
            sleep(if self.clock.is_given() { left.min(HAND_CLOCK) } else { left }).await;
        }
    }

    fn look_at_pending(
        &self,
        queues: &[QueueName],
        answers: Vec<Answer>,
        quarantined: Quarantined,
    ) -> Result<Pending, BrokerError> {
        let numbers: Vec<i64> =
            answers.into_iter().map(|answer| Ok(reply::number(&answer?).unwrap_or(0))).collect::<Result<_, _>>()?;
        let mut found = Pending { any: false, spared: Spared(false) };
        for (queue, numbers) in queues.iter().zip(numbers.chunks(2)) {
            match numbers {
                [pending, 0] if *pending > 0 && self.is_spared(queue, *pending, quarantined) => found.spared.0 = true,
                [pending, 0] if *pending > 0 => found.any = true,
                _ => {}
            }
        }
        Ok(found)
    }

    async fn until_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, BrokerError> {
        tokio::select! {
            done = waiting => Ok(done),
            closed = self.link.ended() => Err(closed),
        }
    }
}

/// What a look at lengths and pauses of queues found.
struct Pending {
    /// Whether there is something to take.
    any: bool,
    spared: Spared,
}

/// Whether a queue was skipped because all its tasks seem to be quarantined. The assumption holds for `TRUSTED_FOR`.
#[derive(Clone, Copy)]
struct Spared(bool);

impl Spared {
    fn cut(self, wait: Duration) -> Duration {
        if self.0 { wait.min(TRUSTED_FOR) } else { wait }
    }
}

/// The earliest of the heads of `x:due` (milliseconds), `scheduled` and `retry` (seconds) of each queue.
fn next_due(heads: &[Option<i64>]) -> Option<DateTime<Utc>> {
    let milliseconds = heads.chunks(3).flat_map(|queue| match queue {
        [due, scheduled, retry] => [*due, scheduled.map(in_milliseconds), retry.map(in_milliseconds)],
        _ => [None; 3],
    });
    milliseconds.flatten().min().and_then(DateTime::from_timestamp_millis)
}

fn in_milliseconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1000)
}

/// The end of the wait; one that no clock can show is far enough.
fn end(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + FAR)
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn the_earliest_of_all_heads_is_next() {
        let at = |ms| DateTime::from_timestamp_millis(ms);
        let cases: [(&[Option<i64>], _); 4] = [
            (&[], None),
            (&[None, None, None], None),
            (&[Some(5500), Some(6), None], at(5500)),
            (&[Some(5500), Some(6), Some(9), None, None, Some(5)], at(5000)),
        ];
        for (heads, expected) in cases {
            assert_eq!(next_due(heads), expected, "{heads:?}");
        }
    }

    #[test]
    fn an_invalidation_names_its_keys_and_one_without_keys_is_about_everything() {
        let push = |data| PushInfo { kind: PushKind::Invalidate, data };
        let keys = Value::Array(vec![Value::BulkString(b"a".to_vec())]);
        assert!(matches!(changed(push(vec![keys])), Some(Ring::Keys(keys)) if keys[..] == ["a".to_owned()]));
        assert!(matches!(changed(push(vec![Value::Nil])), Some(Ring::All)));
        assert!(changed(PushInfo { kind: PushKind::Message, data: Vec::new() }).is_none());
    }
}

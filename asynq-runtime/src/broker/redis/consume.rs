//! Dequeues, and remembers which answers were lost so that the next call gets those tasks first.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use redis::Value;
use tokio_util::sync::CancellationToken;

use super::{
    super::{BrokerError, Consume, Member, Run, RunKey, RunToken, Suspects, Wanted},
    RedisBroker,
    connection::Answer,
    keys::Keys,
    reply,
    script::{Call, DEQUEUE, PER_SCRIPT, RESUME},
};
use crate::task::{Extra, QueueName, TaskId, TaskMessage, UndecodableMessage};

#[async_trait::async_trait]
impl Consume for RedisBroker {
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        suspects: &Suspects,
    ) -> Result<Vec<Run>, BrokerError> {
        if let Some(error) = self.unanswered.take_error(member) {
            return Err(error);
        }
        let mut runs = self.resume(member, wanted).await?;
        let got = |runs: &[Run], queue: &QueueName| runs.iter().filter(|run| run.key.queue == *queue).count();
        let mut asks = Vec::new();
        for Wanted { queue, n } in wanted {
            let mut left = n.saturating_sub(got(&runs, queue));
            let mut most = suspects.most_from(queue);
            while left > 0 {
                asks.push((queue, left.min(PER_SCRIPT.0), most.min(PER_SCRIPT.0)));
                // One of a queue is one in all; any number is any number in each script.
                most = if most == 1 { 0 } else { most };
                left -= left.min(PER_SCRIPT.0);
            }
        }
        if asks.is_empty() {
            return Ok(runs);
        }
        let calls: Vec<(Call, Unanswered<'_>)> = asks
            .into_iter()
            .map(|(queue, n, suspects)| {
                let asked = self.unanswered.note(member, queue, self.clock.token());
                (self.dequeue_call(queue, n, suspects, asked.token), asked)
            })
            .collect();
        let (calls, asked): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        // Dropped here or before, each note that was not answered stays, and the next call looks for its tasks.
        let answers = match self.link.send(calls).await {
            Ok(answers) => answers,
            Err(error) if runs.is_empty() => return Err(error),
            Err(error) => {
                self.unanswered.keep_error(member, error);
                return Ok(runs);
            }
        };
        let mut failure = None;
        for (asked, answer) in asked.into_iter().zip(answers) {
            match answer.and_then(|value| read_runs(value, &asked.queue, asked.token, member.number)) {
                Ok(some) => {
                    runs.extend(some);
                    asked.answered();
                }
                // It stays noted: part of it may have been done.
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if runs.is_empty() => Err(error),
            Some(error) => {
                self.unanswered.keep_error(member, error);
                Ok(runs)
            }
            None => Ok(runs),
        }
    }

    async fn ready(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let calls = queues
            .iter()
            .map(Keys::new)
            .flat_map(|keys| [Call::plain("LLEN").arg(keys.pending()), Call::plain("EXISTS").arg(keys.paused())]);
        let answers = self.link.send(calls.collect()).await?;
        let is_ready = |answers: &[Answer]| match answers {
            [Ok(pending), Ok(paused)] => reply::number(pending) > Some(0) && reply::number(paused) == Some(0),
            // A key of a foreign type: the dequeue tells what is wrong with it.
            _ => true,
        };
        let ready = queues.iter().zip(answers.chunks(2)).filter(|(_, answers)| is_ready(answers));
        Ok(ready.map(|(queue, _)| queue.clone()).collect())
    }

    async fn wait_for_work(&self, queues: &[QueueName], limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_pending(queues, limit).await.map(|_| ())
    }

    async fn wait_and_dequeue(
        &self,
        member: &Member,
        wanted: &[Wanted],
        suspects: &Suspects,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Run>, BrokerError> {
        // What a lost answer took is active: no wait for pending tasks would end for it.
        if !self.unanswered.has(member, wanted) {
            let queues: Vec<QueueName> = wanted.iter().map(|wanted| wanted.queue.clone()).collect();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Vec::new()),
                woken = self.wait_for_pending(&queues, limit) => if !woken? {
                    return Ok(Vec::new());
                },
            }
        }
        self.dequeue_sparing(member, wanted, suspects).await
    }
}

impl RedisBroker {
    fn dequeue_call(&self, queue: &QueueName, n: usize, suspects: usize, token: RunToken) -> Call {
        let keys = Keys::new(queue);
        DEQUEUE
            .on(&[keys.pending(), keys.paused(), keys.active(), keys.lease(), keys.orphans()])
            .arg(self.clock.argument())
            .arg(keys.task_prefix())
            .arg(n)
            .arg(token.to_string())
            .arg(self.lease.as_secs())
            .arg(PER_SCRIPT.1)
            .arg(suspects)
    }

    /// The tasks of earlier calls whose answers were lost. They are all returned, even if they are more than wanted now:
    /// they are this member's already.
    async fn resume(&self, member: &Member, wanted: &[Wanted]) -> Result<Vec<Run>, BrokerError> {
        let lost = self.unanswered.take(member, wanted);
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let calls: Vec<Call> = lost
            .iter()
            .map(|asked| {
                let keys = Keys::new(&asked.queue);
                RESUME.on(&[keys.active()]).arg(keys.task_prefix()).arg(asked.token.to_string())
            })
            .collect();
        let answers = self.link.send(calls).await?;
        let mut runs = Vec::new();
        for (asked, answer) in lost.into_iter().zip(answers) {
            match answer.and_then(|value| read_runs(value, &asked.queue, asked.token, member.number)) {
                Ok(some) => {
                    runs.extend(some);
                    asked.answered();
                }
                // Noted again, until it is answered.
                Err(error) if error.is_unavailable() => {}
                // A queue that cannot be read now: what lies there is recovered when its lease has passed.
                Err(_) => asked.answered(),
            }
        }
        Ok(runs)
    }
}

/// Dequeues that were sent and whose answer has not come.
#[derive(Debug, Default)]
pub(super) struct UnansweredDequeues(Mutex<HashMap<Member, Lost>>);

#[derive(Debug, Default)]
struct Lost {
    tokens: Vec<(QueueName, RunToken)>,
    error: Option<BrokerError>,
}

/// A dequeue on its way. Dropped without an answer, by an error or because the caller went away, it counts as lost.
struct Unanswered<'b> {
    all: &'b UnansweredDequeues,
    member: Member,
    queue: QueueName,
    token: RunToken,
    answered: bool,
}

impl UnansweredDequeues {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Member, Lost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, member: &Member, queue: &QueueName, token: RunToken) -> Unanswered<'_> {
        Unanswered { all: self, member: member.clone(), queue: queue.clone(), token, answered: false }
    }

    /// What is lost in the wanted queues; each is lost again unless it is answered now.
    fn take(&self, member: &Member, wanted: &[Wanted]) -> Vec<Unanswered<'_>> {
        let mut all = self.lock();
        let Some(lost) = all.get_mut(member) else { return Vec::new() };
        let is_wanted = |queue: &QueueName| wanted.iter().any(|wanted| wanted.queue == *queue);
        let (now, later) = std::mem::take(&mut lost.tokens).into_iter().partition(|(queue, _)| is_wanted(queue));
        lost.tokens = later;
        let now: Vec<(QueueName, RunToken)> = now;
        now.into_iter().map(|(queue, token)| self.note(member, &queue, token)).collect()
    }

    /// Whether the member's next call has something to fetch or to tell before anything new.
    fn has(&self, member: &Member, wanted: &[Wanted]) -> bool {
        let is_wanted = |queue: &QueueName| wanted.iter().any(|wanted| wanted.n > 0 && wanted.queue == *queue);
        let has = |lost: &Lost| lost.error.is_some() || lost.tokens.iter().any(|(queue, _)| is_wanted(queue));
        self.lock().get(member).is_some_and(has)
    }

    fn keep_error(&self, member: &Member, error: BrokerError) {
        self.lock().entry(member.clone()).or_default().error = Some(error);
    }

    fn take_error(&self, member: &Member) -> Option<BrokerError> {
        self.lock().get_mut(member)?.error.take()
    }

    /// Forgets a member that left.
    pub(super) fn forget(&self, member: &Member) {
        self.lock().remove(member);
    }
}

impl Unanswered<'_> {
    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let lost = (self.queue.clone(), self.token);
            self.all.lock().entry(self.member.clone()).or_default().tokens.push(lost);
        }
    }
}

fn read_runs(value: Value, queue: &QueueName, token: RunToken, server: i64) -> Result<Vec<Run>, BrokerError> {
    let mut parts = reply::array(value)?.into_iter();
    let tasks = reply::array(parts.next().unwrap_or_default())?;
    let facts = reply::array(parts.next().unwrap_or_default())?;
    let since = parts.next().and_then(reply::text).unwrap_or_default();
    let mut runs = Vec::with_capacity(tasks.len() / 2);
    let mut tasks = tasks.into_iter();
    while let (Some(id), Some(raw)) = (tasks.next(), tasks.next()) {
        let (Some(id), Some(raw)) = (reply::text(id), reply::bytes(raw)) else {
            return Err(reply::unexpected("a task without id or message"));
        };
        let key = RunKey { queue: queue.clone(), id: TaskId::from_wire(&id), token, server, row: 0 };
        let message = read_message(raw.into(), &id, queue);
        runs.push(Run { key, message, crashes: 0, extra: Extra::default(), waited: None });
    }
    let mut facts = facts.into_iter();
    while let (Some(place), Some(crashes), Some(extra)) = (facts.next(), facts.next(), facts.next()) {
        let place = reply::number(&place).and_then(|place| usize::try_from(place).ok()).unwrap_or_default();
        if let Some(run) = runs.get_mut(place.wrapping_sub(1)) {
            run.crashes = reply::number(&crashes).and_then(|crashes| u32::try_from(crashes).ok()).unwrap_or_default();
            run.extra = reply::bytes(extra).map(|extra| Extra::from_bytes(&extra)).unwrap_or_default();
        }
    }
    let moments: Vec<Option<i64>> = since.split(' ').map(|moment| moment.parse().ok()).collect();
    // Another number of them: somebody else's moment has spaces in it, and which is whose cannot be told.
    if let Some((&now, since)) = moments.split_first().filter(|(_, since)| since.len() == runs.len()) {
        runs.iter_mut().zip(since).for_each(|(run, &since)| run.waited = waited(since, now));
    }
    Ok(runs)
}

/// The time between two moments in nanoseconds, where both are known. Go writes the first by its own clock, which may be
/// ahead.
fn waited(since: Option<i64>, now: Option<i64>) -> Option<Duration> {
    let (since, now) = (since.filter(|&since| since > 0)?, now?);
    Some(Duration::from_nanos(u64::try_from(now.saturating_sub(since)).unwrap_or(0)))
}

/// A message that belongs where it lay, or the bytes with the reason why they do not.
pub(super) fn read_message(raw: Bytes, id: &str, queue: &QueueName) -> Result<TaskMessage, UndecodableMessage> {
    let message = TaskMessage::decode(raw.clone())?;
    let reason = if message.id != id {
        format!("it lay under the id {id:?} but is of task {:?}", message.id)
    } else if *queue != message.queue.as_str() {
        format!("it lay in queue {:?} but is of queue {:?}", queue.as_str(), message.queue)
    } else {
        return Ok(message);
    };
    Err(UndecodableMessage { raw, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ServerName;

    fn member() -> Member {
        let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
        Member { name, number: 0 }
    }

    #[test]
    fn a_message_counts_only_where_it_belongs() {
        let queue = QueueName::from_wire("q");
        let message = TaskMessage { id: "a".into(), queue: "q".into(), r#type: "t".into(), ..Default::default() };
        let raw = Bytes::from(message.encode());
        assert_eq!(read_message(raw.clone(), "a", &queue), Ok(message));
        assert!(read_message(raw.clone(), "b", &queue).unwrap_err().reason.contains("\"b\""));
        let other = QueueName::from_wire("other");
        assert!(read_message(raw, "a", &other).unwrap_err().reason.contains("other"));
        let broken = Bytes::from_static(b"\xff\xff\xff");
        assert_eq!(read_message(broken.clone(), "a", &queue).unwrap_err().raw, broken);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_and_not_a_panic() {
        let (queue, token) = (QueueName::from_wire("q"), RunToken(1));
        let lists = |tasks: Vec<Value>| Value::Array(vec![Value::Array(tasks), Value::Array(Vec::new())]);
        for value in [Value::Int(1), lists(vec![Value::Nil, Value::Nil])] {
            assert!(read_runs(value, &queue, token, 0).is_err());
        }
    }

    #[test]
    fn a_dequeue_that_is_dropped_unanswered_is_looked_for_by_the_next_call_of_its_member_and_queue() {
        let all = UnansweredDequeues::default();
        let (a, b) = (QueueName::from_wire("a"), QueueName::from_wire("b"));
        drop(all.note(&member(), &a, RunToken(1)));
        all.note(&member(), &a, RunToken(2)).answered();
        let wanted = |queue: &QueueName| [Wanted { queue: queue.clone(), n: 1 }];
        assert!(all.take(&member(), &wanted(&b)).is_empty());
        assert_eq!((all.has(&member(), &wanted(&a)), all.has(&member(), &wanted(&b))), (true, false));
        let found = all.take(&member(), &wanted(&a));
        assert_eq!(found.iter().map(|lost| lost.token).collect::<Vec<_>>(), [RunToken(1)]);
        drop(found);
        let again = all.take(&member(), &wanted(&a));
        assert_eq!(again.len(), 1, "looked for until it is answered");
        again.into_iter().for_each(Unanswered::answered);
        assert!(all.take(&member(), &wanted(&a)).is_empty());
        assert!(!all.has(&member(), &wanted(&a)));
        all.keep_error(&member(), crate::broker::redis::line::closed());
        assert!(all.has(&member(), &wanted(&a)), "an error to be told");
    }
}

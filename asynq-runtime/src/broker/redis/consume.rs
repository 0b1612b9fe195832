//! Dequeues, first of all what earlier calls took whose answers were lost (contract: `broker/consume.rs`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::Value;
use tokio_util::sync::CancellationToken;

use super::{
    super::{BrokerError, BrokerErrorKind, Consume, Member, Quarantined, Run, RunKey, RunToken, Wanted},
    RedisBroker,
    connection::Answer,
    direct::{Direct, Sent, Taken},
    keeper::Identity,
    keys::Keys,
    reply,
    script::{Call, DEQUEUE, PER_SCRIPT, RESUME},
    unanswered::{Asked, Unanswered},
};
use crate::task::{Extra, QueueName, TaskId, TaskMessage, UndecodableMessage};

#[async_trait::async_trait]
impl Consume for RedisBroker {
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: &Quarantined,
    ) -> Result<Vec<Run>, BrokerError> {
        if let Some(error) = self.unanswered.take_error(member) {
            return Err(error);
        }
        let mut runs = self.resume(member, self.unanswered.take(member, wanted)).await?;
        let asks = asks(wanted, quarantined, &runs);
        if asks.is_empty() {
            return Ok(runs);
        }
        let mut own = self.fetching.as_ref().and_then(Direct::take);
        let stray = own.as_ref().and_then(Taken::identity);
        let note = |queue: &QueueName| {
            self.unanswered
                .note(member, Asked { queue: queue.clone(), token: self.clock.token(), stray: stray.clone() })
        };
        let asked: Vec<Unanswered<'_>> = asks.iter().map(|ask| note(ask.queue)).collect();
        let call = |(ask, asked): (&Ask<'_>, &Unanswered<'_>)| self.dequeue_call(ask, asked.asked().token);
        // Dropped here or before, each note that was not answered stays, and the next call looks for its tasks.
        let answers = match self.ask(&mut own, || asks.iter().zip(&asked).map(call).collect()).await {
            Ok(answers) => answers,
            Err(error) if runs.is_empty() => return Err(error),
            Err(error) => {
                self.unanswered.keep_error(member, error);
                return Ok(runs);
            }
        };
        let mut failure = None;
        for (mut unanswered, answer) in asked.into_iter().zip(answers) {
            unanswered.was_read();
            match answer.and_then(|value| read_runs(value, unanswered.asked(), member.number)) {
                Ok(some) => {
                    if unanswered.answered() {
                        runs.extend(some);
                    } else if let Some(own) = &mut own {
                        // The dequeue was taken over, and Redis was told to end this connection. Its end may arrive
                        // after the answer, so the connection is given up here.
                        own.lose();
                    }
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

    fn dequeues_beside_jobs(&self) -> bool {
        self.fetching.is_some()
    }

    async fn take_unanswered(&self, member: &Member, older: Duration) -> Result<Vec<Run>, BrokerError> {
        self.resume(member, self.unanswered.take_over(member, older)).await
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
        quarantined: &Quarantined,
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
        self.dequeue_sparing(member, wanted, quarantined).await
    }
}

impl RedisBroker {
    fn dequeue_call(&self, ask: &Ask<'_>, token: RunToken) -> Call {
        let keys = Keys::new(ask.queue);
        DEQUEUE
            .on(&[keys.pending(), keys.paused(), keys.active(), keys.lease(), keys.orphans()])
            .arg(self.clock.argument())
            .arg(keys.task_prefix())
            .arg(ask.n)
            .arg(token.to_string())
            .arg(self.lease.as_secs())
            .arg(PER_SCRIPT.1)
            .arg(ask.quarantined)
            .arg(Extra::DEFAULT_MAX_CRASHES)
    }

    /// The answers to dequeues, on the connection that the caller drives if there is one.
    async fn ask(
        &self,
        own: &mut Option<Taken<'_>>,
        calls: impl Fn() -> Vec<Call>,
    ) -> Result<Vec<Answer>, BrokerError> {
        if let Some(own) = own {
            match own.exchange(calls()).await {
                Sent::Answered(answers) => return Ok(answers),
                Sent::Unanswered(_) => {
                    return Err(BrokerError::new(BrokerErrorKind::Timeout, "Redis did not answer in time"));
                }
                Sent::Not => {}
            }
        }
        self.link.send(calls()).await
    }

    /// The tasks of calls whose answers nobody took. They are all returned, even if they are more than wanted now: they are
    /// this member's already.
    async fn resume(&self, member: &Member, mut lost: Vec<Unanswered<'_>>) -> Result<Vec<Run>, BrokerError> {
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let mut strays: Vec<&Arc<Identity>> = lost.iter().filter_map(|lost| lost.asked().stray.as_ref()).collect();
        strays.dedup();
        for stray in strays {
            self.link.silence(stray).await?;
        }
        lost.iter_mut().for_each(Unanswered::was_read);
        let calls: Vec<Call> = lost
            .iter()
            .map(|lost| {
                let Asked { queue, token, .. } = lost.asked();
                let keys = Keys::new(queue);
                RESUME.on(&[keys.active()]).arg(keys.task_prefix()).arg(token.to_string())
            })
            .collect();
        let answers = self.link.send(calls).await?;
        let mut runs = Vec::new();
        for (lost, answer) in lost.into_iter().zip(answers) {
            match answer.and_then(|value| read_runs(value, lost.asked(), member.number)) {
                Ok(some) => {
                    if lost.answered() {
                        runs.extend(some);
                    }
                }
                // Noted again, until it is answered.
                Err(error) if error.is_unavailable() => {}
                // A queue that cannot be read now: what lies there is recovered when its lease has passed.
                Err(_) => drop(lost.answered()),
            }
        }
        Ok(runs)
    }
}

/// What one script is asked for.
struct Ask<'q> {
    queue: &'q QueueName,
    n: usize,
    quarantined: usize,
}

/// The scripts that take what is wanted beside what is there.
fn asks<'q>(wanted: &'q [Wanted], quarantined: &Quarantined, runs: &[Run]) -> Vec<Ask<'q>> {
    let mut asks = Vec::new();
    for Wanted { queue, n } in wanted {
        let got = runs.iter().filter(|run| run.key.queue == *queue).count();
        let mut left = n.saturating_sub(got);
        let mut most = quarantined.most_from(queue);
        while left > 0 {
            asks.push(Ask { queue, n: left.min(PER_SCRIPT.0), quarantined: most.min(PER_SCRIPT.0) });
            // One of a queue is one in all; any number is any number in each script.
            most = if most == 1 { 0 } else { most };
            left -= left.min(PER_SCRIPT.0);
        }
    }
    asks
}

fn read_runs(value: Value, asked: &Asked, server: i64) -> Result<Vec<Run>, BrokerError> {
    let Asked { queue, token, .. } = asked;
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
        let key = RunKey { queue: queue.clone(), id: TaskId::from_wire(&id), token: *token, server, row: 0 };
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
        let asked = Asked { queue: QueueName::from_wire("q"), token: RunToken(1), stray: None };
        let lists = |tasks: Vec<Value>| Value::Array(vec![Value::Array(tasks), Value::Array(Vec::new())]);
        for value in [Value::Int(1), lists(vec![Value::Nil, Value::Nil])] {
            assert!(read_runs(value, &asked, 0).is_err());
        }
    }
}

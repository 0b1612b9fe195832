//! Dequeues tasks, and requeues those of earlier calls whose answers were lost (contract: `broker/consume.rs`).

mod answer;
mod lost;

use std::{
    slice,
    time::{Duration, Instant},
};

pub(super) use self::answer::read_message;
use self::answer::{TakenTasks, read_answer};
use super::{
    super::{BrokerError, BrokerErrorKind, Consume, Member, Quarantined, Run, RunKey, RunToken, Wanted},
    RedisBroker,
    clock::since_boot,
    dedicated::{DedicatedConnection, Sent, Taken},
    keys::Keys,
    reply,
    router::Answer,
    script::{Call, DEQUEUE, PER_SCRIPT},
    unanswered::{DequeueRequest, Unanswered},
};
use crate::task::{Extra, QueueName, TaskId};

#[async_trait::async_trait]
impl Consume for RedisBroker {
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> Result<Vec<Run>, BrokerError> {
        let mut failure = None;
        let released = self.requeue_lost(self.unanswered.take(member, wanted), &mut failure).await;
        failure = released.err().or(failure);
        // A queue gives no new tasks before its lost ones are back.
        let is_open = |wanted: &&Wanted| failure.is_none() || !self.unanswered.has(member, slice::from_ref(*wanted));
        let most_quarantined = |queue: &QueueName| self.most_quarantined(wanted, queue, quarantined);
        let requests = script_requests(wanted.iter().filter(is_open), most_quarantined);
        if requests.is_empty() {
            return answer(Vec::new(), failure);
        }
        let mut own = self.fetching.as_ref().and_then(DedicatedConnection::take);
        let (abandoned, progress) = own.as_ref().and_then(Taken::sent_on).unzip();
        let note = |queue: &QueueName| {
            let request = DequeueRequest::new(queue.clone(), self.clock.token());
            self.unanswered
                .note(member, DequeueRequest { abandoned: abandoned.clone(), progress: progress.clone(), ..request })
        };
        let unanswered: Vec<Unanswered<'_>> = requests.iter().map(|request| note(request.queue)).collect();
        let (began, sent, room) = (Instant::now(), since_boot(), self.room.of_each(requests.len()));
        let call = |(request, unanswered): (&ScriptRequest<'_>, &Unanswered<'_>)| {
            self.dequeue_call(request, unanswered.request().token, room)
        };
        let dequeuing = async {
            let answers = self.exchange(&mut own, || requests.iter().zip(&unanswered).map(call).collect()).await?;
            let read = |(answer, unanswered): (Answer, &Unanswered<'_>)| {
                answer.and_then(|value| read_answer(value, unanswered.request(), member.number))
            };
            let mut read_answers: Vec<_> = answers.into_iter().zip(&unanswered).map(read).collect();
            self.read_long(&mut own, &mut read_answers).await?;
            Ok(read_answers)
        };
        // If the future is dropped here or before, each unanswered note stays, and the next call requeues its tasks.
        let read_answers = dequeuing.await.inspect_err(|error| self.room.unanswered(error))?;
        let (mut runs, mut is_used_up, mut taken) = (Vec::new(), false, (0, 0));
        for (mut unanswered, read) in unanswered.into_iter().zip(read_answers) {
            unanswered.was_read();
            match read {
                Ok(TakenTasks { runs: some, bytes, passed, is_all_passed, .. }) => {
                    self.passed.note(&unanswered.request().queue, passed, is_all_passed);
                    // Each master of a cluster has a clock of its own.
                    if let Some(run) = some.first().filter(|_| !self.is_spread()) {
                        self.clock.learn_if_set_back(sent, run.taken_at, since_boot());
                    }
                    is_used_up |= bytes >= room;
                    taken = (taken.0 + some.len(), taken.1 + bytes);
                    if unanswered.answered() {
                        runs.extend(some);
                    } else if let Some(own) = &mut own {
                        // Another call has taken the dequeue over, and has Redis end this connection. Its end may
                        // arrive after the answer, so the connection is given up here.
                        own.lose();
                    }
                }
                // The dequeue stays noted, because Redis may have run part of it.
                Err(error) => failure = Some(error),
            }
        }
        self.room.answered(is_used_up, began.elapsed());
        self.room.took(taken.0, taken.1);
        answer(runs, failure)
    }

    fn dequeues_beside_jobs(&self) -> bool {
        self.fetching.is_some()
    }

    fn has_parts(&self) -> bool {
        self.router.has_parts()
    }

    async fn release_unanswered(
        &self,
        member: &Member,
        older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError> {
        self.extend_coming(member, older).await?;
        self.requeue_lost(self.unanswered.take_over(member, older), &mut None).await
    }

    fn has_unanswered(&self, member: &Member, wanted: &[Wanted]) -> bool {
        self.unanswered.has(member, wanted)
    }

    async fn ready(&self, queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError> {
        self.ready_at(queues, quarantined).await
    }

    async fn wait_for_work(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        self.wait_for_pending(queues, quarantined, limit).await
    }
}

impl RedisBroker {
    /// Returns the most quarantined tasks that `queue` may give of the wanted ones.
    fn most_quarantined(&self, wanted: &[Wanted], queue: &QueueName, quarantined: Quarantined) -> usize {
        match quarantined {
            Quarantined::All => usize::MAX,
            Quarantined::One => usize::from(self.passed.next(wanted) == Some(queue)),
            Quarantined::None => 0,
        }
    }

    /// Returns whether every pending task of the queue is quarantined beyond `quarantined`, so that a dequeue would
    /// take none.
    pub(super) fn is_spared(&self, queue: &QueueName, pending: i64, quarantined: Quarantined) -> bool {
        quarantined == Quarantined::None && self.passed.is_alone(queue, pending)
    }

    fn dequeue_call(&self, request: &ScriptRequest<'_>, token: RunToken, room: usize) -> Call {
        let keys = Keys::new(request.queue);
        self.timed(&DEQUEUE, &[keys.pending(), keys.paused(), keys.active(), keys.lease(), keys.orphans()])
            .arg(keys.task_prefix())
            .arg(self.room.tasks(request.n, room))
            .arg(token.to_string())
            .arg(self.lease.as_secs())
            .arg(room)
            .arg(request.quarantined)
            .arg(Extra::DEFAULT_MAX_CRASHES)
            .optional(self.room.longest())
    }

    /// Reads the messages that scripts left in their task hashes. The tasks belong to this member by then, so no other
    /// program changes their messages.
    async fn read_long(
        &self,
        own: &mut Option<Taken<'_>>,
        taken: &mut [Result<TakenTasks, BrokerError>],
    ) -> Result<(), BrokerError> {
        let call = |key: &RunKey| Call::plain("HGET").arg(Keys::new(&key.queue).task(key.id.as_str())).arg("msg");
        let left = taken.iter().flatten().flat_map(|tasks| tasks.long.iter().map(|&at| &tasks.runs[at].key));
        let keys: Vec<RunKey> = left.cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let mut answers = self.exchange(own, || keys.iter().map(call).collect()).await?.into_iter();
        for taken in taken {
            let Ok(tasks) = taken else { continue };
            let mut refused = None;
            for (&at, answer) in tasks.long.iter().zip(&mut answers) {
                match answer {
                    Ok(raw) => {
                        // A task that was deleted meanwhile has no message: decoding it fails, and the outcome of the run
                        // changes nothing.
                        let raw = reply::bytes(raw).unwrap_or_default();
                        let run = &mut tasks.runs[at];
                        tasks.bytes += raw.len();
                        run.message = read_message(raw.into(), run.key.id.as_str(), &run.key.queue);
                    }
                    Err(error) => refused = Some(error),
                }
            }
            if let Some(error) = refused {
                *taken = Err(error);
            }
        }
        Ok(())
    }

    /// Sends `calls` of a dequeue, on the connection that the caller drives if there is one, and returns the answers.
    async fn exchange(
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
        self.router.send(calls()).await
    }
}

/// Returns the runs, or the error if there are none: the next dequeue meets it again, if it lasts.
fn answer(runs: Vec<Run>, failure: Option<BrokerError>) -> Result<Vec<Run>, BrokerError> {
    failure.filter(|_| runs.is_empty()).map_or(Ok(runs), Err)
}

/// The request to one script.
struct ScriptRequest<'q> {
    queue: &'q QueueName,
    n: usize,
    quarantined: usize,
}

/// Returns the requests for the wanted tasks, one per script.
fn script_requests<'q>(
    wanted: impl Iterator<Item = &'q Wanted>,
    quarantined: impl Fn(&QueueName) -> usize,
) -> Vec<ScriptRequest<'q>> {
    let mut requests = Vec::new();
    for Wanted { queue, n } in wanted {
        let (mut left, mut most) = (*n, quarantined(queue));
        while left > 0 {
            requests.push(ScriptRequest { queue, n: left.min(PER_SCRIPT.0), quarantined: most.min(PER_SCRIPT.0) });
            // A limit of one holds for all scripts of a queue together; no limit means none for each script.
            most = if most == 1 { 0 } else { most };
            left -= left.min(PER_SCRIPT.0);
        }
    }
    requests
}

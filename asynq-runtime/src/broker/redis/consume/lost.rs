//! Finds the tasks of dequeues whose answers were lost: reads them, requeues them, or extends their leases.

use std::{
    cmp::Reverse,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::Value;

use super::{
    super::{
        super::{BrokerError, Member, Run},
        RedisBroker,
        identity::Identity,
        keys::Keys,
        reply,
        router::Answer,
        script::{Call, EXTEND_UNANSWERED, RELEASE_UNANSWERED, RESUME},
        unanswered::{DequeueRequest, Unanswered},
    },
    answer::{TakenTasks, read_answer},
};
use crate::task::{QueueName, TaskId};

/// Pages of 1,000 runs in which a lost dequeue is looked for: no fleet runs more at a time on one queue. Tasks that lie deeper
/// are recovered when their lease has passed.
const PAGES: usize = 100;

impl RedisBroker {
    /// Requeues the tasks of lost dequeues and of those whose answer is not coming, as the contract says.
    pub(super) async fn release_lost(
        &self,
        member: &Member,
        older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError> {
        self.extend_coming(member, older).await?;
        let mut lost = self.unanswered.take_over(member, older);
        let mut released = Vec::new();
        if lost.is_empty() {
            return Ok(released);
        }
        self.end_abandoned(&mut lost).await?;
        // The oldest dequeue is released last, because the tasks released last are the next to be taken.
        lost.sort_by_key(|lost| Reverse(lost.request().token));
        let requests: Vec<&DequeueRequest> = lost.iter().map(Unanswered::request).collect();
        let answers = self.look_for(&requests, |request, from| self.release_call(request, from)).await?;
        for (lost, answer) in lost.into_iter().zip(answers) {
            match answer.and_then(reply::array) {
                Ok(ids) => {
                    let queue = &lost.request().queue;
                    let ids = ids.into_iter().rev().filter_map(reply::text).map(|id| TaskId::from_wire(&id));
                    released.extend(ids.map(|id| (queue.clone(), id)));
                    lost.answered();
                }
                Err(error) if error.is_unavailable() => {}
                Err(_) => drop(lost.answered()),
            }
        }
        released.reverse();
        Ok(released)
    }

    /// Looks for the tasks of these dequeues among the active, page by page from the newest run on, and returns what the
    /// scripts answer that find them, or come to the end. Each takes the place from which it goes on, `""` at first.
    async fn look_for(
        &self,
        requests: &[&DequeueRequest],
        call: impl Fn(&DequeueRequest, &str) -> Call,
    ) -> Result<Vec<Answer>, BrokerError> {
        let mut found: Vec<Answer> = requests.iter().map(|_| Ok(Value::Nil)).collect();
        let mut open: Vec<(usize, String)> = (0..requests.len()).map(|at| (at, String::new())).collect();
        for _ in 0..PAGES {
            let calls = open.iter().map(|(at, from)| call(requests[*at], from)).collect();
            let answers = self.router.send(calls).await?;
            for ((at, _), answer) in mem::take(&mut open).into_iter().zip(answers) {
                match answer {
                    Ok(Value::Int(from)) => open.push((at, from.to_string())),
                    answer => found[at] = answer,
                }
            }
            if open.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn resume_call(&self, request: &DequeueRequest, from: &str, room: usize) -> Call {
        let keys = Keys::new(&request.queue);
        let call = RESUME
            .on(&[keys.active(), keys.absent()])
            .arg(keys.task_prefix())
            .arg(request.token.to_string())
            .arg(from)
            .arg(room);
        without(call, request)
    }

    fn release_call(&self, request: &DequeueRequest, from: &str) -> Call {
        let keys = Keys::new(&request.queue);
        let call = RELEASE_UNANSWERED
            .on(&[keys.active(), keys.lease(), keys.pending(), keys.absent()])
            .arg(self.clock.argument())
            .arg(keys.task_prefix())
            .arg(request.token.to_string())
            .arg(from);
        without(call, request)
    }

    /// Extends the leases of tasks whose answer takes longer than `older` and is still coming. The answer may take
    /// longer than a lease, and the caller can extend only tasks that have arrived.
    async fn extend_coming(&self, member: &Member, older: Duration) -> Result<(), BrokerError> {
        let call = |request: &DequeueRequest, from: &str| {
            let keys = Keys::new(&request.queue);
            let call = EXTEND_UNANSWERED
                .on(&[keys.active(), keys.lease(), keys.absent()])
                .arg(self.clock.argument())
                .arg(keys.task_prefix())
                .arg(request.token.to_string())
                .arg(from)
                .arg(self.lease.as_secs());
            without(call, request)
        };
        let coming = self.unanswered.coming(member, older);
        if coming.is_empty() {
            return Ok(());
        }
        self.look_for(&coming.iter().collect::<Vec<_>>(), call).await.map(drop)
    }

    /// Makes sure that Redis runs none of these calls from now on. If that fails, they stay lost.
    async fn end_abandoned(&self, lost: &mut [Unanswered<'_>]) -> Result<(), BrokerError> {
        let mut abandoned_calls: Vec<&Arc<Identity>> =
            lost.iter().filter_map(|lost| lost.request().abandoned.as_ref()).collect();
        abandoned_calls.dedup();
        for abandoned in abandoned_calls {
            self.router.end_abandoned(abandoned).await?;
        }
        lost.iter_mut().for_each(Unanswered::was_read);
        Ok(())
    }

    /// Reads tasks of calls whose answers were lost, as many bytes as the connection carries in time. The next calls
    /// read the rest: until the caller has the tasks of this part, their leases are not extended.
    pub(super) async fn resume<'u>(&self, member: &Member, mut lost: Vec<Unanswered<'u>>) -> Resumption<'u> {
        let ended = if lost.is_empty() { Ok(()) } else { self.end_abandoned(&mut lost).await };
        let parts = lost.into_iter().map(|lost| Part { lost, runs: Vec::new(), is_complete: false });
        let mut resumption = Resumption { parts: parts.collect(), failure: ended.err() };
        if resumption.parts.is_empty() || resumption.failure.is_some() {
            return resumption;
        }
        let (began, room) = (Instant::now(), self.room.of_each_that_reads(resumption.parts.len()));
        let requests: Vec<&DequeueRequest> = resumption.parts.iter().map(|part| part.lost.request()).collect();
        let answers = self.look_for(&requests, |request, from| self.resume_call(request, from, room)).await;
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                self.room.unanswered(&error);
                return Resumption { failure: Some(error), ..resumption };
            }
        };
        let mut is_used_up = false;
        for (part, answer) in resumption.parts.iter_mut().zip(answers) {
            match answer.and_then(|value| read_answer(value, part.lost.request(), member.number)) {
                Ok(TakenTasks { runs, bytes, .. }) => {
                    // The script stops early only if the room is used up.
                    part.is_complete = bytes < room;
                    is_used_up |= !part.is_complete;
                    part.runs = runs;
                }
                Err(error) if error.is_unavailable() => {
                    resumption.failure.get_or_insert(error);
                }
                // The queue cannot be read now: its tasks are recovered when their leases have lapsed.
                Err(_) => part.is_complete = true,
            }
        }
        self.room.answered(is_used_up, began.elapsed());
        resumption
    }
}

/// The tasks of calls that were never answered. If the resumption is dropped before it is [`resumed`], all of them are
/// looked for again.
pub(super) struct Resumption<'u> {
    pub(super) parts: Vec<Part<'u>>,
    pub(super) failure: Option<BrokerError>,
}

/// The tasks of one such call that were found.
pub(super) struct Part<'u> {
    pub(super) lost: Unanswered<'u>,
    pub(super) runs: Vec<Run>,
    /// Whether all tasks of the call were found.
    pub(super) is_complete: bool,
}

/// Returns the tasks that were found, except those that another caller has taken over meanwhile. The caller must return
/// them now.
pub(super) fn resumed(parts: Vec<Part<'_>>) -> Vec<Run> {
    let mut all = Vec::new();
    for Part { mut lost, runs, is_complete, .. } in parts {
        let ids = runs.iter().map(|run| run.key.id.clone());
        if if is_complete { lost.answered() } else { lost.came(ids) } {
            all.extend(runs);
        }
    }
    all
}

/// Adds to `call` the ids that have arrived already, so that it is about the other tasks of the dequeue.
fn without(mut call: Call, request: &DequeueRequest) -> Call {
    request.had.iter().for_each(|id| call.push(id.as_str()));
    call
}

//! Finds the tasks of dequeues whose answers were lost, and requeues them; of answers that are late, it extends the leases.

use std::{cmp::Reverse, mem, sync::Arc, time::Duration};

use redis::Value;

use super::super::{
    super::{BrokerError, Member},
    RedisBroker,
    identity::Identity,
    keys::Keys,
    reply,
    router::Answer,
    script::{Call, EXTEND_UNANSWERED, RELEASE_UNANSWERED},
    unanswered::{DequeueRequest, Unanswered},
};
use crate::task::{QueueName, TaskId};

/// Pages of 1,000 runs in which a lost dequeue is looked for: no fleet runs more at a time on one queue. Tasks that lie deeper
/// are recovered when their lease has passed.
const PAGES: usize = 100;

impl RedisBroker {
    /// Requeues the tasks of these dequeues, and returns them. Sets `failure` where those of a queue are still lost.
    ///
    /// # Errors
    ///
    /// All of them are still lost.
    pub(super) async fn requeue_lost(
        &self,
        mut lost: Vec<Unanswered<'_>>,
        failure: &mut Option<BrokerError>,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError> {
        let mut released = Vec::new();
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
                Err(error) if error.is_unavailable() => *failure = Some(error),
                // The queue cannot be read now: its tasks are recovered when their leases have lapsed.
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

    fn release_call(&self, request: &DequeueRequest, from: &str) -> Call {
        let keys = Keys::new(&request.queue);
        self.timed(&RELEASE_UNANSWERED, &[keys.active(), keys.lease(), keys.pending(), keys.absent()])
            .arg(keys.task_prefix())
            .arg(request.token.to_string())
            .arg(from)
    }

    /// Extends the leases of tasks whose answer takes longer than `older` and is still coming. The answer may take
    /// longer than a lease, and the caller can extend only tasks that have arrived.
    pub(super) async fn extend_coming(&self, member: &Member, older: Duration) -> Result<(), BrokerError> {
        let call = |request: &DequeueRequest, from: &str| {
            let keys = Keys::new(&request.queue);
            self.timed(&EXTEND_UNANSWERED, &[keys.active(), keys.lease(), keys.absent()])
                .arg(keys.task_prefix())
                .arg(request.token.to_string())
                .arg(from)
                .arg(self.lease.as_secs())
        };
        let coming = self.unanswered.coming(member, older);
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
}

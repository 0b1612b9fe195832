//! Waits for the ends of tasks, and until queues are idle, without polling: a waiter reads the task's own hash on the
//! tracking connection, and Redis announces the next change of that hash by any program
//! (docs/design/wire.md#waiting-without-polling).

use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::{
    super::{
        BrokerError, Inspect as _,
        task_end::{EndSource, Retries, has_ended},
    },
    RedisBroker,
    key_waiters::{Change, Listening},
    keys::Keys,
    reply,
    router::Answer,
    script::Call,
    wake::POLL,
};
use crate::task::{Extra, QueueName, TaskId, TaskInfo, TaskState};

/// Changes of a queue that follow each other within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(5);
/// Longest wait for an announcement before the next look. A connection may carry nothing more without being closed: the
/// look finds that out, because it gets no answer.
const NET: Duration = Duration::from_secs(15);

/// A wait for the end of a task.
pub(super) struct OneWait<'a> {
    broker: &'a RedisBroker,
    queue: &'a QueueName,
    id: &'a TaskId,
    key: String,
    listening: Listening,
    /// Whether Redis announces the next change of the task.
    is_tracked: bool,
    /// Whether Redis has announced a change of the task since the last look.
    is_announced: bool,
}

impl EndSource for OneWait<'_> {
    async fn look(&mut self) -> Result<Option<(TaskState, Extra)>, BrokerError> {
        let facts = Call::plain("HMGET").arg(self.key.as_str()).arg("state").arg("x");
        self.listening.clear();
        if self.is_announced {
            // Redis tracks a key that was read there also if it does not exist, and the key of a task that is gone never changes.
            // So another connection asks whether the task has ended.
            let found = read_facts(self.broker.router.send_one(facts.clone()).await?)?;
            self.is_announced = false;
            if found.as_ref().is_none_or(|(state, _)| has_ended(*state)) {
                return Ok(found);
            }
        }
        let (mut answers, is_tracked) = self.broker.ask_tracking(&[facts]).await?;
        self.is_tracked = is_tracked;
        read_facts(answers.pop().ok_or_else(|| reply::unexpected("no answer"))??)
    }

    async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
        self.broker.task(self.queue, self.id).await
    }

    async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
        if self.broker.until_closed(received(&self.listening, self.is_tracked)).await? == Some(Change::Key) {
            self.is_announced = true;
        }
        Ok(None)
    }
}

impl RedisBroker {
    /// Listens for the changes of a task from now on.
    pub(super) fn begin_wait<'a>(&'a self, queue: &'a QueueName, id: &'a TaskId) -> OneWait<'a> {
        let key = Keys::new(queue).task(id.as_str());
        let listening = self.wake().waiters.listen(vec![key.clone()]);
        OneWait { broker: self, queue, id, key, listening, is_tracked: false, is_announced: false }
    }

    /// See [`Inspect::wait_until_idle`](crate::broker::Inspect::wait_until_idle).
    pub(super) async fn wait_for_idle_queues(
        &self,
        queues: &[QueueName],
        limit: Duration,
    ) -> Result<bool, BrokerError> {
        if queues.is_empty() {
            return Ok(true);
        }
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        let sizes: Vec<(&str, String)> = keys.iter().flat_map(sizes).collect();
        let listening = self.wake().waiters.listen(sizes.iter().map(|(_, key)| key.clone()).collect());
        let calls: Vec<Call> = sizes.into_iter().map(|(command, key)| Call::plain(command).arg(key)).collect();
        let (mut retries, mut seen) = (Retries::within(limit), None);
        loop {
            listening.clear();
            // A task may move from one place to another between the reads of both, and be in neither answer. Redis
            // announces the move before it answers the second round of reads.
            let look = async {
                let (is_idle, is_tracked) = self.look_for_tasks(&calls).await?;
                let is_idle = is_idle && self.look_for_tasks(&calls).await?.0;
                Ok((is_idle, is_tracked))
            };
            let is_tracked = match retries.ask(look).await {
                None => return seen.ok_or_else(Retries::no_answer),
                Some(Ok((true, _))) if listening.received_nothing() => return Ok(true),
                Some(Ok((_, is_tracked))) => is_tracked,
                Some(Err(error)) => {
                    retries.after(error).await?;
                    continue;
                }
            };
            retries.answered();
            seen = Some(false);
            if self.until_closed(timeout(retries.left(), received(&listening, is_tracked))).await?.is_err() {
                return Ok(false);
            }
            sleep(TOGETHER.min(retries.left())).await;
        }
    }

    /// Returns whether all places that `calls` count are empty, and whether Redis announces the next change of them.
    async fn look_for_tasks(&self, calls: &[Call]) -> Result<(bool, bool), BrokerError> {
        let (answers, is_tracked) = self.ask_tracking(calls).await?;
        let mut is_idle = true;
        for answer in answers {
            is_idle &= reply::number(&answer?) == Some(0);
        }
        Ok((is_idle, is_tracked))
    }

    async fn until_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, BrokerError> {
        tokio::select! {
            done = waiting => Ok(done),
            closed = self.router.ended() => Err(closed),
        }
    }

    /// Sends `calls` on the tracking connection, so that Redis announces the next change of their keys. Returns the answers, and `false`
    /// if tracking is refused, by a proxy or a missing permission.
    async fn ask_tracking(&self, calls: &[Call]) -> Result<(Vec<Answer>, bool), BrokerError> {
        match self.wake().send(calls.to_vec()).await? {
            Some(answers) => Ok((answers, true)),
            None => Ok((self.router.send(calls.to_vec()).await?, false)),
        }
    }
}

/// Returns the state and the extra facts of a task from its hash; `None` if the task does not exist.
fn read_facts(answer: Value) -> Result<Option<(TaskState, Extra)>, BrokerError> {
    let [state, extra] = <[Value; 2]>::try_from(reply::array(answer)?).map_err(|_| reply::unexpected("no task"))?;
    let state = match reply::text(state) {
        None => None,
        Some(state) => Some(state.parse().map_err(|_| reply::unexpected("an unknown state"))?),
    };
    Ok(state.map(|state| (state, reply::extra(extra))))
}

/// Waits until a key that was read may have changed. Returns the change, or `None` if Redis has not announced one.
async fn received(listening: &Listening, is_tracked: bool) -> Option<Change> {
    if is_tracked {
        return timeout(NET, listening.changed()).await.ok();
    }
    sleep(POLL).await;
    None
}

/// Returns, for each place of tasks that have not ended, the command that counts them and its key.
fn sizes(keys: &Keys) -> [(&'static str, String); 6] {
    [
        ("LLEN", keys.pending()),
        ("LLEN", keys.active()),
        ("ZCARD", keys.scheduled()),
        ("ZCARD", keys.retry()),
        ("SCARD", keys.groups()),
        ("ZCARD", keys.sets()),
    ]
}

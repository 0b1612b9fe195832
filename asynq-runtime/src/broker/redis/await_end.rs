//! Waits for the ends of tasks, and until queues are idle, without polling: a waiter reads the task's own hash on the
//! tracking connection, and Redis announces the next change of that hash by any program
//! (docs/design/wire.md#waiting-without-polling).

use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::{
    super::{
        BrokerError, Inspect as _, TaskEnd,
        task_end::{EndSource, Retries, has_ended, wait_for_end},
    },
    RedisBroker,
    key_waiters::{Change, Listening},
    keys::Keys,
    reply,
    router::Answer,
    script::Call,
};
use crate::task::{Extra, QueueName, TaskId, TaskInfo, TaskState};

/// Poll interval where tracking is refused.
const POLL: Duration = Duration::from_millis(250);
/// Changes of a queue that follow each other within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(5);
/// Longest wait for an announcement before the next look. A connection may carry nothing more without being closed: the
/// look finds that out, because it gets no answer.
const NET: Duration = Duration::from_secs(15);
/// Number of queues in which one round trip looks for an id.
const QUEUES: usize = 100;

/// Whether Redis announces the next change of the keys that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tracking {
    On,
    /// Tracking is refused, by a proxy or a missing permission.
    Off,
}

/// A wait for the end of a task.
struct OneWait<'a> {
    broker: &'a RedisBroker,
    queue: &'a QueueName,
    id: &'a TaskId,
    key: String,
    listening: Listening,
    tracking: Tracking,
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
        let (mut answers, tracking) = self.broker.ask_tracking(&[facts]).await?;
        self.tracking = tracking;
        read_facts(answers.pop().ok_or_else(|| reply::unexpected("no answer"))??)
    }

    async fn read(&self) -> Result<Option<TaskInfo>, BrokerError> {
        self.broker.task(self.queue, self.id).await
    }

    async fn changed(&mut self) -> Result<Option<Duration>, BrokerError> {
        if self.broker.until_closed(received(&self.listening, self.tracking)).await? == Some(Change::Key) {
            self.is_announced = true;
        }
        Ok(None)
    }
}

impl RedisBroker {
    /// See [`Inspect::wait_for_end`](crate::broker::Inspect::wait_for_end).
    pub(super) async fn wait_for_task_end(
        &self,
        queue: &QueueName,
        id: &TaskId,
        limit: Duration,
    ) -> Result<TaskEnd, BrokerError> {
        let key = Keys::new(queue).task(id.as_str());
        let listening = self.wake().waiters.listen(vec![key.clone()]);
        let wait = OneWait { broker: self, queue, id, key, listening, tracking: Tracking::Off, is_announced: false };
        wait_for_end(wait, queue, id, limit).await
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
                let (is_idle, tracking) = self.look_for_tasks(&calls).await?;
                let is_idle = is_idle && self.look_for_tasks(&calls).await?.0;
                Ok((is_idle, tracking))
            };
            let tracking = match retries.ask(look).await {
                None => return seen.ok_or_else(Retries::no_answer),
                Some(Ok((true, _))) if listening.received_nothing() => return Ok(true),
                Some(Ok((_, tracking))) => tracking,
                Some(Err(error)) => {
                    retries.after(error).await?;
                    continue;
                }
            };
            retries.answered();
            seen = Some(false);
            if self.until_closed(timeout(retries.left(), received(&listening, tracking))).await?.is_err() {
                return Ok(false);
            }
            sleep(TOGETHER.min(retries.left())).await;
        }
    }

    /// See [`Inspect::queues_of`](crate::broker::Inspect::queues_of).
    pub(super) async fn find_queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError> {
        let mut found = Vec::new();
        for queues in self.queues().await?.chunks(QUEUES) {
            let exists = |queue| Call::plain("EXISTS").arg(Keys::new(queue).task(id.as_str()));
            let answers = self.looking().send(queues.iter().map(exists).collect()).await?;
            for (queue, answer) in queues.iter().zip(answers) {
                if reply::number(&answer?) == Some(1) {
                    found.push(queue.clone());
                }
            }
        }
        Ok(found)
    }

    /// Returns whether all places that `calls` count are empty.
    async fn look_for_tasks(&self, calls: &[Call]) -> Result<(bool, Tracking), BrokerError> {
        let (answers, tracking) = self.ask_tracking(calls).await?;
        let mut is_idle = true;
        for answer in answers {
            is_idle &= reply::number(&answer?) == Some(0);
        }
        Ok((is_idle, tracking))
    }

    async fn until_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, BrokerError> {
        tokio::select! {
            done = waiting => Ok(done),
            closed = self.router.ended() => Err(closed),
        }
    }

    /// Sends `calls` on the tracking connection, so that Redis announces the next change of their keys.
    async fn ask_tracking(&self, calls: &[Call]) -> Result<(Vec<Answer>, Tracking), BrokerError> {
        match self.wake().send(calls.to_vec()).await? {
            Some(answers) => Ok((answers, Tracking::On)),
            None => Ok((self.router.send(calls.to_vec()).await?, Tracking::Off)),
        }
    }
}

/// Returns the state and the extra facts of a task from its hash; `None` if the task does not exist.
fn read_facts(answer: Value) -> Result<Option<(TaskState, Extra)>, BrokerError> {
    let [state, extra] = <[Value; 2]>::try_from(reply::array(answer)?).map_err(|_| reply::unexpected("no task"))?;
    let extra = reply::bytes(extra).map(|extra| Extra::from_bytes(&extra)).unwrap_or_default();
    let state = match reply::text(state) {
        None => None,
        Some(state) => Some(state.parse().map_err(|_| reply::unexpected("an unknown state"))?),
    };
    Ok(state.map(|state| (state, extra)))
}

/// Waits until a key that was read may have changed. Returns the change, or `None` if Redis has not announced one.
async fn received(listening: &Listening, tracking: Tracking) -> Option<Change> {
    match tracking {
        Tracking::On => timeout(NET, listening.changed()).await.ok(),
        Tracking::Off => {
            sleep(POLL).await;
            None
        }
    }
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

//! Waits for the ends of tasks, and until queues have nothing left to do, without polling: a waiter reads the task's own hash on the
//! tracking connection, and Redis announces the next change of it by any program (docs/design/wire.md#waiting-without-polling).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::Value;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    super::{
        BrokerError, BrokerErrorKind, Inspect as _, TaskEnd,
        task_end::{AfterLook, EndWatch, Trouble},
    },
    RedisBroker,
    keys::Keys,
    reply,
    router::Answer,
    script::Call,
    seen,
    waits::{end, left},
};
use crate::task::{Extra, QueueName, TaskId, TaskState};

/// How often to look where tracking is refused.
const POLL: Duration = Duration::from_millis(250);
/// Changes of a queue that follow each other within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(5);
/// Ids are looked for in so many queues at a time.
const QUEUES: usize = 100;
/// So many times a task may have ended and yet not be found as a whole, because others run it again.
const LOOKS: u32 = 10;

/// Those who wait for changes of some keys. One push is handed to the waiters of its keys alone: with a broadcast, 10,000 waiters
/// would wake up for each of 10,000 ends.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyWaiters(Arc<Mutex<HashMap<String, Vec<Arc<Waiter>>>>>);

/// One who waits for changes of some keys.
#[derive(Debug, Default)]
struct Waiter {
    /// The first change since the last look.
    first: Mutex<Option<Change>>,
    changed: Notify,
}

/// How the keys of a waiter changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The key changed at this moment.
    Key(Instant),
    /// The key may have changed: the connection was lost.
    Perhaps,
}

/// A waiter's place among the others; dropping it gives the place up.
#[derive(Debug)]
struct Listening {
    waiters: KeyWaiters,
    keys: Vec<String>,
    waiter: Arc<Waiter>,
}

impl KeyWaiters {
    /// Hands on what the tracking connection says.
    pub(super) fn notify(&self, change: &seen::Change) {
        let waiting = self.lock();
        match change {
            seen::Change::Keys(keys) => {
                let now = Instant::now();
                let told = keys.iter().filter_map(|key| waiting.get(key)).flatten();
                told.for_each(|waiter| waiter.tell(Change::Key(now)));
            }
            seen::Change::All => waiting.values().flatten().for_each(|waiter| waiter.tell(Change::Perhaps)),
        }
    }

    fn listen(&self, keys: Vec<String>) -> Listening {
        let waiter = Arc::<Waiter>::default();
        let mut waiting = self.lock();
        for key in &keys {
            waiting.entry(key.clone()).or_default().push(Arc::clone(&waiter));
        }
        drop(waiting);
        Listening { waiters: self.clone(), keys, waiter }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Waiter>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn tell(&self, change: Change) {
        self.first().get_or_insert(change);
        self.changed.notify_one();
    }

    fn first(&self) -> MutexGuard<'_, Option<Change>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// Forgets what was heard. The next look sees it.
    fn clear(&self) {
        *self.waiter.first() = None;
    }

    /// Whether nothing was heard since [`clear`](Self::clear).
    fn heard_nothing(&self) -> bool {
        self.waiter.first().is_none()
    }

    /// Waits for the first change since [`clear`](Self::clear).
    async fn changed(&self) -> Change {
        loop {
            if let Some(change) = self.waiter.first().take() {
                return change;
            }
            self.waiter.changed.notified().await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        for key in &self.keys {
            if let Some(waiters) = waiting.get_mut(key) {
                waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
                if waiters.is_empty() {
                    waiting.remove(key);
                }
            }
        }
    }
}

/// Whether a change of what was asked for will be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tracking {
    On,
    /// Tracking is refused, by a proxy or a missing permission.
    Off,
}

impl RedisBroker {
    /// See [`Inspect::wait_for_end`](crate::broker::Inspect::wait_for_end).
    pub(super) async fn wait_for_task_end(
        &self,
        queue: &QueueName,
        id: &TaskId,
        limit: Duration,
    ) -> Result<TaskEnd, BrokerError> {
        let until = end(limit);
        let key = Keys::new(queue).task(id.as_str());
        let listening = self.wake().waiters.listen(vec![key.clone()]);
        let (mut watch, mut trouble, mut unread) = (EndWatch::default(), Trouble::default(), 0);
        loop {
            listening.clear();
            let seen = watch.time_over();
            let looked = match (trouble.cut(seen.is_none(), until, self.look_at_end(&key)).await, seen) {
                (Some(looked), _) => looked,
                (None, Some(seen)) => return Ok(seen),
                (None, None) => continue,
            };
            let (found, told) = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    trouble.met(error, until).await?;
                    continue;
                }
            };
            match watch.looked(found, Instant::now()) {
                AfterLook::Wait if left(until).is_zero() => return Ok(watch.time_over().unwrap_or(TaskEnd::Gone)),
                AfterLook::Wait => trouble = Trouble::default(),
                AfterLook::Answer(answer) => return Ok(answer),
                AfterLook::Read => {
                    match self.task(queue, id).await {
                        Ok(Some(task)) if has_ended(task.state) => return Ok(TaskEnd::Kept(Box::new(task))),
                        // It was run again or removed since the look, or its message cannot be read.
                        Ok(_) if unread < LOOKS => unread += 1,
                        Ok(_) => return Err(unreadable(&key)),
                        Err(error) => trouble.met(error, until).await?,
                    }
                    continue;
                }
            }
            match self.until_closed(timeout(left(until), heard(&listening, told))).await? {
                Ok(Some(Change::Key(at))) => watch.changed(at),
                Ok(_) => {}
                Err(_) => return Ok(watch.time_over().unwrap_or(TaskEnd::Gone)),
            }
        }
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
        let until = end(limit);
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        let sizes: Vec<(&str, String)> = keys.iter().flat_map(sizes).collect();
        let listening = self.wake().waiters.listen(sizes.iter().map(|(_, key)| key.clone()).collect());
        let calls: Vec<Call> = sizes.into_iter().map(|(command, key)| Call::plain(command).arg(key)).collect();
        let (mut trouble, mut is_first) = (Trouble::default(), true);
        loop {
            listening.clear();
            // A task may go from one place to another between the questions for both, and be in neither answer. Redis tells of
            // that before it answers the second round of questions.
            let look = async {
                let (is_idle, told) = self.look_for_tasks(&calls).await?;
                let is_idle = is_idle && self.look_for_tasks(&calls).await?.0;
                Ok((is_idle, told))
            };
            let looked = trouble.cut(is_first, until, look).await;
            is_first = false;
            let told = match looked {
                None => return Ok(false),
                Some(Ok((true, _))) if listening.heard_nothing() => return Ok(true),
                Some(Ok((_, told))) => told,
                Some(Err(error)) => {
                    trouble.met(error, until).await?;
                    continue;
                }
            };
            trouble = Trouble::default();
            if self.until_closed(timeout(left(until), heard(&listening, told))).await?.is_err() {
                return Ok(false);
            }
            sleep(TOGETHER.min(left(until))).await;
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

    /// The state and the extra facts of a task; `None` if it is not there.
    async fn look_at_end(&self, key: &str) -> Result<(Option<(TaskState, Extra)>, Tracking), BrokerError> {
        let (mut answers, told) = self.ask_tracking(&[Call::plain("HMGET").arg(key).arg("state").arg("x")]).await?;
        let answer = answers.pop().ok_or_else(|| reply::unexpected("no answer"))??;
        let [state, extra] = <[Value; 2]>::try_from(reply::array(answer)?).map_err(|_| reply::unexpected("no task"))?;
        let extra = reply::bytes(extra).map(|extra| Extra::from_bytes(&extra)).unwrap_or_default();
        let state = match reply::text(state) {
            None => None,
            Some(state) => Some(state.parse().map_err(|_| reply::unexpected("an unknown state"))?),
        };
        Ok((state.map(|state| (state, extra)), told))
    }

    /// Whether all these places are empty.
    async fn look_for_tasks(&self, calls: &[Call]) -> Result<(bool, Tracking), BrokerError> {
        let (answers, told) = self.ask_tracking(calls).await?;
        let mut is_idle = true;
        for answer in answers {
            is_idle &= reply::number(&answer?) == Some(0);
        }
        Ok((is_idle, told))
    }

    async fn until_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, BrokerError> {
        tokio::select! {
            done = waiting => Ok(done),
            closed = self.router.ended() => Err(closed),
        }
    }

    /// Asks on the tracking connection, so that the next change of what was asked for is told.
    async fn ask_tracking(&self, calls: &[Call]) -> Result<(Vec<Answer>, Tracking), BrokerError> {
        match self.wake().router.send(calls.to_vec()).await {
            Ok(answers) => Ok((answers, Tracking::On)),
            Err(error) if error.is_unavailable() || error.kind() == BrokerErrorKind::Closed => Err(error),
            Err(_) => Ok((self.router.send(calls.to_vec()).await?, Tracking::Off)),
        }
    }
}

/// Waits until what was asked for may have changed; says how, where that is known.
async fn heard(listening: &Listening, told: Tracking) -> Option<Change> {
    match told {
        Tracking::On => Some(listening.changed().await),
        Tracking::Off => {
            sleep(POLL).await;
            None
        }
    }
}

fn has_ended(state: TaskState) -> bool {
    matches!(state, TaskState::Completed | TaskState::Archived)
}

/// How to count the tasks of a queue that have not ended, place by place.
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

fn unreadable(key: &str) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Corrupt,
        format!("the task at {key} has ended, but what is stored there is not a task"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard_by(listening: &Listening) -> Option<Change> {
        *listening.waiter.first()
    }

    #[test]
    fn a_push_is_told_to_the_waiters_of_its_keys_alone_and_a_lost_connection_to_all() {
        let waiters = KeyWaiters::default();
        let one = waiters.listen(vec!["a".into()]);
        let both = waiters.listen(vec!["a".into(), "b".into()]);
        waiters.notify(&seen::Change::Keys(vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(heard_by(&one), None);
        assert!(matches!(heard_by(&both), Some(Change::Key(_))));
        waiters.notify(&seen::Change::All);
        assert_eq!(heard_by(&one), Some(Change::Perhaps));
        assert!(matches!(heard_by(&both), Some(Change::Key(_))), "the first change since the last look counts");
        both.clear();
        waiters.notify(&seen::Change::All);
        assert_eq!(heard_by(&both), Some(Change::Perhaps));
        drop((one, both));
        assert!(waiters.lock().is_empty(), "nobody is left behind");
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let waiters = KeyWaiters::default();
        let listening = waiters.listen(vec!["a".into()]);
        waiters.notify(&seen::Change::All);
        assert_eq!(listening.changed().await, Change::Perhaps);
        // A permit of what was cleared wakes nobody for nothing.
        waiters.notify(&seen::Change::All);
        listening.clear();
        waiters.notify(&seen::Change::Keys(vec!["a".to_owned()]));
        assert!(matches!(listening.changed().await, Change::Key(_)));
    }
}

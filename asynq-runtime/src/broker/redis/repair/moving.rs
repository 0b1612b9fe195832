//! Moves tasks between queues, which may lie in different places of a Cluster, where no script sees both.
//!
//! Where one Redis has both queues, one script makes all steps of a move, and no other program sees them. They are one by one in a
//! Cluster, and where one broke off.
//!
//! A move has four steps: hold the task in the old queue (scheduled for the year 9999, with a record of the move) →
//! place a copy in the new one, held likewise → drop the task from the old one → release it in the new one. No worker
//! runs a held task, no housekeeping deletes it, and no person changes it before the move has ended. There are never two
//! copies that a worker could run, every step looks at the record first, and a second call for the same move continues
//! where the first broke off.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use redis::Value;

use super::{
    TRIES,
    record::{End, Move},
};
use crate::{
    broker::{
        BrokerError, Changed, Refused,
        redis::{
            RedisBroker, effect,
            keys::Keys,
            queue_names::QueueNames,
            reply,
            script::{Call, DROP, HOLD, INSERT_MOVED, LOOK, MOVE, RELEASE},
        },
        unavailable,
    },
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

/// A task as it lies in a queue.
struct Found {
    untouchable: Option<TaskState>,
    /// Whether a move holds the task.
    is_held: bool,
    score: Option<i64>,
    due_ms: Option<i64>,
    lock_ends_ms: Option<i64>,
    state: Option<TaskState>,
    group: String,
    message: Bytes,
    /// The record of its move, with the fields of a newer version that it may have.
    record: Vec<u8>,
    /// The fields that go along to another queue, each before its value.
    carried: Vec<Vec<u8>>,
}

/// The outcome of dropping a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    Done,
    None,
    Changed,
}

impl RedisBroker {
    pub(super) async fn move_between(
        &self,
        queue: &QueueName,
        id: &TaskId,
        to: &QueueName,
    ) -> Result<Changed, Refused> {
        for n in 0..TRIES {
            let looked = self.look(queue, id).await;
            let looked = looked.map_err(|error| if n == 0 { effect::unchanged(error) } else { error });
            let Some(found) = looked? else { return self.arrive(queue, id, to, false).await };
            if let Some(state) = found.untouchable {
                return Ok(Changed::Unfit(state));
            }
            if let Some(moving) = found.on_its_way() {
                let is_leaving = moving.from == queue.as_str();
                if is_leaving && queue == to {
                    // A mover that goes on meanwhile finds the task released, and drops its copy.
                    if self.release(id, &moving, End::Source).await? {
                        self.drop_copy(id, &moving, End::Target, false).await?;
                        return Ok(Changed::Done);
                    }
                    continue;
                }
                if moving.to != to.as_str() {
                    return Ok(Changed::Unfit(TaskState::Scheduled));
                }
                if !is_leaving {
                    let from = moving.queue(End::Source);
                    // While the old queue has the task, the move goes on or is given up there.
                    if queue == to && self.look(&from, id).await?.is_none() {
                        return self.arrive(&from, id, to, true).await;
                    }
                    return Ok(Changed::Unfit(TaskState::Scheduled));
                }
                if let Some(changed) = self.carry(id, &moving, &found).await? {
                    return Ok(changed);
                }
                continue;
            }
            match found.state {
                Some(state @ (TaskState::Active | TaskState::Completed)) => return Ok(Changed::Unfit(state)),
                Some(_) if found.is_held => {
                    let detail = "a record of a move that cannot be read: move the task with the version that wrote it";
                    return Err(reply::unexpected(detail).into());
                }
                Some(_) if queue == to => return Ok(Changed::Done),
                Some(state) => {
                    let moving = found.departure(queue, to, state, self.clock.now().timestamp());
                    match self.check_room(id, &moving, &found).await {
                        Ok(()) if self.is_spread() => {
                            // The next look shows whether the task is held.
                            self.router.send_one(self.hold(id, &moving, state)).await?;
                        }
                        Ok(()) => {
                            if self.move_at_once(id, &moving, &found, state).await? {
                                return Ok(Changed::Done);
                            }
                        }
                        // If the task has left this queue meanwhile, the obstacle in the other queue is the task
                        // itself.
                        Err(refused) => match self.look(queue, id).await? {
                            Some(now) if now.state == Some(state) && now.message == found.message => {
                                return Err(refused);
                            }
                            _ => {}
                        },
                    }
                }
                None => return Err(reply::unexpected("a task in an unknown state: run, archive or delete it").into()),
            }
        }
        // The last try may hold the task.
        let text = format!("task {id} was changed by others {TRIES} times in a row; move it again");
        Err(unavailable(text).into())
    }

    /// Ends the move of a task that has left its queue: it may not have been released in the other one yet. Where the receipt
    /// of the step that drops the old copy is missing, another client may have run or deleted the task there: the new copy
    /// then stays held until the user moves it from the other queue to itself (`is_decided`).
    async fn arrive(
        &self,
        queue: &QueueName,
        id: &TaskId,
        to: &QueueName,
        is_decided: bool,
    ) -> Result<Changed, Refused> {
        let moving = self.look(to, id).await?.and_then(|found| found.on_its_way());
        let moving = moving.filter(|moving| moving.from == queue.as_str() && moving.to == to.as_str());
        let Some(moving) = moving else { return Ok(Changed::NotFound) };
        let receipt = self.receipt(id, &moving, End::Source).await?;
        if receipt.strip_prefix("back:") == Some(moving.name.as_str()) {
            // The move was given up, and the task has left its queue since in another way.
            self.drop_copy(id, &moving, End::Target, false).await?;
            return Ok(Changed::NotFound);
        }
        if receipt != moving.name && !is_decided {
            return Ok(Changed::Unfit(TaskState::Scheduled));
        }
        Ok(if self.release(id, &moving, End::Target).await? { Changed::Done } else { Changed::NotFound })
    }

    /// Carries a held task to the other queue. `None` if another program changed the task, so that the caller must look
    /// again.
    async fn carry(&self, id: &TaskId, moving: &Move, found: &Found) -> Result<Option<Changed>, Refused> {
        if let Err(refused) = self.place(id, moving, found).await {
            let unanswered = matches!(refused, Refused::Broker(_));
            // If the task has left this queue meanwhile, the obstacle in the other queue is the task itself.
            if unanswered || self.release(id, moving, End::Source).await? {
                return Err(refused);
            }
            return Ok(None);
        }
        // If the move has ended in the other queue, another mover was faster, or a failover has brought this copy back.
        match self.drop_copy(id, moving, End::Source, true).await? {
            Dropped::Done => {
                // If this releases no task, another mover has done so before, or another client has taken the copy.
                let is_there = self.release(id, moving, End::Target).await?
                    || self.receipt(id, moving, End::Target).await? == moving.name
                    || self.look(&moving.queue(End::Target), id).await?.is_some();
                Ok(Some(if is_there { Changed::Done } else { Changed::NotFound }))
            }
            other => {
                // Another program ran, edited or deleted the task in this queue, so this queue keeps it.
                self.drop_copy(id, moving, End::Target, false).await?;
                Ok((other == Dropped::None).then_some(Changed::NotFound))
            }
        }
    }

    /// Returns the name of the last move that has ended at one end, after `back:` if it was given up there; empty if none
    /// has ended for the time that it is kept.
    async fn receipt(&self, id: &TaskId, moving: &Move, end: End) -> Result<String, BrokerError> {
        let call = Call::plain("GET").arg(Keys::new(&moving.queue(end)).moved(id.as_str()));
        Ok(reply::text(self.router.send_one(call).await?).unwrap_or_default())
    }

    async fn look(&self, queue: &QueueName, id: &TaskId) -> Result<Option<Found>, BrokerError> {
        let keys = Keys::new(queue);
        let call = self.on_places(&LOOK, &keys, [keys.task(id.as_str()), keys.absent()]).arg(id.as_str());
        Found::read(self.router.send_one(call).await?)
    }

    /// Checks, before anything is changed, that no task or lock in the other queue is in the way.
    async fn check_room(&self, id: &TaskId, moving: &Move, found: &Found) -> Result<(), Refused> {
        if let Some(there) = self.look(&moving.queue(End::Target), id).await? {
            match there.on_its_way().filter(|stale| stale.from == moving.from) {
                // A move has left this copy behind, and its task is still here. The task is read again, because another
                // mover may have placed the copy since the first look, and then only the copy will be left. A move that
                // was given up is never resumed.
                Some(stale) => match self.look(&moving.queue(End::Source), id).await? {
                    Some(here) if here.on_its_way().is_none_or(|moving| moving.name != stale.name) => {
                        self.drop_copy(id, &stale, End::Target, false).await?;
                    }
                    _ => {}
                },
                None => return Err(Refused::IdConflict),
            }
        }
        let lock = moving.lock(&found.lock(), End::Target);
        if moving.lock_ends_ms.is_none() || lock.is_empty() {
            return Ok(());
        }
        let Some(holder) = reply::text(self.router.send_one(Call::plain("GET").arg(lock)).await?) else {
            return Ok(());
        };
        let task = Keys::new(&moving.queue(End::Target)).task(&holder);
        // A lock whose task is gone blocks no task.
        let holder_exists = reply::number(&self.router.send_one(Call::plain("EXISTS").arg(task)).await?) == Some(1);
        if holder == id.as_str() || !holder_exists {
            return Ok(());
        }
        Err(Refused::Duplicate { holder: Some(TaskId::from_wire(&holder)) })
    }

    /// Makes all steps of a move in one, for a Redis that has both queues: no other program finds a held task unless a step
    /// fails. Returns whether the task has arrived; if it has not, the next look shows how far it came.
    async fn move_at_once(
        &self,
        id: &TaskId,
        moving: &Move,
        found: &Found,
        state: TaskState,
    ) -> Result<bool, BrokerError> {
        let steps = [
            self.hold(id, moving, state),
            self.insert(id, moving, &moving.to_bytes(), &moving.lock(&found.lock(), End::Target)),
            self.drop_at(id, moving, End::Source, true),
            self.release_at(id, moving, End::Target)?,
        ];
        let to = moving.queue(End::Target);
        let calls = [QueueNames::call([&to]), MOVE.of_steps(&steps)];
        let [named, moved] = self.router.send_together(calls).await?;
        match moved {
            Err(error) if reply::crosses_slots(&error) => {
                self.is_sharded.store(true, Ordering::Relaxed);
                Ok(false)
            }
            answer => {
                let answer = reply::text(answer?);
                // Not before: a move that Redis refused has put no task into the queue.
                self.note_known(&to, named);
                Ok(answer.as_deref() == Some("done"))
            }
        }
    }

    fn hold(&self, id: &TaskId, moving: &Move, state: TaskState) -> Call {
        let keys = Keys::new(&moving.queue(End::Source));
        self.on_places(&HOLD, &keys, [keys.task(id.as_str()), keys.absent()])
            .arg(id.as_str())
            .arg(state.as_str())
            .arg(&moving.message[..])
            .arg(&moving.message_meanwhile(End::Source)[..])
            .arg(moving.to_bytes())
    }

    /// Places the copy in the other queue, unless this move has ended there.
    async fn place(&self, id: &TaskId, moving: &Move, found: &Found) -> Result<(), Refused> {
        let mut call = self.insert(id, moving, &found.record, &moving.lock(&found.lock(), End::Target));
        found.carried.iter().for_each(|part| call.push(&part[..]));
        let name = QueueNames::call([&QueueName::from_wire(&moving.to)]);
        let [named, placed] = self.router.send_together([name, call]).await?;
        named?;
        let mut answer = reply::array(placed?)?.into_iter().map(reply::text);
        let (word, holder) = (answer.next().flatten().unwrap_or_default(), answer.next().flatten());
        match word.as_str() {
            "done" | "over" => Ok(()),
            "conflict" => Err(Refused::IdConflict),
            "duplicate" => Err(Refused::Duplicate { holder: holder.and_then(reply::id) }),
            _ => Err(reply::unexpected("an unknown word").into()),
        }
    }

    /// Returns a call that places the copy in the other queue, without the fields that are the same in both.
    fn insert(&self, id: &TaskId, moving: &Move, record: &[u8], lock: &str) -> Call {
        let keys = Keys::new(&moving.queue(End::Target));
        let mut names = vec![keys.task(id.as_str()), keys.scheduled(), keys.moved(id.as_str())];
        names.extend(Some(lock).filter(|lock| !lock.is_empty()).map(str::to_owned));
        let mut call = self
            .timed(&INSERT_MOVED, &names)
            .arg(id.as_str())
            .arg(record)
            .arg(&moving.name)
            .arg(optional(moving.lock_ends_ms))
            .arg(keys.prefix())
            .arg("msg")
            .arg(&moving.message_meanwhile(End::Target)[..]);
        if !lock.is_empty() {
            call.push("unique_key");
            call.push(lock);
        }
        call
    }

    /// Deletes the copy at one end, if it is as this move left it.
    async fn drop_copy(&self, id: &TaskId, moving: &Move, end: End, receipt: bool) -> Result<Dropped, BrokerError> {
        let answer = self.router.send_one(self.drop_at(id, moving, end, receipt)).await?;
        match reply::text(answer).as_deref() {
            Some("done") => Ok(Dropped::Done),
            Some("none") => Ok(Dropped::None),
            Some("changed") => Ok(Dropped::Changed),
            _ => Err(reply::unexpected("an unknown word")),
        }
    }

    fn drop_at(&self, id: &TaskId, moving: &Move, end: End, receipt: bool) -> Call {
        let keys = Keys::new(&moving.queue(end));
        let lock =
            TaskMessage::decode(moving.message.clone()).map(|m| moving.lock(&m.unique_key, end)).unwrap_or_default();
        let mut names = vec![keys.task(id.as_str()), keys.scheduled(), keys.moved(id.as_str())];
        names.extend(Some(lock).filter(|lock| !lock.is_empty()));
        self.timed(&DROP, &names).arg(id.as_str()).arg(&moving.name).arg(i32::from(receipt))
    }

    /// Returns a held task at one end to its state, if it is as this move left it. Returns whether it was.
    async fn release(&self, id: &TaskId, moving: &Move, end: End) -> Result<bool, BrokerError> {
        let queue = moving.queue(end);
        // Makes a queue known again that was deleted meanwhile.
        let calls = [QueueNames::call([&queue]), self.release_at(id, moving, end)?];
        let [named, released] = self.router.send_together(calls).await?;
        self.note_known(&queue, named);
        Ok(reply::text(released?).as_deref() == Some("done"))
    }

    fn release_at(&self, id: &TaskId, moving: &Move, end: End) -> Result<Call, BrokerError> {
        let keys = Keys::new(&moving.queue(end));
        let state = moving.state().ok_or_else(|| reply::unexpected("a move of an unknown state"))?;
        Ok(self
            .on_places(&RELEASE, &keys, [keys.task(id.as_str()), keys.moved(id.as_str())])
            .arg(id.as_str())
            .arg(&moving.name)
            .arg(&moving.message(end)[..])
            .arg(state.as_str())
            .arg(optional(moving.score))
            .arg(optional(moving.due_ms))
            .arg(&moving.group)
            .arg(if end == End::Source { "head" } else { "tail" }))
    }
}

impl Found {
    fn read(answer: Value) -> Result<Option<Self>, BrokerError> {
        let parts = reply::array(answer)?;
        if parts.is_empty() {
            return Ok(None);
        }
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let state = |part| reply::text(part).and_then(|state| state.parse().ok());
        Ok(Some(Self {
            untouchable: state(next()),
            is_held: reply::number(&next()).is_some(),
            score: reply::number(&next()),
            due_ms: reply::number(&next()),
            lock_ends_ms: reply::number(&next()),
            state: state(next()),
            group: reply::text(next()).unwrap_or_default(),
            message: reply::bytes(next()).unwrap_or_default().into(),
            record: reply::bytes(next()).unwrap_or_default(),
            carried: parts.filter_map(reply::bytes).collect(),
        }))
    }

    /// Returns the key of the task's lock, as its message names it.
    fn lock(&self) -> String {
        TaskMessage::decode(self.message.clone()).map(|message| message.unique_key).unwrap_or_default()
    }

    /// Returns the move of the task, if it still holds the task: another program may have run the task since.
    fn on_its_way(&self) -> Option<Move> {
        if self.is_held { Move::from_bytes(&self.record) } else { None }
    }

    /// Returns a move that begins now.
    fn departure(&self, from: &QueueName, to: &QueueName, state: TaskState, now_s: i64) -> Move {
        let listed = state != TaskState::Pending;
        Move {
            name: uuid::Uuid::new_v4().simple().to_string(),
            from: from.to_string(),
            to: to.to_string(),
            state: state.number().into(),
            // A task that is missing from its zset gets the current time as its score in the new one.
            score: listed.then(|| self.score.unwrap_or(now_s)),
            due_ms: self.due_ms,
            lock_ends_ms: self.lock_ends_ms,
            group: self.group.clone(),
            message: self.message.clone(),
        }
    }
}

/// Returns a number as a script reads it: empty for `None`.
fn optional(number: Option<i64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

//! Repairs on Redis, each in one script except a move between queues of a Cluster.

mod edit;
mod moving;
mod orphan;
mod queue;
mod record;

use bytes::Bytes;
use redis::Value;

use super::{
    RedisBroker, effect, groups,
    keys::Keys,
    reply,
    script::{BULK, CHANGE, Call, UNLOCK},
};
use crate::{
    broker::{
        BrokerError, BrokerErrorKind, BulkAction, BulkSlice, Changed, Chosen, EditError, PayloadEdit, QueueDeleted,
        Refused, Repair, unavailable,
    },
    task::{QueueName, TaskId, TaskState},
};

/// Most tasks that one script changes.
const SLICE: usize = 100;
/// How often a repair that reads, decides and writes begins again because another program changed the task in between.
const TRIES: usize = 20;

#[async_trait::async_trait]
impl Repair for RedisBroker {
    async fn change_task(
        &self,
        queue: &QueueName,
        id: &TaskId,
        only: Option<TaskState>,
        action: BulkAction,
    ) -> Result<Changed, BrokerError> {
        let keys = Keys::new(queue);
        let call = self
            .on_places(&CHANGE, &keys, [keys.task(id.as_str()), keys.absent()])
            .arg(word(action))
            .arg(id.as_str())
            .arg(only.map_or("", TaskState::as_str));
        read_changed(self.router.change(call).await?)?.ok_or_else(|| reply::unexpected("an unknown word"))
    }

    async fn move_task(&self, queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, Refused> {
        self.move_between(queue, id, to).await.map_err(|refused| match refused {
            Refused::Broker(error) => effect::of_steps(error).into(),
            refused => refused,
        })
    }

    async fn edit_payload(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError> {
        self.edit(queue, id, edit).await
    }

    async fn end_orphan(&self, queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError> {
        self.end_lapsed(queue, id, error).await
    }

    async fn change_some(
        &self,
        queue: &QueueName,
        chosen: &Chosen,
        action: BulkAction,
        limit: usize,
    ) -> Result<BulkSlice, BrokerError> {
        let (state, group) = match chosen {
            Chosen::InState(state) => (*state, ""),
            Chosen::InGroup(group) => (TaskState::Aggregating, group.as_str()),
        };
        if !action.fits(state) {
            return Ok(BulkSlice::default());
        }
        let keys = Keys::new(queue);
        let mut step = reply::BEGIN.to_owned();
        loop {
            let call = self
                .on_places(&BULK, &keys, [keys.absent()])
                .arg(word(action))
                .arg(limit.min(SLICE))
                .arg(state.as_str())
                .arg(group)
                .arg(&step);
            let (mut slice, next) = read_slice(self.router.send_one(call).await.map_err(effect::of_slice)?)?;
            let found_nothing = slice == BulkSlice::default();
            slice.more |= next.is_some();
            match next {
                // The groups of this step have no task.
                Some(next) if found_nothing => step = next,
                _ => return Ok(slice),
            }
        }
    }

    async fn release_lock(
        &self,
        queue: &QueueName,
        key: &str,
        holder: &TaskId,
        stuck: bool,
    ) -> Result<bool, BrokerError> {
        let keys = Keys::new(queue);
        // Any other key is not a lock.
        if !key.strip_prefix(keys.prefix()).is_some_and(|name| name.starts_with("unique:")) {
            return Ok(false);
        }
        let call = UNLOCK.on(&[key, &keys.task(holder.as_str())]).arg(holder.as_str()).arg(i32::from(stuck));
        Ok(reply::number(&self.router.change(call).await?) == Some(1))
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<QueueDeleted, BrokerError> {
        self.delete_everything(queue).await.map_err(effect::of_steps)
    }
}

impl RedisBroker {
    /// Reads the state and the message of a task ahead of a change; `None` if there is no task.
    async fn read_for_change(
        &self,
        keys: &Keys,
        id: &TaskId,
    ) -> Result<Option<(Option<TaskState>, Bytes)>, BrokerError> {
        let call = Call::plain("HMGET").arg(keys.task(id.as_str())).arg("state").arg("msg");
        let fields = match self.router.send_one(call).await {
            // Something else lies under the key of the task, so there is no task.
            Err(error) if error.kind() == BrokerErrorKind::Corrupt => return Ok(None),
            answer => reply::array(answer.map_err(effect::unchanged)?)?,
        };
        let mut fields = fields.into_iter();
        let state = fields.next().and_then(reply::text).and_then(|state| state.parse().ok());
        let message = fields.next().and_then(reply::bytes);
        Ok(message.map(|message| (state, message.into())))
    }
}

const fn word(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Run => "run",
        BulkAction::Archive => "archive",
        BulkAction::Delete => "delete",
    }
}

/// Reads the answer of a script about one task; `None` if another program changed the task meanwhile.
fn read_changed(answer: Value) -> Result<Option<Changed>, BrokerError> {
    let word = reply::text(answer).unwrap_or_default();
    Ok(Some(match word.as_str() {
        "done" => Changed::Done,
        "none" => Changed::NotFound,
        "changed" => return Ok(None),
        state => Changed::Unfit(state.parse().map_err(|_| reply::unexpected("an unknown state"))?),
    }))
}

/// Reads the result of a slice, and the next step of the walk over the groups.
fn read_slice(answer: Value) -> Result<(BulkSlice, Option<String>), BrokerError> {
    let [changed, ghosts, more, next] = <[Value; 4]>::try_from(reply::array(answer)?)
        .map_err(|_| reply::unexpected("not three numbers and a place"))?;
    let (Some(changed), Some(ghosts)) = (reply::count(&changed), reply::count(&ghosts)) else {
        return Err(reply::unexpected("no numbers of tasks"));
    };
    Ok((BulkSlice { changed, ghosts, more: reply::number(&more) == Some(1) }, groups::next_step(next)))
}

/// Returns the error of a task that another program changes as fast as this one reads it.
fn restless(id: &TaskId) -> BrokerError {
    unavailable(format!("task {id} was changed by others {TRIES} times in a row; nothing was done, try again"))
        .without_effect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_scripts_are_read() {
        let word = |word: &str| read_changed(Value::BulkString(word.into()));
        assert_eq!(word("done").unwrap(), Some(Changed::Done));
        assert_eq!(word("none").unwrap(), Some(Changed::NotFound));
        assert_eq!(word("changed").unwrap(), None);
        assert_eq!(word("active").unwrap(), Some(Changed::Unfit(TaskState::Active)));
        assert!(word("waiting").is_err());
        let slice = |next: &str| {
            let numbers = [3, 1, 1].map(Value::Int).into_iter();
            read_slice(Value::Array(numbers.chain([Value::BulkString(next.into())]).collect()))
        };
        let done = BulkSlice { changed: 3, ghosts: 1, more: true };
        assert_eq!(slice("").unwrap(), (done, None));
        assert_eq!(slice("17").unwrap(), (done, Some("17".into())));
        assert!(read_slice(Value::Array(vec![Value::Int(3), Value::Int(1)])).is_err());
    }
}

//! Replaces payloads: reads and changes the message, and writes it unless another program changed it meanwhile.

use super::{TRIES, read_changed, restless};
use crate::{
    broker::{
        BrokerError, Changed, EditError, PayloadEdit, config, corrupt,
        redis::{RedisBroker, keys::Keys, reply, script::EDIT},
    },
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

impl RedisBroker {
    pub(super) async fn edit(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError> {
        let keys = Keys::new(queue);
        if edit.unique_key.as_ref().is_some_and(|key| !key.starts_with(keys.prefix())) {
            let text = format!("a unique key of queue {queue} begins with {}", keys.prefix());
            return Err(config(text).into());
        }
        for _ in 0..TRIES {
            let Some((state, raw)) = self.read_for_change(&keys, id).await? else { return Ok(Changed::NotFound) };
            let Some(state) = state else { return Err(unreadable(id).into()) };
            if matches!(state, TaskState::Active | TaskState::Completed) {
                return Ok(Changed::Unfit(state));
            }
            let Ok(message) = TaskMessage::decode(raw.clone()) else { return Err(unreadable(id).into()) };
            if edit.expected.as_ref().is_some_and(|expected| *expected != message.payload) {
                return Err(EditError::Changed);
            }
            let changed = TaskMessage { payload: edit.payload.clone(), ..message };
            let new_lock = edit.unique_key.as_deref().filter(|new| swaps(&changed.unique_key, new, &keys));
            let locks = new_lock.into_iter().flat_map(|new| [changed.unique_key.clone(), new.to_owned()]);
            let mut call = self
                .on_places(&EDIT, &keys, [keys.task(id.as_str()), keys.absent()].into_iter().chain(locks))
                .arg(id.as_str())
                .arg(state.as_str())
                .arg(&raw[..])
                .arg(changed.encode());
            if let Some(new) = new_lock {
                // The script decides whether the task holds a lock that it gives up for the new one.
                call.push(TaskMessage { unique_key: new.to_owned(), ..changed }.encode());
            }
            let mut answer = reply::array(self.router.change(call).await?)?.into_iter();
            let (word, holder) = (answer.next(), answer.next().and_then(reply::text));
            let word = word.ok_or_else(|| reply::unexpected("no word"))?;
            if word == redis::Value::BulkString(b"duplicate".to_vec()) {
                return Err(EditError::Duplicate { holder: holder.and_then(reply::id) });
            }
            if let Some(changed) = read_changed(word)? {
                return Ok(changed);
            }
        }
        Err(restless(id).into())
    }
}

/// Returns whether `new` takes the place of the lock `old`. A key of another queue is not a lock of the task.
fn swaps(old: &str, new: &str, keys: &Keys) -> bool {
    old != new && old.starts_with(keys.prefix())
}

fn unreadable(id: &TaskId) -> BrokerError {
    corrupt(format!("the message of task {id} cannot be read, so its payload cannot be replaced; delete the task"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_replaces_another_one_of_its_queue_only() {
        let keys = Keys::new(&QueueName::from_wire("q"));
        for (old, new, expected) in [
            ("asynq:{q}:unique:t:1", "asynq:{q}:unique:t:2", true),
            ("asynq:{q}:unique:t:1", "asynq:{q}:unique:t:1", false),
            ("asynq:{other}:unique:t:1", "asynq:{q}:unique:t:2", false),
            ("", "asynq:{q}:unique:t:2", false),
        ] {
            assert_eq!(swaps(old, new, &keys), expected, "{old} {new}");
        }
    }
}

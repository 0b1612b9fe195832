//! Replaces payloads: read, change the message, write it if nobody else did meanwhile (W16).

use super::{TRIES, read_changed, restless};
use crate::{
    broker::{
        BrokerError, BrokerErrorKind, Changed, EditError, PayloadEdit,
        redis::{RedisBroker, keys::Keys, reply, script::EDIT},
    },
    task::{QueueName, TaskId, TaskMessage, TaskState},
};

impl RedisBroker {
    pub(super) async fn edit(&self, queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError> {
        let keys = Keys::new(queue);
        if edit.unique_key.as_ref().is_some_and(|key| !key.starts_with(keys.prefix())) {
            let text = format!("a unique key of queue {queue} begins with {}", keys.prefix());
            return Err(BrokerError::new(BrokerErrorKind::Config, text).into());
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
            let (changed, locks) = edited(&message, edit);
            let mut names = vec![keys.task(id.as_str())];
            if let Some((old, new)) = locks.filter(|(old, _)| old.starts_with(keys.prefix())) {
                names.extend([old, new]);
            }
            let call = EDIT.on(&names).arg(id.as_str()).arg(state.as_str()).arg(&raw[..]).arg(changed.encode());
            let mut answer = reply::array(self.link.send_one(call).await?)?.into_iter();
            let (word, holder) = (answer.next(), answer.next().and_then(reply::text));
            let word = word.ok_or_else(|| reply::unexpected("no word"))?;
            if word == redis::Value::BulkString(b"duplicate".to_vec()) {
                let holder = holder.filter(|holder| !holder.is_empty()).map(|holder| TaskId::from_wire(&holder));
                return Err(EditError::Duplicate { holder });
            }
            if let Some(changed) = read_changed(word)? {
                return Ok(changed);
            }
        }
        Err(restless(id).into())
    }
}

/// The new message, and the old and the new lock where they differ.
fn edited(message: &TaskMessage, edit: &PayloadEdit) -> (TaskMessage, Option<(String, String)>) {
    let mut changed = TaskMessage { payload: edit.payload.clone(), ..message.clone() };
    let new = edit.unique_key.as_ref().filter(|key| !message.unique_key.is_empty() && **key != message.unique_key);
    let locks = new.map(|new| (std::mem::replace(&mut changed.unique_key, new.clone()), new.clone()));
    (changed, locks)
}

fn unreadable(id: &TaskId) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Corrupt,
        format!("the message of task {id} cannot be read, so its payload cannot be replaced; delete the task"),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_key_replaces_another_one_only() {
        for (old, new, key, swapped) in [
            ("", None, "", false),
            ("", Some("b"), "", false),
            ("a", None, "a", false),
            ("a", Some("a"), "a", false),
            ("a", Some("b"), "b", true),
        ] {
            let message = TaskMessage { unique_key: old.into(), ..TaskMessage::default() };
            let payload = Bytes::from_static(b"new");
            let edit = PayloadEdit { payload: payload.clone(), expected: None, unique_key: new.map(str::to_owned) };
            let (changed, locks) = edited(&message, &edit);
            assert_eq!((changed.unique_key.as_str(), changed.payload), (key, payload), "{old} {new:?}");
            assert_eq!(locks, swapped.then(|| (old.to_owned(), key.to_owned())), "{old} {new:?}");
        }
    }
}

//! A new payload for a task, with the unique lock that belongs to it.

use std::sync::Arc;

use bytes::Bytes;

use super::{InspectError, Inspector, TaskChange, queue_name, task_id};
use crate::{
    broker::{EditError, PayloadEdit},
    client::lock_key,
    job::{
        ArgumentShape, DueShapes, EnqueueError, Job, JobDescriptor, Needs, PreparedTask, ShapeLookup, decode_arguments,
        encode_arguments, is_named, postcard_header, resolve_arguments,
    },
    task::{QueueName, TaskId, TaskInfo},
};

/// How often an edit is tried when another program changes the task first.
const TRIES: usize = 8;

/// The new payload of a task.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) payload: Bytes,
    /// The old and the new bytes that make the task unique, if these are not the whole payload.
    pub(super) unique_by: Option<(Bytes, Bytes)>,
}

/// A kept shape, and the kind of payload that it is for.
type KeptShape = (Needs, Arc<ShapeLookup>);

/// Reads the arguments of a task of job `J`, by the shape that was kept for a payload of this kind where it needs one.
fn read_arguments<J: Job>(task: &TaskInfo, earlier: Option<&KeptShape>) -> Result<J, InspectError> {
    if !is_named::<J>(&task.r#type) {
        let found = task.r#type.clone();
        return Err(InspectError::OtherJob { id: task.id.clone(), expected: J::NAME, found });
    }
    // Another program may have written arguments of another shape in the meantime.
    let lookup = earlier.filter(|(needs, _)| Needs::of(&task.payload) == Some(*needs));
    Ok(resolve_arguments(&task.payload, lookup.map(|(_, lookup)| &**lookup))?)
}

impl Inspector {
    /// Changes the arguments of a pending, scheduled, retry, archived or aggregating task of job `J`. If the task holds a unique
    /// lock, the lock of the new arguments takes its place. `change` is called again if another program changed the task in the
    /// meantime. Arguments of an earlier version of the job are read as a worker reads them, and written in today's shape.
    ///
    /// ```no_run
    /// # use asynq_runtime::prelude::*;
    /// # #[job] async fn send_email(to: String) -> JobResult { let _ = to; Ok(()) }
    /// # async fn repair(client: &Client) -> Result<(), BoxError> {
    /// client.inspector().edit::<send_email>("default", "some-id", |job| job.to = "ann@example.com".into()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist; the task belongs to another job, or its state does not allow an edit; its arguments
    /// cannot be read; an equal task holds the new lock; an argument of `unique_by` changes, and the task's lock was not made of
    /// the bytes that it has in this program, as after a change of its type; other programs changed the task at every try; or the
    /// broker failed.
    pub async fn edit<J: Job>(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        mut change: impl FnMut(&mut J) + Send,
    ) -> Result<(), InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let earlier = self.earlier_shape::<J>(&self.task(&queue, &id).await?).await?;
        // A worker of the earlier version may take the task, and looks for the shape of the new payload by the task's name.
        let names = std::iter::once(J::NAME).chain(J::ALIASES.iter().copied());
        DueShapes::among(&*self.broker, names.map(|name| ArgumentShape::of::<J>().named(name))).keep().await;
        self.replace(&queue, id, |task| {
            let mut job: J = read_arguments(task, earlier.as_ref())?;
            let before = job.unique_by().transpose()?;
            change(&mut job);
            let unique_by = before.zip(job.unique_by().transpose()?);
            Ok(Change { payload: encode_arguments(&job)?, unique_by })
        })
        .await
    }

    /// Returns the arguments of a task of job `J`, in whatever state it is. Those of an earlier version of the job are read as a worker
    /// reads them.
    ///
    /// ```no_run
    /// # use asynq_runtime::prelude::*;
    /// # #[job] async fn send_email(to: String) -> JobResult { let _ = to; Ok(()) }
    /// # async fn given_up(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// for task in inspector.tasks("default", TaskState::Archived).await? {
    ///     let job: send_email = inspector.arguments(&task).await?;
    ///     println!("{} to {}", task.id, job.to);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The task belongs to another job, its arguments cannot be read, or the broker failed, which is asked for the shape of an earlier
    /// version alone.
    pub async fn arguments<J: Job>(&self, task: &TaskInfo) -> Result<J, InspectError> {
        let earlier = self.earlier_shape::<J>(task).await?;
        read_arguments(task, earlier.as_ref())
    }

    /// Returns the shape that the broker keeps of a task that another version of job `J` wrote, and the kind of payload that it is
    /// for; `None` for a task that needs none.
    async fn earlier_shape<J: Job>(&self, task: &TaskInfo) -> Result<Option<KeptShape>, InspectError> {
        let needs = match decode_arguments::<J>(&task.payload) {
            Err(error) if is_named::<J>(&task.r#type) && error.is_of_another_version() => Needs::of(&task.payload),
            _ => None,
        };
        let Some(needs) = needs else { return Ok(None) };
        Ok(self.shape(&task.r#type, needs).await?.map(|lookup| (needs, lookup)))
    }

    /// Replaces the payload of a pending, scheduled, retry, archived or aggregating task by these bytes. A unique lock that was
    /// made of the whole payload, as asynq makes it, is replaced too. Any other lock stays, because its new key cannot be derived
    /// from the payload: use [`edit`](Self::edit) for a job with `unique_by`.
    ///
    /// # Errors
    ///
    /// The queue or the task does not exist; its state does not allow an edit; an equal task holds the new lock; other programs
    /// changed the task at every try; or the broker failed.
    pub async fn edit_raw(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        payload: impl Into<Bytes>,
    ) -> Result<(), InspectError> {
        let change = Change { payload: payload.into(), unique_by: None };
        self.replace(&queue_name(queue)?, task_id(id)?, |_| Ok(change.clone())).await
    }

    /// [`edit`](Self::edit) for a job that is known by its descriptor: the arguments are those of a task that
    /// [`JobDescriptor::prepare`] has made. The other options of that task are not looked at.
    ///
    /// # Errors
    ///
    /// The arguments cannot be encoded, or the task or the arguments are of another job; the task holds a `Some` of nothing, such as
    /// `Some(None)`, or a float that is not finite, because JSON has null for both; otherwise the errors of [`edit`](Self::edit). The lock of
    /// a task whose arguments have an earlier shape stays: [`edit`](Self::edit) reads those.
    #[doc(hidden)]
    pub async fn edit_prepared(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        job: &JobDescriptor,
        new: &PreparedTask,
    ) -> Result<(), InspectError> {
        let wrong = |error: &EnqueueError| InspectError::Request { what: "arguments", reason: error.to_string() };
        let new = new.checked().map_err(wrong)?;
        let of_job = |name: &str| name == job.name || job.aliases.contains(&name);
        self.replace(&queue_name(queue)?, task_id(id)?, |task| {
            if let Some(found) = [&task.r#type, &new.name].into_iter().find(|name| !of_job(name)) {
                return Err(InspectError::OtherJob { id: task.id.clone(), expected: job.name, found: found.clone() });
            }
            if job.changes_in_json(&task.payload) {
                let reason = "JSON has null for a `Some` of nothing, such as `Some(None)`, and for a float that is not finite, and this \
                              task holds one; change it in a program, with `Inspector::edit`";
                return Err(InspectError::Request { what: "arguments", reason: reason.to_owned() });
            }
            let unique_by = job.unique_by(&task.payload).zip(new.unique_bytes.clone());
            Ok(Change { payload: new.payload.clone().unwrap_or_default(), unique_by })
        })
        .await
    }

    /// Replaces the payload as [`edit_raw`](Self::edit_raw) does, but fails if the new bytes do not begin with the old payload's
    /// header of the default codec: the format byte and the fingerprint of the arguments' shape. Without that header no worker
    /// can read the task, and the first one that tries archives it.
    ///
    /// # Errors
    ///
    /// [`InspectError::HeaderLost`]; otherwise the errors of [`edit_raw`](Self::edit_raw).
    #[doc(hidden)]
    pub async fn edit_raw_in_shape(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        payload: impl Into<Bytes>,
    ) -> Result<(), InspectError> {
        let change = Change { payload: payload.into(), unique_by: None };
        self.replace(&queue_name(queue)?, task_id(id)?, |task| match postcard_header(&task.payload) {
            Some(header) if !change.payload.starts_with(header) => {
                Err(InspectError::HeaderLost { id: task.id.clone(), job: task.r#type.clone() })
            }
            _ => Ok(change.clone()),
        })
        .await
    }

    /// Reads, changes and writes the task until no other program changed it in between.
    pub(super) async fn replace(
        &self,
        queue: &QueueName,
        id: TaskId,
        mut change: impl FnMut(&TaskInfo) -> Result<Change, InspectError> + Send,
    ) -> Result<(), InspectError> {
        let mut tries = 1;
        loop {
            let task = self.task(queue, &id).await?;
            if self.seen.as_ref().is_some_and(|seen| seen.payload != task.payload) {
                return Err(InspectError::Contended { id, tries });
            }
            let change = change(&task)?;
            if change.payload.len() > self.payload_limit {
                return Err(InspectError::TooLarge { size: change.payload.len(), limit: self.payload_limit });
            }
            let unique_key = new_key(queue, &task, &change);
            let moves = change.unique_by.as_ref().is_some_and(|(before, after)| before != after);
            if moves && task.unique_key.is_some() && unique_key.is_none() {
                let reason = "the name of the task's unique lock was made of other bytes, by another version of the job or before \
                              an edit of the payload, and cannot follow: delete the task and enqueue it anew";
                return Err(InspectError::Request { what: "arguments", reason: reason.to_owned() });
            }
            let edit = PayloadEdit { unique_key, expected: Some(task.payload), payload: change.payload };
            match self.change(queue, || self.broker.edit_payload(queue, &id, &edit)).await {
                Ok(changed) => return self.done(changed, TaskChange::Edit, queue, id).await,
                Err(EditError::Changed) if tries < TRIES => tries += 1,
                Err(error) => return Err(InspectError::not_edited(error, &id, tries)),
            }
        }
    }
}

/// The key of the lock after the change. It is known if the old key was made of the bytes that the job names, of the whole
/// payload, or, by a Go program, of no payload. `None` keeps the old key.
fn new_key(queue: &QueueName, task: &TaskInfo, change: &Change) -> Option<String> {
    let old = task.unique_key.as_deref()?;
    let key = |bytes: Option<&Bytes>| lock_key(queue, &task.r#type, bytes.map(AsRef::as_ref));
    if let Some((before, after)) = &change.unique_by
        && key(Some(before)) == old
    {
        return Some(key(Some(after)));
    }
    let nil = task.payload.is_empty() && key(None) == old;
    (nil || key(Some(&task.payload)) == old).then(|| key(Some(&change.payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{TaskMessage, TaskState};

    #[test]
    fn the_lock_follows_the_bytes_that_it_was_made_of() {
        let queue = QueueName::from_wire("q");
        let key = |bytes: Option<&'static str>| lock_key(&queue, "mail", bytes.map(str::as_bytes));
        let by = |before, after| Some((Bytes::from_static(before), Bytes::from_static(after)));
        for (what, old, payload, unique_by, expected) in [
            ("of the payload", key(Some("old")), "old", None, Some(key(Some("new")))),
            ("of an argument", key(Some("to1")), "old", by(b"to1", b"to2"), Some(key(Some("to2")))),
            ("by Go, of the payload", key(Some("old")), "old", by(b"to1", b"to2"), Some(key(Some("new")))),
            ("by Go, of nothing", key(None), "", None, Some(key(Some("new")))),
            ("of an empty payload", key(Some("")), "", None, Some(key(Some("new")))),
            ("of something unknown", "asynq:{q}:unique:mail:mine".to_owned(), "old", None, None),
            ("not at all", String::new(), "old", by(b"to1", b"to2"), None),
        ] {
            let message = TaskMessage {
                r#type: "mail".into(),
                queue: "q".into(),
                payload: payload.into(),
                unique_key: old,
                ..TaskMessage::default()
            };
            let task = TaskInfo::from_message(&message, TaskState::Pending);
            let change = Change { payload: "new".into(), unique_by };
            assert_eq!(new_key(&queue, &task, &change), expected, "{what}");
        }
    }
}

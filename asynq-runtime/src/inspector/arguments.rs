//! Reads and edits the arguments of any job, by the shapes that the broker keeps. The program need not know the job.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{InspectError, Inspector, edit::Change, queue_name, task_id};
use crate::{
    broker::BrokerError,
    job::{
        Fingerprint, JobDescriptor, Needs, ShapeLookup, encode_by_shape, fingerprint_of, postcard_header, show_by_shape,
    },
    task::TaskMessage,
};

/// Longest payload that is read by its shape, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// Reads payloads of the default codec for display, by the shapes that the broker keeps; [`Inspector::argument_reader`] makes
/// one.
#[derive(Debug, Clone, Default)]
pub struct ArgumentReader {
    /// The kept shapes by type and fingerprint; `None` if the shape was not looked up.
    shapes: HashMap<(String, u32), Option<Arc<ShapeLookup>>>,
}

impl ArgumentReader {
    /// Most shapes that one reader looks up, because fingerprints are untrusted input.
    pub const MOST_SHAPES: usize = 64;

    /// Returns the arguments in a payload of this type by their names; a [`Secret`](crate::Secret) is `***`. With the `job` that
    /// this program knows by the type, arguments that are secret today are hidden in payloads of its earlier versions, too.
    ///
    /// Returns `None` for a payload of another codec, such as JSON, which contains the names itself, and for a payload whose
    /// shape the broker does not keep, or that the reader was not made for.
    ///
    /// # Errors
    ///
    /// The shape is malformed or was not looked up, the payload does not have this shape, or it is longer than 1 MiB; or it is the
    /// message of an archived task of the type `undecodable`, of which any byte may be secret. The error text contains no value of
    /// the payload.
    pub fn read(&self, r#type: &str, job: Option<&JobDescriptor>, payload: &[u8]) -> Option<Result<Value, String>> {
        if r#type == TaskMessage::UNDECODABLE {
            return Some(Err("it is a whole message, which cannot be read".to_owned()));
        }
        let lookup = self.shapes.get(&(r#type.to_owned(), fingerprint_of(payload)?))?;
        let Some(lookup) = lookup else { return Some(Err("its shape was not looked up".to_owned())) };
        Some(match &**lookup {
            _ if payload.len() > MOST_BYTES => Err(format!("the payload is longer than {MOST_BYTES} bytes")),
            Ok(shape) => show_by_shape(shape, job.map(JobDescriptor::fingerprint).as_deref(), payload),
            Err(reason) => Err(reason.clone()),
        })
    }
}

impl Inspector {
    /// Looks up the shapes of these payloads, each with the type of its task: at most [`ArgumentReader::MOST_SHAPES`], each once.
    /// The tasks can be listed where the broker does not return a shape; [`ArgumentReader::read`] then says that it was not looked up.
    ///
    /// ```no_run
    /// # use asynq_runtime::prelude::*;
    /// # async fn look(client: &Client) -> Result<(), BoxError> {
    /// let inspector = client.inspector();
    /// let tasks = inspector.tasks("default", TaskState::Pending).await?;
    /// let reader = inspector.argument_reader(tasks.iter().map(|task| (&*task.r#type, &task.payload[..]))).await;
    /// for task in &tasks {
    ///     println!("{} {:?}", task.id, reader.read(&task.r#type, None, &task.payload));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn argument_reader<'p>(&self, payloads: impl IntoIterator<Item = (&'p str, &'p [u8])>) -> ArgumentReader {
        let (mut shapes, mut wanted) = (HashMap::new(), Vec::new());
        for (r#type, payload) in payloads {
            if let Some(fingerprint) = fingerprint_of(payload)
                && shapes.insert((r#type.to_owned(), fingerprint), None).is_none()
                && wanted.len() < ArgumentReader::MOST_SHAPES
            {
                wanted.push((r#type, fingerprint));
            }
        }
        for (r#type, fingerprint) in wanted {
            let key = (r#type.to_owned(), fingerprint);
            match self.shape(r#type, Needs::Fingerprint(fingerprint)).await {
                Ok(Some(lookup)) => drop(shapes.insert(key, Some(lookup))),
                Ok(None) => drop(shapes.remove(&key)),
                // Each further request would wait as long.
                Err(error) if error.is_unavailable() => break,
                Err(_) => {}
            }
        }
        ArgumentReader { shapes }
    }

    /// Returns the shape of tasks of this type, if it is known. Brokers do not keep the shape of no arguments, because it is the
    /// same in every program.
    pub(super) async fn shape(&self, r#type: &str, needs: Needs) -> Result<Option<Arc<ShapeLookup>>, BrokerError> {
        let nothing = Fingerprint::of_nothing();
        if needs.id() == Some(nothing.value) {
            return Ok(Some(Arc::new(Ok(nothing.document.clone()))));
        }
        self.shapes.find(&self.broker, r#type, needs).await
    }

    /// Replaces the arguments of a pending, scheduled, retry, archived or aggregating task of any job, and returns the new
    /// payload. A payload of the default codec is written by the shape that the broker keeps, any other as JSON. A unique lock
    /// that was made of the whole payload is replaced too. The lock of a job with `unique_by` stays: use [`edit`](Self::edit)
    /// there.
    ///
    /// # Errors
    ///
    /// [`InspectError::Misfit`] if the arguments do not fit the shape; [`InspectError::NoShape`] if the broker keeps no shape, or
    /// one that cannot be used; otherwise the errors of [`edit_raw`](Self::edit_raw).
    pub async fn edit_arguments(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
        arguments: &Value,
    ) -> Result<Bytes, InspectError> {
        let (queue, id) = (queue_name(queue)?, task_id(id)?);
        let task = self.task(&queue, &id).await?;
        let header = postcard_header(&task.payload);
        let payload = match header {
            None => arguments.to_string().into_bytes(),
            Some(header) => {
                let no_shape = |reason: &str| InspectError::NoShape {
                    id: id.clone(),
                    job: task.r#type.clone(),
                    reason: reason.to_owned(),
                };
                let needs = Needs::of(&task.payload).ok_or_else(|| no_shape("its payload cannot be read"))?;
                let lookup = self.shape(&task.r#type, needs).await?;
                let lookup = lookup.ok_or_else(|| no_shape("the broker keeps no shape of it"))?;
                let shape = lookup.as_ref().as_ref().map_err(|reason| no_shape(reason))?;
                let written = encode_by_shape(shape, arguments).map_err(|reason| InspectError::Misfit {
                    id: id.clone(),
                    job: task.r#type.clone(),
                    reason,
                    shape: shape.to_text(),
                })?;
                [header, &written[..]].concat()
            }
        };
        let payload = Bytes::from(payload);
        let replaced = self.replace(&queue, id, |now| {
            if postcard_header(&now.payload) != header {
                // Another program wrote arguments of another shape in the meantime.
                return Err(InspectError::Contended { id: now.id.clone(), tries: 1 });
            }
            Ok(Change { payload: payload.clone(), unique_by: None })
        });
        replaced.await?;
        Ok(payload)
    }
}

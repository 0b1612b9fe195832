//! How far a job has got, kept for the next attempt at its task.

use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    JobContext, JobError,
    codec::{decode_checkpoint, encode_checkpoint},
    context::block_on,
    results::{RESULT_LIMIT, TooLarge, WriteError},
};
use crate::broker::BrokerError;

/// How far a job has got, as its parameter: the value that an earlier attempt at the same task [saved](Self::save) last.
///
/// A checkpoint stays with the task over retries, snoozes, deploys and the death of a worker, and when an archived task is
/// run again. It ends with the task: when the task succeeds or is deleted, and when the payload is edited or the arguments
/// are replaced. It is encoded by the job's codec, at most 1 MiB; one that was saved with the other codec is read, too. If its type has
/// changed since it was saved, the task is requeued for a worker that knows the old type, like a task whose arguments have
/// another shape.
///
/// ```
/// # use asynq_runtime::prelude::*;
/// # async fn rows(file: &str, from: u64) -> Result<Vec<String>, BoxError> { Ok(Vec::new()) }
/// #[job]
/// async fn import(ctx: &JobContext, cursor: Checkpoint<u64>, file: String) -> JobResult {
///     let mut next = cursor.get().unwrap_or(0);
///     for row in rows(&file, next).await? {
///         tracing::info!("import {row}");
///         next += 1;
///         if next % 1000 == 0 || ctx.is_stopping() {
///             cursor.save(next).await?;
///         }
///         if ctx.is_stopping() {
///             return Err(JobError::snooze("0s"));
///         }
///     }
///     Ok(())
/// }
/// # fn main() {}
/// ```
pub struct Checkpoint<T> {
    saved: Mutex<Option<T>>,
    /// The attempt that keeps the checkpoint; `None` after [`new`](Checkpoint::new).
    ctx: Option<JobContext>,
}

impl<T> Checkpoint<T> {
    /// Returns a checkpoint that is kept nowhere, for calling a job's function directly in a test: `None` if the job has not
    /// run before.
    pub fn new(saved: Option<T>) -> Self {
        Self { saved: Mutex::new(saved), ctx: None }
    }
}

impl<T: Clone> Checkpoint<T> {
    /// Returns the value that was saved last, by this attempt or an earlier one; `None` if there is none.
    pub fn get(&self) -> Option<T> {
        self.saved.lock().clone()
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Checkpoint<T> {
    /// Replaces the saved value by `value`. The value is stored when this returns, if this attempt still holds the task: an
    /// attempt that lost it changes nothing. Each call is one write to the broker, so save every second rather than every
    /// row.
    ///
    /// # Errors
    ///
    /// [`WriteError`] says whether this attempt still holds the task. If it does not, or the value cannot be encoded, nothing was
    /// written. After an error of the broker it is not known whether the value was: the next attempt may find either.
    pub async fn save(&self, value: T) -> Result<(), WriteError> {
        if let Some(ctx) = &self.ctx
            && let Some(broker) = ctx.broker()
        {
            let bytes = encode_checkpoint(ctx.name(), ctx.codec(), &value)?;
            if bytes.len() > RESULT_LIMIT {
                return Err(TooLarge { what: "checkpoint", size: bytes.len() }.into());
            }
            WriteError::of(broker.save_checkpoint(ctx.run(), &bytes).await?)?;
        }
        *self.saved.lock() = Some(value);
        Ok(())
    }

    /// [`save`](Self::save) for a blocking job.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save); also when called outside a tokio runtime.
    ///
    /// # Panics
    ///
    /// In async code, where [`save`](Self::save) is the call.
    pub fn save_blocking(&self, value: T) -> Result<(), WriteError> {
        if self.ctx.as_ref().and_then(JobContext::broker).is_none() {
            *self.saved.lock() = Some(value);
            return Ok(());
        }
        block_on("saving a checkpoint", self.save(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for Checkpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkpoint").field(&*self.saved.lock()).finish()
    }
}

/// Why a job that asks for its checkpoint could not get it. The server recognises this type among the errors of jobs.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Unloaded {
    /// The checkpoint was saved by a program whose job keeps another type.
    #[error(
        "the checkpoint of `{job}` cannot be read: {reason}; run a version that knows it, or enqueue the task anew to begin \
         without it"
    )]
    Shape {
        /// The job.
        job: String,
        /// The mismatch.
        reason: String,
    },
    /// The broker could not be asked for the checkpoint.
    #[error("the checkpoint could not be asked for: {0}")]
    Broker(BrokerError),
}

impl JobContext {
    /// Returns the checkpoint of this task, with the value that an earlier attempt [saved](Checkpoint::save), if any; a
    /// parameter `Checkpoint<T>` of `#[job]` gets it from here. Each call is one read from the broker. A task has one
    /// checkpoint, so ask once.
    ///
    /// A [detached](Self::detached) context has none and keeps none.
    ///
    /// # Errors
    ///
    /// The saved value is of another type, or the broker failed. Return the error as it is: then the task is requeued without
    /// spending a retry.
    pub async fn checkpoint<T>(&self) -> Result<Checkpoint<T>, JobError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let saved = self.saved_checkpoint::<T>().await.map_err(JobError::fail)?;
        Ok(Checkpoint { saved: Mutex::new(saved), ctx: Some(self.clone()) })
    }

    async fn saved_checkpoint<T: DeserializeOwned + 'static>(&self) -> Result<Option<T>, Unloaded> {
        let Some(broker) = self.broker() else { return Ok(None) };
        let saved: Option<Bytes> = broker.checkpoint(self.run()).await.map_err(Unloaded::Broker)?;
        let Some(saved) = saved else { return Ok(None) };
        let read = decode_checkpoint(&saved).map(Some);
        read.map_err(|reason| Unloaded::Shape { job: self.name().to_owned(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_checkpoint_without_a_context_remembers_its_last_value() {
        let cursor = Checkpoint::new(None);
        assert_eq!(cursor.get(), None);
        cursor.save(7_u64).await.unwrap();
        assert_eq!(cursor.get(), Some(7));
        cursor.save_blocking(8).unwrap();
        assert_eq!(format!("{cursor:?}"), "Checkpoint(Some(8))");
    }

    #[tokio::test]
    async fn a_detached_context_has_none_and_keeps_none() {
        let ctx = JobContext::detached();
        let cursor = ctx.checkpoint::<u64>().await.unwrap();
        cursor.save(7).await.unwrap();
        assert_eq!(cursor.get(), Some(7));
        assert_eq!(ctx.checkpoint::<u64>().await.unwrap().get(), None);
    }
}

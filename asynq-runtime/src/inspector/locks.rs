//! The unique locks of a queue.

use super::{InspectError, Inspector, queue_name, task_id};
use crate::broker::LockPage;

impl Inspector {
    /// Returns some of the held unique locks of a queue, and the position of the next page: pass [`LockPage::next`] as `after`
    /// until it is `None`. A lock whose holder does not exist is stuck, as after a delete or trim of asynq's.
    ///
    /// # Errors
    ///
    /// The queue does not exist, or the broker failed.
    pub async fn locks(&self, queue: impl AsRef<str>, after: Option<&str>) -> Result<LockPage, InspectError> {
        let queue = queue_name(queue)?;
        let page = self.broker.locks(&queue, after).await?;
        if page.locks.is_empty() && after.is_none() {
            self.known(&queue).await?;
        }
        Ok(page)
    }

    /// Frees a unique lock, by its full key, if the task `holder` still holds it; with `stuck` only if that task does not exist.
    /// Returns whether the lock was freed. From then on an equal task is accepted, although the holder may still wait or run.
    ///
    /// # Errors
    ///
    /// The queue or the id is blank, or the broker failed.
    pub async fn release_lock(
        &self,
        queue: impl AsRef<str>,
        key: &str,
        holder: impl AsRef<str>,
        stuck: bool,
    ) -> Result<bool, InspectError> {
        let (queue, holder) = (queue_name(queue)?, task_id(holder)?);
        Ok(self.broker.release_lock(&queue, key, &holder, stuck).await?)
    }
}

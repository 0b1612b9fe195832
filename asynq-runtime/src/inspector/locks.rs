//! The unique locks of a queue.

use super::{InspectError, Inspector, queue_name, task_id};
use crate::broker::LockPage;

impl Inspector {
    /// Some of the unique locks of a queue that are held, and where to go on: give [`LockPage::next`] as `after` until there
    /// is none. A lock whose holder is in no state is stuck: its task is gone, as after a delete or trim of asynq's.
    ///
    /// # Errors
    ///
    /// There is no such queue, or the broker failed.
    pub async fn locks(&self, queue: impl AsRef<str>, after: Option<&str>) -> Result<LockPage, InspectError> {
        let queue = queue_name(queue)?;
        let page = self.broker.locks(&queue, after).await?;
        if page.locks.is_empty() && after.is_none() {
            self.known(&queue).await?;
        }
        Ok(page)
    }

    /// Frees a unique lock, by its full key, if the task `holder` still holds it; with `stuck` only if there is no such task. Returns
    /// whether it was freed. From then on an equal task is accepted, although the holder may still wait or run.
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

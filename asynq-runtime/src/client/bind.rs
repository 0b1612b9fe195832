//! A task as a client would store it, for callers that store it by another call of the broker.

use chrono::{DateTime, Utc};

use super::{Client, prepare};
use crate::{
    broker::NewTask,
    job::{DueShapes, EnqueueError, PreparedTask},
    task::TaskIds,
};

impl PreparedTask {
    /// Returns the task as it would be stored if it were enqueued at `now`, with a payload of at most `limit` bytes. Its id is a
    /// new random one unless it was given.
    ///
    /// # Errors
    ///
    /// An option or the name is not valid, or the payload is larger.
    #[doc(hidden)]
    pub fn bind(self, now: DateTime<Utc>, limit: usize) -> Result<NewTask, EnqueueError> {
        prepare::new_task(self, now, limit, &mut TaskIds::default())
    }
}

impl Client {
    /// Keeps the shape of the arguments of a task that is stored by another call of the broker, as an enqueue does: once a day, and a
    /// failure is logged.
    #[doc(hidden)]
    pub async fn keep_shape(&self, task: &PreparedTask) {
        DueShapes::among(&*self.broker, task.shape()).keep().await;
    }

    /// Returns whether [`keep_shape`](Self::keep_shape) would send the shape to the broker now.
    #[doc(hidden)]
    pub fn has_due_shape(&self, task: &PreparedTask) -> bool {
        task.shape().is_some_and(|shape| shape.due(self.broker.stored_shapes()).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RawTask;

    #[test]
    fn a_bound_task_is_the_one_that_an_enqueue_stores() {
        let task = || PreparedTask::from(RawTask::new("report", "abc").queue("low").task_id("r-1"));
        let bound = task().bind(DateTime::UNIX_EPOCH, 3).expect("a task");
        assert_eq!((bound.queue.as_str(), bound.id.as_str(), bound.message.r#type.as_str()), ("low", "r-1", "report"));
        assert!(matches!(task().bind(DateTime::UNIX_EPOCH, 2), Err(EnqueueError::TooLarge { size: 3, limit: 2 })));
    }
}

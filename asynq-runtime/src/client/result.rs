//! Reads the result of a finished task, with the type of its job.

use std::any::TypeId;

use bytes::Bytes;

use super::Client;
use crate::{
    broker::BrokerError,
    job::{IntoJobResult, Job, ReadResult, decode_result, is_named},
    task::{Ending, QueueName, TaskId, TaskInfo, TaskState},
};

/// The value that the job `J` returns when it succeeds.
pub(crate) type Value<J> = <<J as Job>::Output as IntoJobResult>::Value;

/// Why there is no result to read.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The queue has no such task: the id or the queue is wrong, or the task succeeded and is not kept (any longer).
    #[error(
        "task `{id}` is not in queue `{queue}`: it never was, or its retention is over; \
         give the job a `retention` to keep its results"
    )]
    NotFound {
        /// The queue.
        queue: QueueName,
        /// The id.
        id: TaskId,
    },
    /// No queue has a task of this id.
    #[error(
        "task `{id}` is in no queue: it never was, or its retention is over; \
         give the job a `retention` to keep its results"
    )]
    Nowhere {
        /// The id.
        id: TaskId,
    },
    /// The task waits or runs; [`wait`](crate::Enqueued::wait) for it, or ask again later.
    #[error("task `{id}` has not finished: it is {state}")]
    NotFinished {
        /// The id.
        id: TaskId,
        /// The state of the task.
        state: TaskState,
    },
    /// The job revoked the task.
    #[error("task `{id}` was revoked by its job")]
    Revoked {
        /// The id.
        id: TaskId,
    },
    /// The task was given up and will not run again by itself.
    #[error("task `{id}` was archived without a result{}", error.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Archived {
        /// The id.
        id: TaskId,
        /// The last error of the task.
        error: Option<String>,
    },
    /// The task succeeded without a result: its worker was another program, or its job returned nothing.
    #[error("task `{id}` succeeded, but its worker kept no result")]
    NoResult {
        /// The id.
        id: TaskId,
    },
    /// The result of the task cannot be read as one of this job.
    #[error("the result of task `{id}` cannot be read as one of `{job}`: {reason}")]
    Undecodable {
        /// The id.
        id: TaskId,
        /// The job.
        job: &'static str,
        /// The text of the decoder's error.
        reason: String,
        /// The bytes, for a caller that knows their format.
        raw: Bytes,
    },
    /// The task is one of another job.
    #[error("task `{id}` is a `{found}`, not a `{expected}`")]
    OtherJob {
        /// The id.
        id: TaskId,
        /// The job that was asked for.
        expected: &'static str,
        /// The task's type.
        found: String,
    },
    /// The longest time of a wait is not a length of time.
    #[error("the limit of the wait cannot be used: {reason}")]
    Limit {
        /// Why the limit cannot be used.
        reason: String,
    },
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(ResultError);

impl ResultError {
    /// Returns whether the same call may succeed later without a repair: the task waits or runs, or the broker did not answer.
    pub fn is_not_yet(&self) -> bool {
        match self {
            Self::NotFinished { .. } => true,
            Self::Broker(error) => error.is_unavailable(),
            _ => false,
        }
    }
}

impl Client {
    /// Returns the kept result of a task that was enqueued into `queue`, read by the job's codec. A job that returns `()` has
    /// the result `()` as soon as its task is completed. Results are kept as long as the job's `retention` says.
    ///
    /// # Errors
    ///
    /// A [`ResultError`] that says why there is no result.
    pub async fn result_in<J: Job>(&self, queue: impl AsRef<str>, id: impl AsRef<str>) -> Result<Value<J>, ResultError>
    where
        Value<J>: ReadResult,
    {
        // Names that other programs chose may break our rules, and yet there may be such a queue.
        let (queue, id) = (QueueName::from_wire(queue.as_ref()), TaskId::from_wire(id.as_ref()));
        match self.broker.task(&queue, &id).await? {
            Some(task) => read::<J>(task),
            None => Err(ResultError::NotFound { queue, id }),
        }
    }
}

/// Reads the result from the facts of a task.
pub(super) fn read<J: Job>(task: TaskInfo) -> Result<Value<J>, ResultError>
where
    Value<J>: ReadResult,
{
    let TaskInfo { id, r#type, state, ending, result, last_error, .. } = task;
    if !is_named::<J>(&r#type) {
        return Err(ResultError::OtherJob { id, expected: J::NAME, found: r#type });
    }
    match state {
        TaskState::Completed if ending == Ending::Revoked => return Err(ResultError::Revoked { id }),
        TaskState::Completed => {}
        TaskState::Archived => return Err(ResultError::Archived { id, error: last_error }),
        state => return Err(ResultError::NotFinished { id, state }),
    }
    let returns_nothing = TypeId::of::<Value<J>>() == TypeId::of::<()>();
    // A job that returns nothing may have written a result during its run.
    let result = result.filter(|_| !returns_nothing);
    if result.is_none() && !returns_nothing {
        return Err(ResultError::NoResult { id });
    }
    decode_result(J::CODEC, result.as_deref()).map_err(|reason| ResultError::Undecodable {
        id,
        job: J::NAME,
        reason,
        raw: result.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{
        job::{Codec, JobContext, JobResult, encode_result},
        task::TaskMessage,
    };

    macro_rules! job {
        ($type:ident $codec:ident $value:ty) => {
            #[derive(Debug, Serialize, Deserialize)]
            struct $type {}

            impl Job for $type {
                const NAME: &'static str = "size";
                const CODEC: Codec = Codec::$codec;
                type Output = JobResult<$value>;
                async fn run(self, _: &JobContext) -> JobResult<$value> {
                    unreachable!("only its types matter here")
                }
            }
        };
    }
    job!(Plain Postcard u64);
    job!(Shared Json u64);
    job!(Silent Postcard ());
    job!(SilentShared Json ());
    job!(Perhaps Json Option<u64>);

    /// Returns the bytes of a result that a worker of the job [`Plain`] has written.
    fn written(value: &impl Serialize) -> Bytes {
        encode_result(Plain::NAME, Plain::CODEC, value).unwrap()
    }

    fn task(state: TaskState, result: Option<&[u8]>) -> TaskInfo {
        let message = TaskMessage { r#type: "size".into(), id: "t1".into(), ..TaskMessage::default() };
        TaskInfo {
            result: result.map(Bytes::copy_from_slice),
            last_error: Some("boom".into()),
            ..TaskInfo::from_message(&message, state)
        }
    }

    fn completed(result: Option<&[u8]>) -> TaskInfo {
        task(TaskState::Completed, result)
    }

    #[test]
    fn a_result_is_read_by_the_codec_of_its_job() {
        assert_eq!(read::<Plain>(completed(Some(&written(&240_u64)))).unwrap(), 240);
        assert_eq!(read::<Plain>(completed(Some(&written(&240_u32)))).unwrap(), 240);
        assert_eq!(read::<Shared>(completed(Some(b"240"))).unwrap(), 240);
        assert_eq!(read::<Perhaps>(completed(Some(b"null"))).unwrap(), None);
    }

    #[test]
    fn a_job_that_returns_nothing_has_returned_nothing() {
        read::<Silent>(completed(None)).unwrap();
        read::<SilentShared>(completed(None)).unwrap();
        // They have written results during their runs.
        read::<Silent>(completed(Some(&[1, 17]))).unwrap();
        read::<SilentShared>(completed(Some(b"17"))).unwrap();
    }

    #[test]
    fn each_reason_for_a_missing_result_has_its_own_error() {
        for state in TaskState::ALL {
            let error = read::<Plain>(task(state, Some(&written(&7_u64)))).err().map(|error| error.to_string());
            let expected = match state {
                TaskState::Completed => None,
                TaskState::Archived => Some("task `t1` was archived without a result: boom".to_owned()),
                state => Some(format!("task `t1` has not finished: it is {state}")),
            };
            assert_eq!(error, expected);
        }
        let error = read::<Plain>(completed(None)).unwrap_err();
        assert_eq!(error.to_string(), "task `t1` succeeded, but its worker kept no result");
        assert!(!error.is_not_yet() && read::<Plain>(task(TaskState::Retry, None)).unwrap_err().is_not_yet());
    }

    #[test]
    fn bytes_that_are_not_a_result_are_in_the_error() {
        for (bytes, expected) in [
            (&b"240"[..], "not a postcard result of asynq-runtime (3 bytes)"),
            (&[], "not a postcard result of asynq-runtime (0 bytes)"),
            (&[1, 240, 1], "by an earlier version of asynq-runtime"),
            (&written(&(240_u64, 9_u8)), "1 bytes too many; it was not written as this program's type: u64"),
            (&written(&()), "Hit the end of buffer"),
            (&written(&-240_i64), "it was not written as this program's type: u64"),
        ] {
            let error = read::<Plain>(completed(Some(bytes))).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(matches!(error, ResultError::Undecodable { raw, job: "size", .. } if raw == bytes));
        }
        assert!(matches!(read::<Shared>(completed(Some(b"{"))), Err(ResultError::Undecodable { .. })));
    }

    #[test]
    fn a_task_of_another_job_is_not_read_by_accident() {
        let other = TaskInfo { r#type: "resize".into(), ..completed(Some(&written(&240_u64))) };
        let error = read::<Plain>(other).unwrap_err();
        assert_eq!(error.to_string(), "task `t1` is a `resize`, not a `size`");
    }
}

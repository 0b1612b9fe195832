//! Results that a job writes while it still runs.

use bytes::Bytes;
use serde::Serialize;

use super::{CodecError, JobContext, context::block_on, encode_result};
use crate::broker::{BrokerError, Settled};

/// Most bytes of a result and of a checkpoint: as many as a payload may have by default.
pub(crate) const RESULT_LIMIT: usize = 1 << 20;

/// A result or a checkpoint that is larger than the limit of 1 MiB, encoded.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has {size} bytes, more than the limit of {RESULT_LIMIT}; store it elsewhere and keep its place")]
pub struct TooLarge {
    /// `result` or `checkpoint`.
    pub what: &'static str,
    /// The size in bytes.
    pub size: usize,
}

debug_as_text!(TooLarge);

/// A result or a checkpoint that was not written.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The value cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The value is too large. Nothing was written; an earlier one stays.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Another server runs the task by now: stop. Nothing was written.
    #[error("this run has ended: the task was taken over by another worker")]
    Fenced,
    /// The task was deleted: stop. Nothing was written.
    #[error("this run has ended: the task was deleted")]
    Gone,
    /// The broker failed; the write may be repeated.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

debug_as_text!(WriteError);

impl WriteError {
    pub(super) fn of(settled: Settled) -> Result<(), Self> {
        match settled {
            Settled::Ok => Ok(()),
            Settled::Fenced => Err(Self::Fenced),
            Settled::Gone => Err(Self::Gone),
        }
    }
}

impl JobContext {
    /// Stores a result while the job runs, encoded like the value that the job returns (as JSON for a raw handler). The last
    /// result counts, and a value other than `()` that the job returns replaces it. At most 1 MiB. The result is kept after success
    /// only if the task has a retention. That of a job that returns `()` is read by `wait_raw`, an inspector and the tools alone.
    ///
    /// A [detached](Self::detached) context discards the result.
    ///
    /// # Errors
    ///
    /// [`WriteError`] says whether this attempt still holds the task.
    pub async fn write_result<T: Serialize + Sync>(&self, value: &T) -> Result<(), WriteError> {
        self.write_result_raw(self.encoded(value)?).await
    }

    /// [`write_result`](Self::write_result) with encoded bytes, as Go's `ResultWriter` takes them, for handlers.
    ///
    /// # Errors
    ///
    /// As [`write_result`](Self::write_result).
    pub async fn write_result_raw(&self, result: impl Into<Bytes> + Send) -> Result<(), WriteError> {
        let (Some(broker), result) = (self.broker(), result.into()) else { return Ok(()) };
        if result.len() > RESULT_LIMIT {
            return Err(TooLarge { what: "result", size: result.len() }.into());
        }
        WriteError::of(broker.write_result(self.run(), &result).await?)
    }

    /// [`write_result`](Self::write_result) for a blocking job.
    ///
    /// # Errors
    ///
    /// As [`write_result`](Self::write_result); also when called outside a tokio runtime.
    ///
    /// # Panics
    ///
    /// In async code, where [`write_result`](Self::write_result) is the call.
    pub fn write_result_blocking<T: Serialize>(&self, value: &T) -> Result<(), WriteError> {
        let result = self.encoded(value)?;
        if self.broker().is_none() {
            return Ok(());
        }
        block_on("writing a result", self.write_result_raw(result))
    }

    fn encoded<T: Serialize>(&self, value: &T) -> Result<Bytes, CodecError> {
        encode_result(self.name(), self.codec(), value)
    }
}

//! Keeps the shapes of arguments in the broker, so that programs of other versions can read the tasks of this one.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{Codec, Fingerprint, Job, shape::ShapeDocument};
use crate::broker::{Broker, BrokerError, NewShape};

/// The shape of a job's arguments, without its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgumentShape {
    job: &'static str,
    codec: Codec,
    argument: Option<&'static str>,
    fingerprint: fn() -> Arc<Fingerprint>,
}

impl ArgumentShape {
    pub(crate) const fn of<J: Job>() -> Self {
        Self { job: J::NAME, codec: J::CODEC, argument: J::ARGUMENT, fingerprint: Fingerprint::of::<J> }
    }

    /// Returns the shape if it must be kept now. JSON payloads say their shape themselves, except the name of a lone
    /// argument.
    fn due(self, broker: &dyn Broker) -> Option<NewShape> {
        let fingerprint = match (self.codec, self.argument) {
            (Codec::Postcard, _) => Some((self.fingerprint)().value),
            (Codec::Json, Some(_)) => None,
            (Codec::Json, None) => return None,
        };
        if !broker.stored_shapes().is_due(self.job, fingerprint) {
            return None;
        }
        let arguments = (self.fingerprint)();
        // Every program knows the shape of no arguments.
        if arguments.no_arguments {
            return None;
        }
        let Some(body) = arguments.document.to_bytes() else {
            tracing::debug!(job = self.job, "the shape of its arguments is too large to be kept");
            return None;
        };
        Some(NewShape { job: self.job.to_owned(), fingerprint, body: Bytes::from(body) })
    }
}

/// The shapes that this caller has to keep now; no other caller does so meanwhile.
#[derive(Debug)]
pub(crate) struct DueShapes<'b> {
    broker: &'b dyn Broker,
    shapes: Vec<NewShape>,
}

impl<'b> DueShapes<'b> {
    /// Returns the shapes that this process has not kept for a day, each once.
    pub(crate) fn among(broker: &'b dyn Broker, shapes: impl IntoIterator<Item = ArgumentShape>) -> Self {
        let mut due = Self { broker, shapes: Vec::new() };
        for shape in shapes {
            if let Some(new) = shape.due(broker) {
                broker.stored_shapes().note(std::slice::from_ref(&new), true);
                due.shapes.push(new);
            }
        }
        due
    }

    /// Returns the shapes for a caller that keeps them in a transaction of its own. Since that may be rolled back, they are due again
    /// soon.
    #[cfg(feature = "sqlite")]
    pub(crate) fn in_transaction(&self) -> &[NewShape] {
        &self.shapes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Keeps the shapes, with what other versions of the program have kept of them: a secret stays secret. A failure is not an error:
    /// tasks are enqueued all the same, and a later use tries again.
    pub(crate) async fn keep(mut self) {
        if self.is_empty() {
            return;
        }
        match self.keep_joined().await {
            Ok(()) => self.shapes.clear(),
            Err(error) => tracing::warn!(
                "the shapes of arguments cannot be kept, so other versions of the program may not read these tasks: {error}"
            ),
        }
    }

    async fn keep_joined(&self) -> Result<(), BrokerError> {
        let kept = self.shapes.iter().map(|new| self.broker.shape(&new.job, new.fingerprint));
        let kept = try_join_all(kept).await?;
        let join = |(new, kept): (&NewShape, Option<Bytes>)| {
            let body = kept.and_then(|kept| joined(&new.body, &kept)).unwrap_or_else(|| new.body.clone());
            NewShape { body, ..new.clone() }
        };
        let shapes: Vec<_> = self.shapes.iter().zip(kept).map(join).collect();
        self.broker.keep_shapes(&shapes).await
    }
}

/// Returns the new document with what the kept one adds; `None` if the kept one is not of this shape.
fn joined(new: &[u8], kept: &[u8]) -> Option<Bytes> {
    let kept = ShapeDocument::from_bytes(kept).ok()?;
    ShapeDocument::from_bytes(new).ok()?.joined(&kept)?.to_bytes().map(Bytes::from)
}

impl Drop for DueShapes<'_> {
    /// Makes shapes that were not kept, because the broker failed or the caller gave up, due again soon.
    fn drop(&mut self) {
        self.broker.stored_shapes().note(&self.shapes, false);
    }
}

//! Keeps the shapes of arguments in the broker, so that programs of other versions can read the tasks of this one.

use std::sync::Arc;

use bytes::Bytes;

use super::{Codec, Fingerprint, Job, shape::ShapeDocument};
use crate::broker::{Broker, NewShape, StoredShapes};

/// The shape of a job's arguments, without its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgumentShape {
    job: &'static str,
    codec: Codec,
    argument: Option<&'static str>,
    pub(super) fingerprint: fn() -> Arc<Fingerprint>,
}

impl ArgumentShape {
    pub(crate) const fn of<J: Job>() -> Self {
        Self { job: J::NAME, codec: J::CODEC, argument: J::ARGUMENT, fingerprint: Fingerprint::of::<J> }
    }

    /// Returns the same shape for tasks that have another name of the job.
    pub(crate) const fn named(self, job: &'static str) -> Self {
        Self { job, ..self }
    }

    /// Returns the shape if it must be kept now. JSON payloads say their shape themselves, except the name of a lone
    /// argument.
    pub(crate) fn due(self, stored: &StoredShapes) -> Option<NewShape> {
        let fingerprint = match (self.codec, self.argument) {
            (Codec::Postcard, _) => Some((self.fingerprint)().value),
            (Codec::Json, Some(_)) => None,
            (Codec::Json, None) => return None,
        };
        if !stored.is_due(self.job, fingerprint) {
            return None;
        }
        let arguments = (self.fingerprint)();
        // Every program knows the shape of no arguments.
        if arguments.no_arguments {
            return None;
        }
        let new = |body| NewShape { job: self.job.to_owned(), fingerprint, body };
        let Some(body) = arguments.document.to_bytes() else {
            // The next enqueue need not write the shape again to find it too long.
            stored.note(&[new(Bytes::new())], true);
            log!(
                warn,
                job = self.job,
                "the shape of its arguments is longer than 64 KiB and is not kept, so other versions of the program may not read \
                 its tasks"
            );
            return None;
        };
        Some(new(Bytes::from(body)))
    }
}

/// The shapes that this caller has to keep now; no other caller does so meanwhile.
#[derive(Debug)]
pub(crate) struct DueShapes<'b> {
    broker: &'b dyn Broker,
    /// Looked for once: on Redis the look takes a lock, and changes the connection to which a failure belongs.
    stored: &'b StoredShapes,
    shapes: Vec<NewShape>,
}

impl<'b> DueShapes<'b> {
    /// Returns the shapes that this process has not kept for a day or on this connection, each once.
    pub(crate) fn among(broker: &'b dyn Broker, shapes: impl IntoIterator<Item = ArgumentShape>) -> Self {
        let mut due = Self { broker, stored: broker.stored_shapes(), shapes: Vec::new() };
        shapes.into_iter().for_each(|shape| due.add(shape));
        due
    }

    /// Adds a shape, unless this process has kept it within a day and on this connection.
    fn add(&mut self, shape: ArgumentShape) {
        if let Some(new) = shape.due(self.stored) {
            self.stored.note(std::slice::from_ref(&new), true);
            self.shapes.push(new);
        }
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
        match self.broker.keep_shapes(&self.shapes, join_shapes).await {
            Ok(()) => self.shapes.clear(),
            Err(error) => log!(
                warn,
                "the shapes of arguments cannot be kept, so other versions of the program may not read these tasks: {error}"
            ),
        }
    }
}

/// Returns the shape if it must be kept, and how it is joined with the kept one, for a caller that keeps it in a transaction of its own. It
/// stays due: the transaction may be rolled back, and the next one be the first that commits.
#[cfg(feature = "sqlite")]
pub(crate) fn due_in_transaction(
    broker: &dyn Broker,
    shape: Option<ArgumentShape>,
) -> (Option<NewShape>, crate::broker::JoinShapes) {
    (shape.and_then(|shape| shape.due(broker.stored_shapes())), join_shapes)
}

/// Returns the new document with what the kept one adds; `None` if the kept one stays as it is (see [`Shapes`](crate::broker::Shapes)).
fn join_shapes(new: &NewShape, kept: &[u8]) -> Option<Bytes> {
    if new.body == kept {
        return None;
    }
    let documents = ShapeDocument::from_bytes(&new.body).and_then(|new| Ok((new, ShapeDocument::from_bytes(kept)?)));
    let Ok((document, before)) = documents else {
        // A newer version of this crate knows more of the shape.
        return (!ShapeDocument::is_of_newer_version(kept)).then(|| new.body.clone());
    };
    match document.joined(&before) {
        // A newer version of this crate may read more of the kept document, and writing it again would drop that.
        Some(joined) if before.joined(&before).as_ref() == Some(&joined) => None,
        // A joined document that is too large leaves the kept one in place.
        Some(joined) => joined.to_bytes().filter(|joined| joined != kept).map(Bytes::from),
        // The last shape of payloads in JSON counts. Payloads with this fingerprint have the kept shape, which may have secrets.
        None => new.fingerprint.is_none().then(|| new.body.clone()),
    }
}

impl Drop for DueShapes<'_> {
    /// Makes shapes that were not kept, because the broker failed or the caller gave up, due again soon.
    fn drop(&mut self) {
        // Most calls have none, and the note takes a lock that all callers share.
        if !self.is_empty() {
            self.stored.note(&self.shapes, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_is_too_long_is_due_once() {
        fn long() -> Arc<Fingerprint> {
            let mut long = (*Fingerprint::of_value::<u8>()).clone();
            long.document = long.document.of_argument(Some(&"n".repeat(70_000)), &[]);
            Arc::new(long)
        }

        let stored = StoredShapes::default();
        let fingerprint = Some(long().value);
        let shape = ArgumentShape { job: "mail", codec: Codec::Postcard, argument: None, fingerprint: long };
        assert!(stored.is_due("mail", fingerprint));
        assert_eq!(shape.due(&stored), None);
        assert!(!stored.is_due("mail", fingerprint), "it is not written again with each task");
    }

    #[test]
    fn a_kept_document_is_replaced_only_by_one_that_adds_to_it() {
        let [text, secret, number] = [r#"{"is":"str"}"#, r#"{"secret":{"is":"str"}}"#, r#"{"is":"u8"}"#]
            .map(|root| format!(r#"{{"v":1,"root":{root}}}"#));
        let longest = |name: char| {
            let name = String::from(name).repeat(40_000);
            format!(r#"{{"v":1,"argument":"{name}","root":{{"is":"str"}}}}"#)
        };
        for (fingerprint, new, kept, is_replaced_by) in [
            (Some(1), &text, &text, None),
            (Some(1), &text, &secret, None),
            (Some(1), &secret, &text, Some(&secret)),
            (Some(1), &text, &number, None),
            (None, &text, &number, Some(&text)),
            (Some(1), &text, &String::from("{}"), Some(&text)),
            (Some(1), &text, &String::from(r#"{"v":2}"#), None),
            (Some(1), &text, &String::from(r#"{"v":1,"root":{"is":"str"},"hidden":["to"]}"#), None),
            (Some(1), &longest('a'), &longest('b'), None),
        ] {
            let new = NewShape { job: "mail".into(), fingerprint, body: new.clone().into() };
            let body = is_replaced_by.map(|body| Bytes::from(body.clone()));
            assert_eq!(join_shapes(&new, kept.as_bytes()), body, "{kept:.60}");
        }
    }
}

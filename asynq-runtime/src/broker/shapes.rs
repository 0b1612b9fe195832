//! Contract: the shapes of jobs' arguments, with which programs of other versions read their payloads.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::RwLock;

use super::BrokerError;

/// How long a shape is kept after its last use: 400 days, longer than the default archive (90 days) and than most tasks are
/// scheduled ahead. The time begins anew when a program keeps a shape or asks for it.
pub const SHAPE_TTL: Duration = Duration::from_secs(400 * 86_400);

/// Longest shape that [`Shapes::shape`] returns, in bytes.
pub const LARGEST_SHAPE: usize = 64 * 1024;

/// A shape to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShape {
    /// The type of the tasks.
    pub job: String,
    /// The fingerprint in the payloads; `None` for the shape of payloads without a fingerprint (JSON).
    pub fingerprint: Option<u32>,
    /// The shape. Brokers do not look into it.
    pub body: Bytes,
}

/// Returns the body to keep in place of the kept one; `None` if that one stays as it is. The kept one may be cut off after
/// [`LARGEST_SHAPE`] + 1 bytes.
pub type JoinShapes = fn(new: &NewShape, kept: &[u8]) -> Option<Bytes>;

/// Keeps the shapes of arguments. Shapes are not part of the hot path: a program keeps each of its shapes at the first use, on each new
/// connection and once a day, joined with the kept one, and asks for a shape when a payload has a fingerprint that it does not know. A program that
/// enqueues in transactions of its own looks for the shape with each task, until it has kept it outside of one.
#[async_trait::async_trait]
pub trait Shapes {
    /// Keeps these shapes for [`SHAPE_TTL`]. `join` returns the bodies in place of those that are kept already, also of
    /// those that another program keeps at the same time. The call may be repeated.
    ///
    /// # Errors
    ///
    /// The broker failed; the others of them may be kept.
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError>;

    /// Returns the shape of this job and fingerprint, and keeps it for [`SHAPE_TTL`] from now, or up to a day less; `None` if none is kept. Of a shape
    /// that is longer than [`LARGEST_SHAPE`] it returns the first [`LARGEST_SHAPE`] + 1 bytes.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError>;

    /// Returns the shapes that this process has kept in this broker, on its present connection if it has connections: a server that
    /// was restarted may have lost them.
    fn stored_shapes(&self) -> &StoredShapes;
}

/// The shapes that this process has kept in a broker, with the times until which that need not be repeated.
#[derive(Debug, Default)]
pub struct StoredShapes {
    /// The number of the present connection; 0 of a broker without connections.
    connection: AtomicU64,
    shapes: RwLock<HashMap<Option<u32>, Vec<StoredShape>>>,
}

#[derive(Debug)]
struct StoredShape {
    job: String,
    /// The connection on which the shape was kept.
    connection: u64,
    until: Instant,
}

impl StoredShapes {
    /// A shape is kept again after this time, so that it does not expire while it is in use.
    const AGAIN: Duration = Duration::from_secs(86_400);
    /// After a failure no shape is sent for this time, because a broker that refuses must not slow each enqueue down.
    const AFTER_FAILURE: Duration = Duration::from_secs(30);

    /// Returns whether the shape must be kept now.
    pub fn is_due(&self, job: &str, fingerprint: Option<u32>) -> bool {
        let connection = self.connection.load(Ordering::Relaxed);
        let shapes = self.shapes.read();
        let known = shapes.get(&fingerprint).and_then(|jobs| jobs.iter().find(|shape| shape.job == job));
        known.is_none_or(|shape| shape.connection != connection || shape.until <= Instant::now())
    }

    /// Notes that these shapes were sent to the broker. [`is_due`](Self::is_due) returns `false` for a day after a success, and
    /// for 30 seconds after a failure, while the connection is the same.
    pub fn note(&self, shapes: &[NewShape], has_worked: bool) {
        let connection = self.connection.load(Ordering::Relaxed);
        let until = Instant::now() + if has_worked { Self::AGAIN } else { Self::AFTER_FAILURE };
        let mut stored = self.shapes.write();
        for NewShape { job, fingerprint, .. } in shapes {
            let jobs = stored.entry(*fingerprint).or_default();
            match jobs.iter_mut().find(|shape| shape.job == *job) {
                Some(known) => (known.connection, known.until) = (connection, until),
                None => jobs.push(StoredShape { job: job.clone(), connection, until }),
            }
        }
    }

    /// Sets the number of the present connection: what was kept on another one is due again.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn on_connection(&self, number: u64) -> &Self {
        // Every enqueue comes by. The look for the number takes a lock, and a store each would send one more cache line from thread
        // to thread.
        if self.connection.load(Ordering::Relaxed) != number {
            self.connection.store(number, Ordering::Relaxed);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_due_until_it_is_stored_and_each_for_itself() {
        let stored = StoredShapes::default();
        let shape = |job: &str, fingerprint| NewShape { job: job.into(), fingerprint, body: Bytes::new() };
        assert!(stored.is_due("mail", Some(1)));
        stored.note(&[shape("mail", Some(1))], true);
        assert!(!stored.is_due("mail", Some(1)));
        for (job, fingerprint) in [("mail", Some(2)), ("mail", None), ("bye", Some(1))] {
            assert!(stored.is_due(job, fingerprint), "{job} {fingerprint:?}");
            stored.note(&[shape(job, fingerprint)], false);
            assert!(!stored.is_due(job, fingerprint), "a failure is not repeated at once");
        }
    }

    #[test]
    fn a_shape_that_was_kept_on_another_connection_is_due_again() {
        let stored = StoredShapes::default();
        let shape = [NewShape { job: "mail".into(), fingerprint: Some(1), body: Bytes::new() }];
        for (connection, has_worked) in [(1, true), (0, false), (2, true)] {
            assert!(stored.on_connection(connection).is_due("mail", Some(1)), "{connection}");
            stored.note(&shape, has_worked);
            assert!(!stored.on_connection(connection).is_due("mail", Some(1)), "{connection}");
        }
    }
}

//! Contract: the shapes of jobs' arguments, by which programs of other versions read their payloads.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::BrokerError;

/// How long a shape is kept after a program last used it: 400 days, longer than the default archive (90 days) and than most
/// tasks are scheduled ahead. A program that keeps a shape or asks for one begins this time anew.
pub const SHAPE_TTL: Duration = Duration::from_secs(400 * 86_400);

/// Longest shape in bytes that [`Shapes::shape`] answers with.
pub const LARGEST_SHAPE: usize = 64 * 1024;

/// A shape to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShape {
    /// The name that the tasks have.
    pub job: String,
    /// What their payloads carry; `None` for the one that payloads without a fingerprint (JSON) go by.
    pub fingerprint: Option<u32>,
    /// The shape. Brokers do not look into it.
    pub body: Bytes,
}

/// Keeps the shapes of arguments. They are not part of the hot path: a program keeps each of its shapes when it uses it
/// first and once a day, and asks for one when it meets a fingerprint that it does not know.
#[async_trait::async_trait]
pub trait Shapes {
    /// Keeps these shapes for [`SHAPE_TTL`]; one that is kept already is replaced. A repeat is harmless.
    ///
    /// # Errors
    ///
    /// The broker failed; some of them may be kept.
    async fn keep_shapes(&self, shapes: &[NewShape]) -> Result<(), BrokerError>;

    /// The shape that tasks of this job and fingerprint have; `None` if none is kept. One that is longer than
    /// [`LARGEST_SHAPE`] comes cut off behind the byte after that. It is kept for [`SHAPE_TTL`] from now.
    ///
    /// # Errors
    ///
    /// The broker failed.
    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError>;

    /// What this process remembers of the shapes that it keeps in this broker.
    fn stored_shapes(&self) -> &StoredShapes;
}

/// Which shapes this process has kept in a broker, and when.
#[derive(Debug, Default)]
pub struct StoredShapes(RwLock<HashMap<Option<u32>, Vec<StoredShape>>>);

#[derive(Debug)]
struct StoredShape {
    job: String,
    until: Instant,
}

impl StoredShapes {
    /// After this long a shape is kept again, so that it does not expire while it is in use.
    const AGAIN: Duration = Duration::from_secs(86_400);
    /// After a failure nobody tries again for so long: a broker that refuses must not slow each enqueue.
    const AFTER_FAILURE: Duration = Duration::from_secs(30);

    /// Whether the shape has to be kept now.
    pub fn is_due(&self, job: &str, fingerprint: Option<u32>) -> bool {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = kept.get(&fingerprint).and_then(|jobs| jobs.iter().find(|kept| kept.job == job));
        known.is_none_or(|kept| kept.until <= Instant::now())
    }

    /// Notes that somebody keeps these shapes now; [`is_due`](Self::is_due) says no for a day, or for 30 seconds if that
    /// failed.
    pub fn note(&self, shapes: &[NewShape], has_worked: bool) {
        let until = Instant::now() + if has_worked { Self::AGAIN } else { Self::AFTER_FAILURE };
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for NewShape { job, fingerprint, .. } in shapes {
            let jobs = kept.entry(*fingerprint).or_default();
            match jobs.iter_mut().find(|kept| kept.job == *job) {
                Some(known) => known.until = until,
                None => jobs.push(StoredShape { job: job.clone(), until }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_due_until_it_is_kept_and_each_for_itself() {
        let kept = StoredShapes::default();
        let shape = |job: &str, fingerprint| NewShape { job: job.into(), fingerprint, body: Bytes::new() };
        assert!(kept.is_due("mail", Some(1)));
        kept.note(&[shape("mail", Some(1))], true);
        assert!(!kept.is_due("mail", Some(1)));
        for (job, fingerprint) in [("mail", Some(2)), ("mail", None), ("bye", Some(1))] {
            assert!(kept.is_due(job, fingerprint), "{job} {fingerprint:?}");
            kept.note(&[shape(job, fingerprint)], false);
            assert!(!kept.is_due(job, fingerprint), "a failure is not repeated at once");
        }
    }
}

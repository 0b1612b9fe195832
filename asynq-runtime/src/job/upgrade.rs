//! Upgrades of a job: functions from the arguments of an earlier version to today's job.

use std::fmt;

use serde::de::DeserializeOwned;

use super::{
    Fingerprint, Job, PayloadError, bounded,
    shape::{self, FromValue, ShapeDocument, Value},
};

/// A function from the arguments of an earlier version to today's job. `#[job(upgrade = from_v1)]` writes it; by hand:
///
/// ```
/// use asynq_runtime::{job::{Earlier, Upgrade}, prelude::*};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Invoice { cents: u64 }
///
/// #[derive(Deserialize)]
/// struct InvoiceV1 { euros: u32 }
///
/// fn from_v1(old: InvoiceV1) -> Invoice {
///     Invoice { cents: u64::from(old.euros) * 100 }
/// }
///
/// impl Job for Invoice {
///     const NAME: &'static str = "invoice";
///     const UPGRADES: &'static [Upgrade<Self>] = &[Upgrade::new(|earlier| earlier.through(from_v1))];
///     type Output = JobResult;
///     async fn run(self, _: &JobContext) -> JobResult {
///         Ok(())
///     }
/// }
/// ```
pub struct Upgrade<J: Job>(pub(super) fn(&Earlier<'_>) -> Option<Result<J, PayloadError>>);

impl<J: Job> Upgrade<J> {
    /// Returns an upgrade that reads with [`Earlier::through`].
    pub const fn new(read: fn(&Earlier<'_>) -> Option<Result<J, PayloadError>>) -> Self {
        Self(read)
    }

    /// Today's job by the first of its upgrades that takes the arguments; `None` if there is none.
    pub(super) fn first(earlier: &Earlier<'_>) -> Option<Result<J, PayloadError>> {
        // A constant, so that a job without upgrades is not compiled for them.
        if const { J::UPGRADES.is_empty() } {
            return None;
        }
        J::UPGRADES.iter().find_map(|upgrade| (upgrade.0)(earlier))
    }
}

impl<J: Job> fmt::Debug for Upgrade<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upgrade").field(&J::NAME).finish()
    }
}

/// The arguments of a task that another version of the program enqueued.
pub struct Earlier<'p>(pub(super) Content<'p>);

pub(super) enum Content<'p> {
    Postcard(u32, &'p [u8]),
    Json(&'p [u8]),
    /// A payload of another shape, which the broker keeps, and whether that shape must be exactly the upgrade's.
    Known {
        shape: &'p ShapeDocument,
        value: &'p Value<'p>,
        exactly: bool,
    },
}

impl Earlier<'_> {
    /// Returns today's job if `upgrade` takes the arguments: a payload of the default codec must have exactly the shape of
    /// `T`, or, if nothing else reads it, become `T` by serde's rules; a JSON payload must be readable as `T`. Returns `None`
    /// for all others.
    pub fn through<T: DeserializeOwned + 'static, J: Job>(
        &self,
        upgrade: impl FnOnce(T) -> J,
    ) -> Option<Result<J, PayloadError>> {
        let old = match self.0 {
            Content::Json(payload) => serde_json::from_slice::<T>(payload).ok()?,
            Content::Postcard(found, arguments) => {
                let fingerprint = Fingerprint::of_earlier::<J, T>();
                if !fingerprint.is(found) {
                    return None;
                }
                // The payload is decoded like any other of another shape, so that all of its bytes are read.
                let read = match shape::decode(&fingerprint.document, arguments) {
                    Ok(value) => T::deserialize(FromValue(&value)).map_err(|error| error.to_string()),
                    // The shape of `T` is known in part.
                    Err(reason) => match bounded::take_from_bytes(arguments) {
                        Ok(Ok((old, []))) => Ok(old),
                        _ => Err(reason),
                    },
                };
                match read {
                    Ok(old) => old,
                    Err(reason) => {
                        let expected = Fingerprint::in_postcard::<J>().value;
                        return Some(Err(PayloadError::Unresolved { job: J::NAME, expected, found, reason }));
                    }
                }
            }
            Content::Known { shape, value, exactly } => {
                if exactly && !Fingerprint::of_earlier::<J, T>().document.is_same_shape(shape) {
                    return None;
                }
                T::deserialize(FromValue(value)).ok()?
            }
        };
        Some(Ok(upgrade(old)))
    }
}

impl fmt::Debug for Earlier<'_> {
    /// Omits the arguments, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Earlier").finish_non_exhaustive()
    }
}

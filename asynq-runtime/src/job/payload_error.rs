//! Why a job cannot take a payload.

/// A payload that a job cannot take.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Arguments of another shape: another version of the program may know it.
    #[error(
        "the arguments of `{job}` have shape {found:08x}, but this program's `{job}` takes shape {expected:08x}: {shape}; \
         run a version that knows the old shape, or write an upgrade (docs/changing-a-job.md)"
    )]
    UnknownFingerprint {
        /// The job.
        job: &'static str,
        /// Fingerprint of this program's shape.
        expected: u32,
        /// Fingerprint in the payload.
        found: u32,
        /// This program's shape, for people.
        shape: String,
    },
    /// Arguments that another version of the job may write: JSON that lacks a field or has a value of another type, or a value
    /// that its type does not take, or that is beyond the bounds of what is read, which earlier versions of this crate did not have; or
    /// a payload that begins with a byte of 3 to 7, which is kept for later versions of this crate.
    #[error(
        "the arguments of `{job}` do not fit: {reason}; run a version that takes them, or give them a default, an alias or \
         an upgrade (docs/changing-a-job.md)"
    )]
    Unfit {
        /// The job.
        job: &'static str,
        /// The mismatch.
        reason: String,
    },
    /// Arguments of another shape, which is known and cannot become this program's.
    #[error(
        "the arguments of `{job}` have shape {found:08x} and cannot be read as this program's shape {expected:08x}: \
         {reason}; run a version that takes them, or give them a default, an alias or an upgrade (docs/changing-a-job.md)"
    )]
    Unresolved {
        /// The job.
        job: &'static str,
        /// Fingerprint of this program's shape.
        expected: u32,
        /// Fingerprint in the payload.
        found: u32,
        /// Why the arguments cannot be read.
        reason: String,
    },
    /// Bytes that no version of this job writes.
    #[error("the arguments of `{job}` cannot be read: {reason}")]
    Undecodable {
        /// The job.
        job: &'static str,
        /// The decoder's error.
        reason: String,
    },
}

debug_as_text!(PayloadError);

impl PayloadError {
    /// Returns whether another version of the program may take the payload.
    pub(crate) fn is_of_another_version(&self) -> bool {
        !matches!(self, Self::Undecodable { .. })
    }

    /// Returns why the payload cannot be read, without the job and the advice.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::UnknownFingerprint { .. } => "its shape is not known",
            Self::Unfit { reason, .. } | Self::Unresolved { reason, .. } | Self::Undecodable { reason, .. } => reason,
        }
    }
}

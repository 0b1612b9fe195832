//! `jobs.lock`: every shape of arguments that a program ever shipped, as a committed file. Before a deploy it says which
//! waiting tasks the new program could not read, and what to write.

mod check;
mod contents;
mod sample;
mod tried;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

pub use self::check::{LockFinding, Verdict};
use super::{Codec, Fingerprint, JobDescriptor, Registry, fingerprint_of, shape::ShapeDocument};

/// The first lines of the file.
const HEADER: &str = "# The shapes of arguments that were shipped, one per line; `jobs --lock` adds today's, `jobs --check` compares.\n\
                      # Commit this file, and take a line out once no task of that shape can wait any more.\n";

/// The shape of a job without arguments, for people.
const NO_ARGUMENTS: &str = "no arguments";

/// The advice for a line that no version wrote.
const TAKE_IT_BACK: &str =
    "take the line from version control, where the shapes of earlier versions are; `jobs --lock` resolves a conflict";

/// The contents of a `jobs.lock`.
///
/// ```
/// use asynq_runtime::{Registry, job::JobsLock, prelude::*};
///
/// #[job]
/// async fn send_email(to: String) -> JobResult {
///     println!("to {to}");
///     Ok(())
/// }
/// # fn main() -> Result<(), BoxError> {
///
/// let registry = Registry::only::<(send_email,)>()?;
/// let lock = JobsLock::default().with(&registry);
/// let text = lock.to_string();
/// assert!(JobsLock::parse(&text)?.check(&registry).iter().all(|finding| finding.is_safe()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsLock(Vec<LockedShape>);

/// One shape of a job's arguments, with the queue of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockedShape {
    /// The job's name on the wire.
    pub job: String,
    /// The queue of its tasks.
    pub queue: String,
    /// `postcard` or `json`.
    pub codec: String,
    /// The fingerprint that payloads carry, as eight hexadecimal digits; `None` for JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The shape as text. An alias of a field is in it as if it were a field.
    pub shape: String,
    /// The shape for programs; empty if the job takes no arguments, or the shape is too large.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    document: String,
}

/// A `jobs.lock` that cannot be read.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} cannot be read: {reason}; {advice}")]
pub struct InvalidLock {
    line: usize,
    reason: String,
    advice: &'static str,
}

debug_as_text!(InvalidLock);

impl JobsLock {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// A line that `jobs --lock` did not write, or that a newer version wrote.
    pub fn parse(text: &str) -> Result<Self, InvalidLock> {
        let mut shapes = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid = |reason: String, advice| InvalidLock { line: number + 1, reason, advice };
            let shape: LockedShape =
                serde_json::from_str(line).map_err(|error| invalid(error.to_string(), TAKE_IT_BACK))?;
            let document = shape.document.as_bytes();
            if !document.is_empty() {
                let is_newer = ShapeDocument::is_of_newer_version(document);
                let advice = if is_newer { "update this program to the version that wrote it" } else { TAKE_IT_BACK };
                ShapeDocument::from_bytes(document).map_err(|reason| invalid(reason, advice))?;
            }
            shapes.push(shape);
        }
        Ok(Self(shapes))
    }

    /// Returns this lock and the shapes of these jobs; shapes that it has already stay as they are.
    #[must_use]
    pub fn with(&self, registry: &Registry) -> Self {
        let known = self.0.iter().cloned();
        let shapes: BTreeSet<LockedShape> = known.chain(registry.iter().map(LockedShape::of)).collect();
        Self(shapes.into_iter().collect())
    }

    /// Returns the shape of a waiting task of this type, if it is in the file; `None` says that a program which only knows
    /// these shapes cannot be trusted to read the task. JSON carries no shape: any JSON payload of a job in the file is
    /// found.
    #[doc(hidden)]
    pub fn find(&self, r#type: &str, payload: &[u8]) -> Option<&LockedShape> {
        let fingerprint = Self::fingerprint_of(payload);
        let of_job = || self.0.iter().filter(|shape| shape.job == r#type);
        // An earlier program of a job without arguments took every payload, but one that has got arguments does not.
        let takes_anything = of_job().all(LockedShape::takes_anything);
        of_job().find(|shape| takes_anything || fingerprint.is_none() || shape.fingerprint == fingerprint)
    }

    /// Returns the fingerprint that a payload of the default codec carries, as [`LockedShape::fingerprint`] has it; `None`
    /// for any other payload.
    #[doc(hidden)]
    pub fn fingerprint_of(payload: &[u8]) -> Option<String> {
        fingerprint_of(payload).map(|fingerprint| format!("{fingerprint:08x}"))
    }

    /// Returns the shapes in the order of the file, which `jobs --lock` sorts by job.
    pub fn shapes(&self) -> &[LockedShape] {
        &self.0
    }

    /// Returns the effect of a deploy with these jobs on waiting tasks of each shape, and the jobs' shapes that are not
    /// locked yet. Shapes other than today's are tried with sample values, through aliases, defaults and upgrades, as a
    /// worker reads them.
    pub fn check(&self, registry: &Registry) -> Vec<LockFinding> {
        check::check(self, registry)
    }
}

impl LockedShape {
    fn of(job: &JobDescriptor) -> Self {
        let fingerprint = job.fingerprint();
        let document = fingerprint.document.to_bytes().and_then(|bytes| String::from_utf8(bytes).ok());
        Self {
            job: job.name.to_owned(),
            queue: job.options.queue.to_owned(),
            codec: job.codec.as_str().to_owned(),
            fingerprint: (job.codec == Codec::Postcard).then(|| format!("{:08x}", fingerprint.value)),
            shape: if fingerprint.no_arguments { NO_ARGUMENTS.to_owned() } else { fingerprint.shape.clone() },
            document: document.filter(|_| !fingerprint.no_arguments).unwrap_or_default(),
        }
    }

    /// Returns the shape for people.
    #[doc(hidden)]
    pub fn text(&self) -> String {
        self.document().map_or_else(|| self.shape.clone(), |document| document.text_of(&self.shape))
    }

    fn is_json(&self) -> bool {
        self.codec == Codec::Json.as_str()
    }

    fn number(&self) -> Option<u32> {
        u32::from_str_radix(self.fingerprint.as_deref()?, 16).ok()
    }

    /// Returns whether the job takes no arguments, and so every payload.
    fn takes_anything(&self) -> bool {
        self.document.is_empty() && self.shape == NO_ARGUMENTS
    }

    /// Returns the document of the shape; `None` if the shape is too large, or that of no arguments under a fingerprint by
    /// hand: no worker finds either in the broker.
    fn document(&self) -> Option<ShapeDocument> {
        let nothing = Fingerprint::of_nothing();
        let is_known = |fingerprint: &String| *fingerprint == format!("{:08x}", nothing.value);
        if self.takes_anything() && self.fingerprint.as_ref().is_none_or(is_known) {
            return Some(nothing.document.clone());
        }
        ShapeDocument::from_bytes(self.document.as_bytes()).ok()
    }
}

impl fmt::Display for JobsLock {
    /// Writes the text of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        for shape in &self.0 {
            writeln!(f, "{}", serde_json::to_string(shape).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

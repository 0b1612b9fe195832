//! One thing that is wrong.

use std::fmt;

use serde::Serialize;

/// What is wrong, what it means, and what repairs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad it is.
    pub(crate) severity: Severity,
    /// The check that found it, for programs: `eviction`, `no-consumer`.
    pub(crate) check: &'static str,
    /// The queue, server or node that it is about.
    pub(crate) subject: String,
    /// What was found.
    pub(crate) found: String,
    /// What that means for tasks.
    pub(crate) means: &'static str,
    /// The command or the step that repairs it.
    pub(crate) repair: String,
}

/// How bad a finding is; the worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Tasks are lost or stand still, or may be at any moment.
    Error,
    /// Something that becomes an error if it goes on.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

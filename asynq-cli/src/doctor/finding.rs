//! One fault of a system.

use std::fmt;

use serde::Serialize;

/// A fault, its effect on tasks, and its repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad the fault is.
    pub(crate) severity: Severity,
    /// The check that found the fault, for programs: `eviction`, `no-consumer`.
    pub(crate) check: &'static str,
    /// The queue, server or node that has the fault.
    pub(crate) subject: String,
    /// The fault itself.
    pub(crate) found: String,
    /// The effect on tasks.
    pub(crate) means: &'static str,
    /// The command or the step that repairs the fault.
    pub(crate) repair: String,
}

/// Adds findings that have the same subject.
pub(super) struct FindingsAbout<'a> {
    pub(super) subject: &'a str,
    pub(super) all: &'a mut Vec<Finding>,
}

impl FindingsAbout<'_> {
    pub(super) fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        found: impl Into<String>,
        means: &'static str,
        repair: impl Into<String>,
    ) {
        let (subject, found, repair) = (self.subject.to_owned(), found.into(), repair.into());
        self.all.push(Finding { severity, check, subject, found, means, repair });
    }
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

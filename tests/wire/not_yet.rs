//! Golden data that is not compared yet, with what brings it.

/// Name of the file, and the issue that brings it.
pub(crate) const FILES: &[(&str, &str)] = &[];

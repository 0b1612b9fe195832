//! Golden data that is not compared yet, with what brings it.

/// Name of the file, and the issue that brings it.
pub(crate) const FILES: &[(&str, &str)] = &[
    // Schedules.
    ("s14_scheduler", "Periodic: scheduler"),
    ("s15_two_schedulers_duplicate", "Periodic: scheduler"),
];

//! Golden data that is not compared yet, with what brings it.

/// Name of the file, and the issue that brings it.
pub(crate) const FILES: &[(&str, &str)] = &[
    // Groups.
    ("s13_aggregated", "Parity: groups"),
    // The inspector's changes.
    ("b13_archive_trim_inspector_leak", "Parity: inspector"),
    ("b28_inspector_single_ops", "Parity: inspector"),
    ("b29_inspector_bulk_ops", "Parity: inspector"),
    ("b34_remove_queue_completed_only", "Parity: inspector"),
    ("b37_archive_all_variants", "Parity: inspector"),
    ("b38_completed_mutations", "Parity: inspector"),
    ("probes", "Parity: what Go does with foreign data"),
    // Schedules.
    ("b26_scheduler_state", "Periodic: scheduler"),
    ("b27_scheduler_history_trim", "Periodic: scheduler"),
    ("s14_scheduler", "Periodic: scheduler"),
    ("s15_two_schedulers_duplicate", "Periodic: scheduler"),
];

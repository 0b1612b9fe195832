//! Intended differences from Go: each line with the heading of the design pages that explains it.

use crate::wire::compare::Compared;

/// One line of difference in a scenario.
pub(crate) struct Deviation {
    scenario: &'static str,
    /// The line in the form of `compare.rs`.
    differs: &'static str,
    reason: Reason,
}

/// The reason of several lines.
struct Reason {
    /// The heading in docs/design.
    heading: &'static str,
    why: &'static str,
}

const fn row(scenario: &'static str, differs: &'static str, reason: Reason) -> Deviation {
    Deviation { scenario, differs, reason }
}

/// All intended differences. A difference that is missing here fails, and so does a row that no longer applies.
pub(crate) const TABLE: &[Deviation] = &[
    // Scores are rounded up, so that a Go forwarder is late and never early; the exact time is in x:due.
    row("b08_retry_failure", "asynq:{default}:retry t1: Go has 1893553522, we have 1893553523", ROUNDED_UP),
    row("b09_retry_not_failure", "asynq:{default}:retry t1: Go has 1893553505, we have 1893553506", ROUNDED_UP),
    row(
        "b15_schedule_forward",
        "after_schedule: asynq:{default}:scheduled s1: Go has 1893553450, we have 1893553451",
        ROUNDED_UP,
    ),
    row(
        "b15_schedule_forward",
        "after_schedule: asynq:{default}:scheduled s2: Go has 1893557045, we have 1893557046",
        ROUNDED_UP,
    ),
    row(
        "b15_schedule_forward",
        "after_first_forward: asynq:{default}:scheduled s1: Go has 1893553450, we have 1893553451",
        ROUNDED_UP,
    ),
    row(
        "b15_schedule_forward",
        "after_first_forward: asynq:{default}:scheduled s2: Go has 1893557045, we have 1893557046",
        ROUNDED_UP,
    ),
    row("b15_schedule_forward", "asynq:{default}:scheduled s2: Go has 1893557045, we have 1893557046", ROUNDED_UP),
    row("b16_schedule_unique", "asynq:{default}:scheduled su1: Go has 1893557045, we have 1893557046", ROUNDED_UP),
    row("b31_stats_history", "asynq:{default}:retry p2: Go has 1893643445, we have 1893643446", ROUNDED_UP),
    row("b32_counter_overflow", "asynq:{default}:retry t2: Go has 1893557045, we have 1893557046", ROUNDED_UP),
    // A delayed task joins its group when it is due.
    row("b18_scheduled_group_forward", "asynq:{default}:pending: only Go has g1", GROUP_KEPT),
    row(
        "b18_scheduled_group_forward",
        "asynq:{default}:t:g1 pending_since: only Go has 1893553447678912345",
        GROUP_KEPT,
    ),
    row("b18_scheduled_group_forward", "asynq:{default}:t:g1 state: Go has pending, we have aggregating", GROUP_KEPT),
    row("b18_scheduled_group_forward", "asynq:{default}:g:grp g1: only we have 1893553447", GROUP_KEPT),
    row("b18_scheduled_group_forward", "asynq:{default}:groups: only we have grp", GROUP_KEPT),
    row("b18_scheduled_group_forward", "asynq:{default}:t:g1 group: only we have grp", GROUP_KEPT),
    row("c12_group_delayed", "asynq:{default}:t:gd1 joins: only we have users", GROUP_KEPT),
    // An operator's run of a grouped task takes the task out of its group for good.
    row("b28_inspector_single_ops", "after_moves: asynq:{default}:t:grp group: only Go has G", RUN_ALONE),
    row("b28_inspector_single_ops", "asynq:{default}:t:grp group: only Go has G", RUN_ALONE),
    row("b37_archive_all_variants", "asynq:{default}:t:g4 group: only Go has grp", RUN_ALONE),
    // The reclaim of a set makes its group known.
    row("b22_aggregation_reclaim", "asynq:{default}:groups: only we have grp", GROUP_NAMED),
    // Aggregated tasks hold no lock.
    row("s13_aggregated", "asynq:{default}:unique:item:c4ca4238a0b923820dcc509a6f75849b: only Go has g1", LOCK_OF_PART),
    row(
        "s13_aggregated",
        "asynq:{default}:unique:item:c4ca4238a0b923820dcc509a6f75849b ttl: only Go has ends in 3599",
        LOCK_OF_PART,
    ),
    row("s13_aggregated", "asynq:{default}:unique:item:c81e728d9d4c2f636f067f89cc14862c: only Go has g2", LOCK_OF_PART),
    row(
        "s13_aggregated",
        "asynq:{default}:unique:item:c81e728d9d4c2f636f067f89cc14862c ttl: only Go has ends in 3599",
        LOCK_OF_PART,
    ),
    row("s13_aggregated", "asynq:{default}:unique:item:eccbc87e4b5ce2fe28308fd9f2a7baf3: only Go has g3", LOCK_OF_PART),
    row(
        "s13_aggregated",
        "asynq:{default}:unique:item:eccbc87e4b5ce2fe28308fd9f2a7baf3 ttl: only Go has ends in 3599",
        LOCK_OF_PART,
    ),
    // An archived task holds no lock.
    row("b10_archive", "asynq:{default}:unique:email:5d41402abc4b2a76b9719d911017c592: only Go has t1", LOCK_FREED),
    row(
        "b10_archive",
        "asynq:{default}:unique:email:5d41402abc4b2a76b9719d911017c592 ttl: only Go has ends in 600",
        LOCK_FREED,
    ),
    row("s06_skip_retry", "asynq:{default}:unique:x:83878c91171338902e0fe0fb97a8c47a: only Go has k1", LOCK_FREED),
    row(
        "s06_skip_retry",
        "asynq:{default}:unique:x:83878c91171338902e0fe0fb97a8c47a ttl: only Go has ends in 3600",
        LOCK_FREED,
    ),
    // A requeued task waits again, and has the time of the requeue.
    row("b14_requeue", "asynq:{default}:t:t1 pending_since: only we have 1893553445678912345", WAITS_AGAIN),
    row("s11_shutdown_requeue", "asynq:{default}:t:q1 pending_since: only we have <ns>", WAITS_AGAIN),
    // The inspector.
    row(
        "b13_archive_trim_inspector_leak",
        "asynq:{default}:t:old msg: only Go has type=\"x\" id=\"old\" queue=\"default\" retry=25 timeout=1800",
        LEAK_REPAIRED,
    ),
    row("b13_archive_trim_inspector_leak", "asynq:{default}:t:old state: only Go has archived", LEAK_REPAIRED),
    row(
        "b28_inspector_single_ops",
        "before_moves: asynq:{default}:scheduled sched: Go has 1893557045, we have 1893557046",
        ROUNDED_UP,
    ),
    row(
        "b28_inspector_single_ops",
        "before_moves: asynq:{default}:t:pend msg: Go has type=\"x\" id=\"pend\" queue=\"default\" retry=25 timeout=1800, we have type=\"x\" payload=\"new-payload\" id=\"pend\" queue=\"default\" retry=25 timeout=1800",
        EDITS_MORE,
    ),
    row(
        "b28_inspector_single_ops",
        "before_moves: asynq:{default}:unique:x:83878c91171338902e0fe0fb97a8c47a ttl: Go has ends in 3600, we have ends in 3601",
        LOCK_OUTLIVES,
    ),
    row(
        "b28_inspector_single_ops",
        "after_moves: asynq:{default}:scheduled sched: Go has 1893557045, we have 1893557046",
        ROUNDED_UP,
    ),
    row(
        "b28_inspector_single_ops",
        "after_moves: asynq:{default}:t:pend msg: Go has type=\"x\" id=\"pend\" queue=\"default\" retry=25 timeout=1800, we have type=\"x\" payload=\"new-payload\" id=\"pend\" queue=\"default\" retry=25 timeout=1800",
        EDITS_MORE,
    ),
    row(
        "b28_inspector_single_ops",
        "after_moves: asynq:{default}:unique:x:83878c91171338902e0fe0fb97a8c47a ttl: Go has ends in 3600, we have ends in 3601",
        LOCK_OUTLIVES,
    ),
    row(
        "b28_inspector_single_ops",
        "after_moves: asynq:{default}:t:grp pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b28_inspector_single_ops",
        "asynq:{default}:t:grp pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b28_inspector_single_ops",
        "UpdateTaskPayload pend: Go says no (FAILED_PRECONDITION: cannot update task that is not in scheduled state.), we say yes",
        EDITS_MORE,
    ),
    row(
        "b29_inspector_bulk_ops",
        "after_run_all_scheduled: asynq:{default}:t:s1 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b29_inspector_bulk_ops",
        "after_run_all_scheduled: asynq:{default}:t:s2 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b29_inspector_bulk_ops",
        "after_archive_all_pending: asynq:{default}:t:s1 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b29_inspector_bulk_ops",
        "after_archive_all_pending: asynq:{default}:t:s2 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b29_inspector_bulk_ops",
        "asynq:{default}:unique:x:fbade9e36a3f36d3d676c1b808451dd7: only Go has u1",
        DELETED_LOCK,
    ),
    row(
        "b29_inspector_bulk_ops",
        "asynq:{default}:unique:x:fbade9e36a3f36d3d676c1b808451dd7 ttl: only Go has ends in 60",
        DELETED_LOCK,
    ),
    row(
        "b29_inspector_bulk_ops",
        "DeleteAllArchivedTasks(missing queue) null: Go says no (NOT_FOUND: INTERNAL_ERROR: queue \"missing\" does not exist), we say yes",
        NOTHING_CHOSEN,
    ),
    row("b34_remove_queue_completed_only", "asynq:queues: only we have default", NOT_EMPTY),
    row(
        "b34_remove_queue_completed_only",
        "RemoveQueue force=false null: Go says yes, we say no (NotEmpty)",
        NOT_EMPTY,
    ),
    row(
        "b37_archive_all_variants",
        "asynq:{default}:t:g4 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    row(
        "b38_completed_mutations",
        "after_mutations: asynq:{default}:t:c1 pending_since: only we have 1893553445678912345",
        WAITS_AGAIN,
    ),
    // A history without new events expires.
    row(
        "b26_scheduler_state",
        "asynq:scheduler_history:e1e1e1e1-0000-0000-0000-000000000001 ttl: only we have ends in 7776000",
        HISTORY_ENDS,
    ),
    // An id without a task is removed from the queue.
    row("b35_ghost_id", "asynq:{default}:active: only Go has t1", NO_STUB),
    row("b35_ghost_id", "asynq:{default}:lease t1: only Go has 1893553475", NO_STUB),
    row("b35_ghost_id", "asynq:{default}:t:t1 state: only Go has active", NO_STUB),
    row("b35_ghost_id", "ListActive: Go says 1, we say 0", NO_STUB),
    // The id conflict of the third call left no lock, so the fourth is accepted.
    row("c06_task_id_conflict", "asynq:{default}:pending: Go has same, we have other-id same", NO_LOCK_LEFT),
    row(
        "c06_task_id_conflict",
        "asynq:{default}:unique:b:c81e728d9d4c2f636f067f89cc14862c: Go has same, we have other-id",
        NO_LOCK_LEFT,
    ),
    row(
        "c06_task_id_conflict",
        "asynq:{default}:t:other-id msg: only we have type=\"b\" payload=\"2\" id=\"other-id\" queue=\"default\" \
         unique_key=\"asynq:{default}:unique:b:c81e728d9d4c2f636f067f89cc14862c\" retry=25 timeout=1800",
        NO_LOCK_LEFT,
    ),
    row("c06_task_id_conflict", "asynq:{default}:t:other-id pending_since: only we have <ns>", NO_LOCK_LEFT),
    row("c06_task_id_conflict", "asynq:{default}:t:other-id state: only we have pending", NO_LOCK_LEFT),
    row(
        "c06_task_id_conflict",
        "asynq:{default}:t:other-id unique_key: only we have asynq:{default}:unique:b:c81e728d9d4c2f636f067f89cc14862c",
        NO_LOCK_LEFT,
    ),
    row(
        "c06_task_id_conflict",
        "Client.Enqueue [\"TaskID(\\\"other-id\\\")\",\"Unique(1m0s)\"]: Go says no (task already exists), we say yes",
        NO_LOCK_LEFT,
    ),
    // We round times up to whole seconds; Go truncates them.
    row(
        "c03_enqueue_unique",
        "asynq:{other}:unique:report:900150983cd24fb0d6963f7d28e17f72 ttl: Go has ends in 1, we have ends in 2",
        SECONDS_UP,
    ),
    row(
        "c14_retention",
        "asynq:{default}:t:r2 msg: Go has type=\"r\" payload=\"p\" id=\"r2\" queue=\"default\" retry=25 timeout=1800 \
         retention=1, we have type=\"r\" payload=\"p\" id=\"r2\" queue=\"default\" retry=25 timeout=1800 retention=2",
        SECONDS_UP,
    ),
    row(
        "c15_batch_enqueue",
        "asynq:{default}:t:b5 msg: Go has type=\"b:hdr\" payload=\"5\" id=\"b5\" queue=\"default\" retry=25 timeout=1800, \
         we have type=\"b:hdr\" payload=\"5\" id=\"b5\" queue=\"default\" headers=\"Some(\\\"lost\\\")=Some(\\\"yes\\\")\" \
         retry=25 timeout=1800",
        OPTIONS_KEPT,
    ),
    row(
        "c15_batch_enqueue",
        "batch item b:dup: Go says yes, we say no (task id `b1` is taken in queue `default`)",
        OWN_ANSWER,
    ),
];

const GROUP_NAMED: Reason = Reason {
    heading: "docs/design/failures.md#a-group-is-forgotten",
    why: "without its name in groups nobody would look at the group until another task joins it",
};
const OPTIONS_KEPT: Reason = Reason {
    heading: "docs/design/failures.md#an-item-of-a-batch-is-refused",
    why: "Go's unreleased batch call drops header options",
};
const OWN_ANSWER: Reason = Reason {
    heading: "docs/design/failures.md#an-item-of-a-batch-is-refused",
    why: "every item of a batch has an answer of its own",
};
const ROUNDED_UP: Reason =
    Reason { heading: "docs/design/wire.md#due-times", why: "the score is rounded up; x:due has the exact time" };
const RUN_ALONE: Reason = Reason {
    heading: "docs/design/failures.md#a-delayed-task-forgets-its-group",
    why: "Go's forwarder would put its first retry back into the group, to wait there unseen",
};
const GROUP_KEPT: Reason = Reason {
    heading: "docs/design/failures.md#a-delayed-task-forgets-its-group",
    why: "asynq forgets the group of a delayed task and runs it alone",
};
const LOCK_FREED: Reason = Reason {
    heading: "docs/design/failures.md#a-unique-lock-is-left-behind",
    why: "the archive frees the lock where its owner holds it",
};
const WAITS_AGAIN: Reason = Reason {
    heading: "docs/design/failures.md#a-task-that-goes-back-shows-no-time",
    why: "a task requeued or run by hand shows since when it waits",
};
const EDITS_MORE: Reason = Reason {
    heading: "docs/design/failures.md#an-edit-overwrites-another",
    why: "every task that waits can be edited, unless somebody else did meanwhile",
};
const LOCK_OUTLIVES: Reason = Reason {
    heading: "docs/design/failures.md#a-number-is-cut-silently",
    why: "a lock of a scheduled task ends after its due time, never at it",
};
const DELETED_LOCK: Reason = Reason {
    heading: "docs/design/failures.md#a-unique-lock-is-left-behind",
    why: "the lock of a deleted task is freed, one by one or many at once",
};
const NOTHING_CHOSEN: Reason = Reason {
    heading: "docs/design/failures.md#a-queue-is-deleted",
    why: "a queue that does not exist has nothing to change",
};
const NOT_EMPTY: Reason =
    Reason { heading: "docs/design/failures.md#a-queue-is-deleted", why: "a queue with completed tasks is not empty" };
const LEAK_REPAIRED: Reason = Reason {
    heading: "docs/design/failures.md#the-archive-overflows",
    why: "what is trimmed from the archive is deleted, id and hash",
};
const LOCK_OF_PART: Reason = Reason {
    heading: "docs/design/failures.md#a-unique-lock-is-left-behind",
    why: "a task that has become a part of another cannot keep an equal one out",
};
const NO_STUB: Reason = Reason {
    heading: "docs/design/failures.md#an-id-has-no-task",
    why: "an id without a task is set aside, not turned into a stub that stays active for ever",
};
const HISTORY_ENDS: Reason = Reason {
    heading: "docs/design/failures.md#a-history-is-kept-for-ever",
    why: "histories of entries that left every program are not kept for ever",
};
const SECONDS_UP: Reason =
    Reason { heading: "docs/design/failures.md#a-number-is-cut-silently", why: "no time is cut short silently" };
const NO_LOCK_LEFT: Reason = Reason {
    heading: "docs/design/failures.md#a-unique-lock-is-left-behind",
    why: "the id is looked at before the lock is taken",
};

/// Compares the differences found in `scenario` with the table.
#[track_caller]
pub(crate) fn check(scenario: &str, found: Vec<String>) {
    let rows: Vec<&Deviation> = TABLE.iter().filter(|row| row.scenario == scenario).collect();
    let unexpected: Vec<&String> = found.iter().filter(|line| rows.iter().all(|row| row.differs != **line)).collect();
    let stale: Vec<String> = rows
        .iter()
        .filter(|row| found.iter().all(|line| line != row.differs))
        .map(|row| format!("{} ({}; {})", row.differs, row.reason.why, row.reason.heading))
        .collect();
    assert!(
        unexpected.is_empty(),
        "{scenario} differs from Go in a way that deviations.rs does not know:\n{unexpected:#?}"
    );
    assert!(stale.is_empty(), "{scenario} no longer differs as deviations.rs says:\n{stale:#?}");
}

/// The lifetime of a key of ours in seconds, where the table has one that differs from Go's.
pub(crate) fn seconds_of_ours(compared: Compared<'_>, key: &str) -> Option<i64> {
    let step = compared.step.map_or(String::new(), |step| format!("{step}: "));
    let place = format!("{step}{key} ttl: ");
    let mut rows = TABLE.iter().filter(|row| row.scenario == compared.scenario);
    let ours = rows.find_map(|row| row.differs.strip_prefix(&place)?.split_once("we have ends in "))?.1;
    Some(ours.parse().expect("a number of seconds"))
}

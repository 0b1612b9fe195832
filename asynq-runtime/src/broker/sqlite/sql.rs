//! Every statement, one file each below `sql/`; this module gives them their Rust names and the table prefix of a shared file.
//!
//! Tables are always written `main.<table>`, which lets the same text serve a file of our own and one that belongs to another
//! program, where our tables are called `asynq_<table>`.

use std::sync::OnceLock;

/// How our tables are called in this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The file is ours: `task`.
    Plain,
    /// The file is another program's (`?shared=1`): `asynq_task`.
    Prefixed,
}

/// One statement.
#[derive(Debug)]
pub(super) struct Sql {
    plain: &'static str,
    prefixed: OnceLock<String>,
}

impl Sql {
    const fn new(file: &'static str) -> Self {
        Self { plain: without_header(file), prefixed: OnceLock::new() }
    }

    /// Returns the text to prepare.
    pub(super) fn text(&self, names: Names) -> &str {
        match names {
            Names::Plain => self.plain,
            Names::Prefixed => self.prefixed.get_or_init(|| prefix(self.plain)),
        }
    }
}

/// Returns `sql` with every table and index of ours called `asynq_…`. Where SQLite allows no `main.`, in the table of an index
/// and in triggers, a table is written `[task]`.
pub(super) fn prefix(sql: &str) -> String {
    sql.replace("main.", "main.asynq_")
        .replace("INDEXED BY ", "INDEXED BY asynq_")
        .replace(" ON task(", " ON asynq_task(")
        .replace('[', "[asynq_")
}

/// Drops the comment lines at the top: the statement cache hashes the whole text at every use.
const fn without_header(file: &'static str) -> &'static str {
    let bytes = file.as_bytes();
    let mut start = 0;
    while start + 1 < bytes.len() && bytes[start] == b'-' && bytes[start + 1] == b'-' {
        while start < bytes.len() && bytes[start] != b'\n' {
            start += 1;
        }
        if start < bytes.len() {
            start += 1;
        }
    }
    file.split_at(start).1
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) static $name: Sql = Sql::new(include_str!(concat!("sql/", $file, ".sql")));)*

        #[cfg(test)]
        pub(super) static ALL: &[(&str, &Sql)] = &[$(($file, &$name)),*];
    };
}

statements! {
    QUEUE_FIND = "queue/find";
    QUEUE_ADD = "queue/add";
    TASK_DELETE = "task/delete";
    BODY_DELETE = "body/delete";
    BODY_INSERT = "body/insert";
    BODY_SET_MESSAGE = "body/set_message";
    BODY_REPLACE = "body/replace";
    BODY_SET_RESULT = "body/set_result";
    BODY_CHECKPOINT = "body/checkpoint";
    BODY_SET_CHECKPOINT = "body/set_checkpoint";
    BODY_FORGET_CHECKPOINT = "body/forget_checkpoint";
    LOCK_TAKE = "lock/take";
    LOCK_TRANSFER = "lock/transfer";
    LOCK_PAGE = "lock/page";
    LOCK_HOLDER = "lock/holder";
    LOCK_HELD = "lock/held";
    LOCK_RELEASE = "lock/release";
    LOCK_EXTEND = "lock/extend";
    FAILURE_LAST = "failure/last";
    FAILURE_ADD = "failure/add";
    FAILURE_LONG = "failure/long";
    FAILURE_CUT = "failure/cut";
    FAILURE_FORGET = "failure/forget";
    COUNT_TALLY = "count/tally";
    COUNT_STAT = "count/stat";
    COUNT_FORGET_DAYS = "count/forget_days";
    LINE_HEAD = "line/head";
    LINE_TAIL = "line/tail";
    PRODUCE_HOLDER = "produce/holder";
    PRODUCE_REPLACE = "produce/replace";
    PRODUCE_INSERT = "produce/insert";
    PRODUCE_TAKEN_BY = "produce/taken_by";
    IN_TRANSACTION_ENQUEUE = "in_transaction/enqueue";
    CONSUME_READY = "consume/ready";
    CONSUME_READY_ANYWHERE = "consume/ready_anywhere";
    CONSUME_NEXT = "consume/next";
    CONSUME_TAKE = "consume/take";
    CONSUME_AGAIN = "consume/again";
    CONSUME_SET_ASIDE = "consume/set_aside";
    SETTLE_DONE = "settle/done";
    SETTLE_FENCE = "settle/fence";
    SETTLE_RECEIPT = "settle/receipt";
    SETTLE_COMPLETE = "settle/complete";
    SETTLE_RETRY = "settle/retry";
    SETTLE_ARCHIVE = "settle/archive";
    SETTLE_REQUEUE = "settle/requeue";
    SETTLE_PROGRESS = "settle/progress";
    MAINTAIN_DUE_SCHEDULED = "maintain/due_scheduled";
    MAINTAIN_DUE_RETRY = "maintain/due_retry";
    MAINTAIN_NEXT_DUE = "maintain/next_due";
    MAINTAIN_FORWARD = "maintain/forward";
    MAINTAIN_JOIN_GROUP = "maintain/join_group";
    MAINTAIN_EXTEND = "maintain/extend";
    MAINTAIN_LAPSED = "maintain/lapsed";
    MAINTAIN_NEXT_LAPSE = "maintain/next_lapse";
    MAINTAIN_LAPSES = "maintain/lapses";
    MAINTAIN_LEFT_BY = "maintain/left_by";
    MAINTAIN_REQUEUE = "maintain/requeue";
    MAINTAIN_ENDLESS = "maintain/endless";
    MAINTAIN_END_LEASE = "maintain/end_lease";
    MAINTAIN_GHOSTS = "maintain/ghosts";
    MAINTAIN_EXPIRED = "maintain/expired";
    MAINTAIN_OLDEST_ARCHIVED = "maintain/oldest_archived";
    GROUPS_LIST = "groups/list";
    GROUPS_ONE = "groups/one";
    GROUPS_NEXT = "groups/next";
    GROUPS_SPAN = "groups/span";
    GROUPS_REACHES = "groups/reaches";
    GROUPS_WAITING = "groups/waiting";
    GROUPS_OPEN_SET = "groups/open_set";
    GROUPS_JOIN_SET = "groups/join_set";
    GROUPS_SET = "groups/set";
    GROUPS_MEMBERS = "groups/members";
    GROUPS_RUN_ALONE = "groups/run_alone";
    GROUPS_REJECT = "groups/reject";
    GROUPS_END_SET = "groups/end_set";
    GROUPS_RELEASE = "groups/release";
    GROUPS_FORGET_SET = "groups/forget_set";
    GROUPS_OVER = "groups/over";
    SEMAPHORE_FORGET = "semaphore/forget";
    SEMAPHORE_OUT = "semaphore/out";
    SEMAPHORE_ACQUIRE = "semaphore/acquire";
    SEMAPHORE_RELEASE = "semaphore/release";
    SHAPES_KEEP = "shapes/keep";
    SHAPES_FIND = "shapes/find";
    SHAPES_EXTEND = "shapes/extend";
    SHAPES_FORGET = "shapes/forget";
    PRESENCE_JOIN = "presence/join";
    PRESENCE_REJOIN = "presence/rejoin";
    PRESENCE_FORGET_NAME = "presence/forget_name";
    PRESENCE_BEAT = "presence/beat";
    PRESENCE_LEAVE = "presence/leave";
    PRESENCE_ALIVE = "presence/alive";
    PRESENCE_EVERYONE = "presence/everyone";
    PRESENCE_RUNS_SOMETHING = "presence/runs_something";
    PRESENCE_ASK_CANCEL = "presence/ask_cancel";
    PRESENCE_FORGET_SIGNALS = "presence/forget_signals";
    PRESENCE_LAST_SIGNAL = "presence/last_signal";
    PRESENCE_NEW_CANCELS = "presence/new_cancels";
    INSPECT_QUEUES = "inspect/queues";
    INSPECT_QUEUE = "inspect/queue";
    INSPECT_COUNTS = "inspect/counts";
    INSPECT_STAT = "inspect/stat";
    INSPECT_OLDEST_PENDING = "inspect/oldest_pending";
    INSPECT_PAGE = "inspect/page";
    INSPECT_PAGE_START = "inspect/page_start";
    INSPECT_PAGE_START_BACK = "inspect/page_start_back";
    INSPECT_PAGE_ACTIVE = "inspect/page_active";
    INSPECT_PAGE_AGGREGATING = "inspect/page_aggregating";
    INSPECT_PAGE_AGGREGATING_START = "inspect/page_aggregating_start";
    INSPECT_PAGE_AGGREGATING_START_BACK = "inspect/page_aggregating_start_back";
    INSPECT_PAGE_GROUP = "inspect/page_group";
    INSPECT_PAGE_GROUP_START = "inspect/page_group_start";
    INSPECT_TASK = "inspect/task";
    INSPECT_STATE = "inspect/state";
    INSPECT_QUEUES_OF = "inspect/queues_of";
    INSPECT_FAILURES = "inspect/failures";
    INSPECT_LAST_ERROR = "inspect/last_error";
    INSPECT_HISTORY = "inspect/history";
    INSPECT_WEIGHT = "inspect/weight";
    INSPECT_PAUSE = "inspect/pause";
    INSPECT_RESUME = "inspect/resume";
    DIAGNOSE_FILE = "diagnose/file";
    DIAGNOSE_SOUND = "diagnose/sound";
    DIAGNOSE_LOCKS = "diagnose/locks";
    DIAGNOSE_NUMBER = "diagnose/number";
    REPAIR_FIND = "repair/find";
    REPAIR_IN_STATE = "repair/in_state";
    REPAIR_IN_GROUP = "repair/in_group";
    REPAIR_RUN = "repair/run";
    REPAIR_ARCHIVE = "repair/archive";
    REPAIR_MOVE = "repair/move";
    REPAIR_SET_LOCK = "repair/set_lock";
    REPAIR_LOCK_UNTIL = "repair/lock_until";
    REPAIR_MESSAGE = "repair/message";
    REPAIR_UNLOCK = "repair/unlock";
    REPAIR_ORPHAN_RETRY = "repair/orphan_retry";
    REPAIR_ORPHAN_ARCHIVE = "repair/orphan_archive";
    REPAIR_HAS_TASKS = "repair/has_tasks";
    REPAIR_FORGET_ULOCK = "repair/forget_ulock";
    REPAIR_FORGET_STAT = "repair/forget_stat";
    REPAIR_FORGET_TALLY = "repair/forget_tally";
    REPAIR_FORGET_BATCH = "repair/forget_batch";
    REPAIR_FORGET_QUEUE = "repair/forget_queue";
    SCHEDULE_ENTRY = "schedule/entry";
    SCHEDULE_KEEP = "schedule/keep";
    SCHEDULE_PAUSE = "schedule/pause";
    SCHEDULE_FORGET = "schedule/forget";
    SCHEDULE_MARKED = "schedule/marked";
    SCHEDULE_MARK = "schedule/mark";
    SCHEDULE_PREVIOUS = "schedule/previous";
    SCHEDULE_REPLACE_RUNNING = "schedule/replace_running";
    SCHEDULE_LEADER = "schedule/leader";
    SCHEDULE_SET_LEADER = "schedule/set_leader";
    SCHEDULE_RESIGN = "schedule/resign";
    SCHEDULE_SHOW = "schedule/show";
    SCHEDULE_WITHDRAW = "schedule/withdraw";
    SCHEDULE_SHOWN = "schedule/shown";
    SCHEDULE_RECORD = "schedule/record";
    SCHEDULE_COUNT = "schedule/count";
    SCHEDULE_TRIM = "schedule/trim";
    SCHEDULE_HISTORY_UNTIL = "schedule/history_until";
    SCHEDULE_HISTORY = "schedule/history";
    SCHEDULE_FORGET_ENQUEUED = "schedule/forget_enqueued";
    SCHEDULE_FORGET_HISTORY = "schedule/forget_history";
    SCHEDULE_OVER_HISTORIES = "schedule/over_histories";
    SCHEDULE_SWEEP_TICKS = "schedule/sweep_ticks";
    SCHEDULE_SWEEP_ENTRIES = "schedule/sweep_entries";
    SCHEDULE_SWEEP_SHOWN = "schedule/sweep_shown";
    SCHEDULE_SWEEP_LEADS = "schedule/sweep_leads";
    SCHEDULE_SWEEP_PROGRAMS = "schedule/sweep_programs";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskState;

    #[test]
    fn a_statement_loses_its_header_and_gains_the_prefix_of_a_shared_file() {
        assert_eq!(without_header("-- a\n-- b\nSELECT 1 -- c\n"), "SELECT 1 -- c\n");
        assert_eq!(
            prefix("SELECT seq FROM main.task AS t INDEXED BY task_lease"),
            "SELECT seq FROM main.asynq_task AS t INDEXED BY asynq_task_lease"
        );
        assert_eq!(
            prefix("CREATE INDEX main.task_at ON task(q, state, at);"),
            "CREATE INDEX main.asynq_task_at ON asynq_task(q, state, at);"
        );
        assert_eq!(
            prefix("DELETE FROM [failure] WHERE seq = old.seq"),
            "DELETE FROM [asynq_failure] WHERE seq = old.seq"
        );
    }

    #[test]
    fn each_number_of_a_state_has_its_name_beside_it() {
        let mut named = 0;
        for (file, sql) in ALL {
            for (at, _) in sql.plain.match_indices("state = ") {
                let value = &sql.plain[at + "state = ".len()..];
                let Some(number) = value.chars().next().and_then(|first| first.to_digit(10)) else { continue };
                let state = TaskState::from_number(i64::from(number)).unwrap();
                assert!(value.starts_with(&format!("{number} /* {state} */")), "{file}: {}", sql.plain);
                named += 1;
            }
        }
        assert!(named > 50, "{named}");
    }
}

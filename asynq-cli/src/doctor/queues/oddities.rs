//! The findings for inconsistencies of a queue, and what repairs each kind.

use std::collections::BTreeMap;

use asynq_grammar::shell;
use asynq_runtime::{
    TaskState,
    broker::{Oddity, OddityKind},
};

use super::{is_refused, serving};
use crate::doctor::{Finding, Severity, evidence::QueueEvidence};

/// A worker requeues tasks of jobs that it does not have, and archives them after a day.
const WORKER_OF_OURS: &str = "run a worker of ours that has every job of the queue, as others requeue its tasks";

/// Most examples that the finding shows; its repair names all that were kept.
const SHOWN: usize = 10;

/// Returns the finding for the inconsistencies of one kind.
pub(super) fn finding(queue: &QueueEvidence, oddity: &Oddity) -> Finding {
    let Oddity { kind, count, examples } = oddity;
    let name = shell::quote(queue.stats.name.as_str());
    let first = shell::quote(examples.first().map_or("", String::as_str));
    let is_refused = is_refused(&queue.stats.name);
    // Returns a repair by the janitor of a worker of ours, if one may serve the queue.
    let by_janitor = |effect: &str| match is_refused {
        true => format!(
            "our workers refuse a queue of this name, and those of Go do not repair it: move the tasks that wait, asynq \
             task move --queue={name} ID --to QUEUE"
        ),
        false => format!("{WORKER_OF_OURS} ({}): its janitor {effect}", serving(&queue.stats.name)),
    };
    let of_active = match is_refused {
        true => "",
        false => {
            "; one in the list of active tasks cannot be changed: the janitor of a worker of ours has it run again"
        }
    };
    let (check, severity, description, means, repair) = match kind {
        OddityKind::ActiveWithoutLease => (
            "active-without-lease",
            Severity::Error,
            "active tasks without a lease",
            "if their worker dies no server notices, and they stay active for ever",
            by_janitor("repairs it within a minute"),
        ),
        OddityKind::LeaseWithoutTask => (
            "lease-without-task",
            Severity::Warning,
            "leases of tasks that are not active",
            "an outcome of a Go worker broke off half way; nothing runs twice by it",
            by_janitor("repairs it within a minute"),
        ),
        OddityKind::IdWithoutTask => (
            "id-without-task",
            Severity::Error,
            "ids in the queue with no task behind them",
            "the contents of these tasks are gone: evicted, or deleted by hand",
            by_janitor(
                "removes these ids from the active and the pending tasks within a minute; among other tasks each stays until it is due \
                 or its time to be kept is over, and is not run",
            ),
        ),
        OddityKind::TaskWithoutPlace => (
            "orphan",
            Severity::Error,
            "tasks that are in no state's list, and in no group with a name",
            "no worker will ever run them, nor delete those that are over",
            misplaced(queue, oddity),
        ),
        OddityKind::TaskInWrongPlace => (
            "wrong-place",
            Severity::Error,
            "tasks that are in another state's list than they say",
            "tools show them wrongly, and some refuse to touch them",
            format!("{}{of_active}", misplaced(queue, oddity)),
        ),
        OddityKind::TaskBeingMoved => (
            "being-moved",
            Severity::Warning,
            "tasks on their way to another queue",
            "no worker runs them until they have arrived",
            format!(
                "a move that goes on now ends by itself; where one broke off, the last error of its task names both queues: asynq task \
                 inspect --queue={name} -- {first}; move it there again: asynq task move --queue=FROM --to=TO -- {first}; if that is \
                 refused, another program may have run or deleted the task in FROM, and this releases it all the same: asynq task move \
                 --queue=TO --to=TO -- {first}"
            ),
        ),
        OddityKind::LockWithoutTask => (
            "lock-without-task",
            Severity::Warning,
            "unique locks whose task is gone",
            "clients of Go refuse the same task as a duplicate until the lock ends by itself; ours take it over",
            format!("asynq lock rm --queue={name} --stuck, or wait until it ends by itself"),
        ),
        OddityKind::ForeignKey => (
            "foreign-key",
            Severity::Error,
            "keys with names of asynq's that hold something else",
            "another program writes into asynq's names; commands on them fail",
            format!("find out who wrote the key {first}, then delete it"),
        ),
        OddityKind::WrongCount => (
            "wrong-count",
            Severity::Warning,
            "counts that are not the number of tasks",
            "tools show a wrong number, and a queue whose count is too high cannot be deleted; no task is affected",
            "if the file was salvaged or tasks were deleted by SQL, count anew as docs/operations.md#sqlite says; else report it as a \
             bug, with this output"
                .to_owned(),
        ),
        other => {
            ("unknown", Severity::Warning, other.as_str(), "a newer broker found it", "update this tool".to_owned())
        }
    };
    let shown: Vec<&str> = examples.iter().take(SHOWN).map(String::as_str).collect();
    let more = if *count > shown.len() as u64 { ", …" } else { "" };
    let found = format!("{count} {description}: {}{more}", shown.join(", "));
    Finding { severity, check, subject: queue.stats.name.to_string(), found, means, repair }
}

/// Returns the repair of tasks that are not where their state says. It goes by the state of each example, because a task that is over
/// must not run a second time.
fn misplaced(queue: &QueueEvidence, oddity: &Oddity) -> String {
    let name = shell::quote(queue.stats.name.as_str());
    let mut ids: BTreeMap<Option<TaskState>, Vec<String>> = BTreeMap::new();
    for id in &oddity.examples {
        let state = match queue.states.get(id).copied() {
            state @ (None
            | Some(TaskState::Active | TaskState::Aggregating | TaskState::Archived | TaskState::Completed)) => state,
            Some(_) => Some(TaskState::Pending),
        };
        ids.entry(state).or_default().push(shell::quote(id));
    }
    let repair = |(state, ids): (Option<TaskState>, Vec<String>)| {
        let ids = ids.join(" ");
        let command = |verb: &str| format!("asynq task {verb} --queue={name} -- {ids}");
        let [run, archive, delete] = ["run", "archive", "delete"].map(command);
        match state {
            Some(TaskState::Completed) => format!("delete those that have succeeded: {delete}"),
            Some(TaskState::Archived) => format!("put those back into the archive that were given up: {archive}"),
            Some(TaskState::Active) => format!(
                "those that were running may have succeeded; where a second run does no harm: {run}, else: {archive}"
            ),
            Some(TaskState::Aggregating) => format!(
                "a group without a name gets it again with its next task, or from the janitor of a worker of ours on the queue within minutes; \
                 those of another group run by themselves only where their job does the work so, as an empty body loses them: {run}, \
                 else: {archive}"
            ),
            Some(_) => format!("run those that waited, at once and not at their time: {run}"),
            None => format!(
                "the state of some cannot be read, and they may have succeeded; where a second run does no harm: {run}, else: {archive}"
            ),
        }
    };
    let mut repairs: Vec<String> = ids.into_iter().rev().map(repair).collect();
    if oddity.count > oddity.examples.len() as u64 {
        repairs.push("then ask again for the others".to_owned());
    }
    repairs.join("; ")
}

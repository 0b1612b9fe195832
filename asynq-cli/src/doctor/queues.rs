//! Checks of the queues: missing servers, pauses, tasks that wait too long, settings that contradict each other.

mod oddities;

use asynq_grammar::shell;
use asynq_runtime::{broker::ServerState, inspector::ArchiveRoom, task::QueueName};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::{
    Evidence, Finding, Severity,
    evidence::{QueueEvidence, UnknownCounts, UnknownPart},
    finding::FindingsAbout,
};
use crate::show::tasks;

/// A queue that is served should not let a task wait for so long, seconds.
const LONG_WAIT: u64 = 300;
/// Longer than the delay of ordinary groups.
const LONG_IN_GROUP: TimeDelta = TimeDelta::hours(1);

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for queue in &evidence.queues {
        let mut of_queue = FindingsAbout { subject: queue.stats.name.as_str(), all: &mut findings };
        if evidence.has_all_servers() {
            consumers(queue, Consumers::of(queue, &evidence.servers), &mut of_queue);
        }
        unlisted(queue, &mut of_queue);
        paused(queue, &mut of_queue);
        groups(queue, evidence.now, &mut of_queue);
        unknown_tasks(queue, &mut of_queue);
        archive(queue, ArchiveRoom::limit_of(&evidence.servers, &queue.stats.name), &mut of_queue);
        findings.extend(queue.examination.oddities.iter().map(|oddity| oddities::finding(queue, oddity)));
    }
    findings
}

/// The servers of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consumers {
    /// One takes its tasks.
    There,
    /// Those that serve the queue take no more tasks, and end the ones that they run.
    Quiet,
    /// No server serves the queue.
    Others,
    /// No server runs at all.
    Nothing,
}

impl Consumers {
    fn of(queue: &QueueEvidence, servers: &[ServerState]) -> Self {
        let mut serving = servers.iter().filter(|server| server.info.serves(&queue.stats.name)).peekable();
        if servers.is_empty() {
            Self::Nothing
        } else if serving.peek().is_none() {
            Self::Others
        } else if serving.all(|server| matches!(&*server.info.status, "stopped" | "closed")) {
            Self::Quiet
        } else {
            Self::There
        }
    }
}

fn consumers(queue: &QueueEvidence, consumers: Consumers, findings: &mut FindingsAbout<'_>) {
    let (stats, is_served) = (&queue.stats, consumers == Consumers::There);
    let waiting = stats.pending + stats.scheduled + stats.retry + stats.aggregating;
    // A quiet server ends the tasks that it runs.
    let left = if consumers == Consumers::Quiet { 0 } else { stats.active };
    if !is_served && waiting + left > 0 {
        let waits = match waiting {
            0 => None,
            1 => Some("1 task waits".to_owned()),
            _ => Some(format!("{waiting} tasks wait")),
        };
        let ran = match left {
            0 => None,
            1 => Some("1 task was running when its worker went".to_owned()),
            left => Some(format!("{left} tasks were running when their worker went")),
        };
        let tasks = [waits, ran].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let name = shell::quote(stats.name.as_str());
        // A worker that is started anew with this queue alone would leave its other queues.
        let start = match consumers {
            _ if is_refused(&stats.name) => "our workers refuse a queue of this name: start one of Go".to_owned(),
            Consumers::Quiet => "its workers run and take no more tasks (`stopped`): start them anew".to_owned(),
            Consumers::Nothing => format!(
                "no worker runs: start one, which serves the queues of its jobs unless it is told others, as by {}",
                serving(&stats.name)
            ),
            Consumers::Others | Consumers::There => format!(
                "add it to the queues of a worker that has its jobs, or start a further one for it alone with {}",
                serving(&stats.name)
            ),
        };
        findings.add(
            Severity::Error,
            "no-consumer",
            match consumers {
                Consumers::Quiet => format!("{tasks} and every server of the queue is quiet"),
                _ => format!("{tasks} and no server serves the queue"),
            },
            "they wait until a worker for this queue starts",
            match waiting {
                // A running task cannot be moved.
                0 => start,
                _ => format!("{start}, or move those that wait: asynq task move --queue={name} ID --to QUEUE"),
            },
        );
    } else if is_served && !stats.paused && stats.latency.as_secs() >= LONG_WAIT {
        findings.add(
            Severity::Warning,
            "long-wait",
            format!("a task that could run waits for {} s; {} are pending", stats.latency.as_secs(), stats.pending),
            "tasks come faster than they are run, or greater queues go before this one",
            "start more workers, raise --concurrency, or give the queue a greater weight",
        );
    }
}

fn unlisted(queue: &QueueEvidence, findings: &mut FindingsAbout<'_>) {
    let stats = &queue.stats;
    // Rests without a task, such as locks, are findings of their own.
    if !queue.is_listed && stats.size > 0 {
        let name = shell::quote(stats.name.as_str());
        let pause = if stats.paused { ", which ends its pause, too" } else { "" };
        findings.add(
            Severity::Error,
            "unlisted-queue",
            format!(
                "{} in a queue that is missing from the list of queues, as after a deletion by Go's tools",
                tasks(stats.size)
            ),
            "tools do not show the queue, and servers with a pattern for it do not run its tasks; only those that name it do",
            format!(
                "list it again{pause}: asynq queue resume -- {name}; then, where its tasks are not wanted: asynq queue rm --force -- \
                 {name}"
            ),
        );
    }
}

fn paused(queue: &QueueEvidence, findings: &mut FindingsAbout<'_>) {
    let stats = &queue.stats;
    if stats.paused && stats.latency.as_secs() >= LONG_WAIT {
        findings.add(
            Severity::Warning,
            "paused",
            format!(
                "the queue is paused, and its next task waits for {} s; {} are pending",
                stats.latency.as_secs(),
                stats.pending
            ),
            "no server takes its tasks until it is resumed, through restarts",
            format!("where the pause is not meant: asynq queue resume -- {}", shell::quote(stats.name.as_str())),
        );
    }
}

fn groups(queue: &QueueEvidence, now: DateTime<Utc>, findings: &mut FindingsAbout<'_>) {
    let Some(oldest) = &queue.oldest_group else { return };
    let Some(since) = oldest.oldest.filter(|&since| now - since >= LONG_IN_GROUP) else { return };
    let (name, group) = (shell::quote(queue.stats.name.as_str()), shell::quote(oldest.group.as_str()));
    findings.add(
        Severity::Warning,
        "group-waits",
        format!("a task has been in group {group} since {}", since.to_rfc3339_opts(SecondsFormat::Secs, true)),
        "no server of the queue aggregates the group, its aggregation fails, or its longest delay is greater",
        format!(
            "see the logs of the workers; where the server means so long a delay nothing is wrong; only where the job of these tasks does \
             the work by itself, too, as an empty body loses it: asynq task run-all --queue={name} --state aggregating --group={group}"
        ),
    );
}

fn unknown_tasks(queue: &QueueEvidence, findings: &mut FindingsAbout<'_>) {
    let name = shell::quote(queue.stats.name.as_str());
    for ((r#type, part), UnknownCounts { waiting, archived }) in &queue.unknown {
        let (check, description, means, repair) = match part {
            UnknownPart::Type => (
                "no-handler",
                format!("tasks of type {type:?} that a worker did not know"),
                "every worker that serves the queue must know every type in it: ours requeue such a task for a day, \
                 those of Go spend its retries, then it is archived",
                "deploy a worker with that job, or keep workers without it off the queue",
            ),
            UnknownPart::Shape => (
                "unknown-shape",
                format!("tasks of type {type:?} with arguments of a shape that a worker did not know"),
                "another version of the program enqueued them: a worker of ours requeues such a task for a day, then \
                 it is archived",
                "give what is new in the arguments a default, an alias or an upgrade (docs/changing-a-job.md; the error of such a \
                 task names it), or run a worker of the version that knows the old shape",
            ),
        };
        // A task that was not read, or that was given up for another reason, is missing in this number. A worker that knows this type
        // need not know the others.
        let is_whole_archive = *archived as u64 == queue.stats.archived;
        let run_again = match archived {
            0 => String::new(),
            _ if is_whole_archive => format!("; then: asynq task run-all --queue={name} --state archived"),
            _ => format!(
                "; then run only them, as the archive may hold others: asynq task ls --queue={name} --state \
                 archived, asynq task run --queue={name} ID …"
            ),
        };
        findings.add(
            Severity::Error,
            check,
            format!("{description}: {waiting} wait for one that does, {archived} are archived"),
            means,
            format!("{repair}{run_again}"),
        );
    }
}

fn archive(queue: &QueueEvidence, limit: u64, findings: &mut FindingsAbout<'_>) {
    let archived = queue.stats.archived;
    if archived > 0 && archived.saturating_mul(10) >= limit.saturating_mul(9) {
        let name = shell::quote(queue.stats.name.as_str());
        findings.add(
            Severity::Warning,
            "full-archive",
            format!("{archived} archived tasks; {limit} are kept unless a worker says otherwise"),
            "beyond that the oldest are deleted, and with them why they failed",
            format!("asynq task ls --queue={name} --state archived, then run or delete them"),
        );
    }
}

/// Returns what lets a worker of ours serve the queue: the flag, or the set-up where the flag means other queues by this name.
fn serving(name: &QueueName) -> String {
    let text = name.as_str();
    if text.contains(',') || text.trim() != text {
        return "App::queue in its set-up, as --queues cannot write this name".to_owned();
    }
    // A name with one of these is read as one with a weight or a limit, unless a weight follows.
    let weight = if text.contains(['/', '=']) { "=1" } else { "" };
    let others = if text.contains('*') { ", a pattern that other queues may match, too" } else { "" };
    format!("--queues={}{others}", shell::quote(&format!("{text}{weight}")))
}

/// Returns whether our workers refuse to serve a queue of this name, which Go allows.
fn is_refused(name: &QueueName) -> bool {
    QueueName::new(name.as_str()).is_err()
}

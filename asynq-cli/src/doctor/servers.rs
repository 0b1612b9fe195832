//! Checks of the servers: whether their runs end.

use asynq_runtime::broker::ServerState;
use chrono::{DateTime, Utc};

use super::{Evidence, Finding, Severity};

/// Most runs that a finding names.
const EXAMPLES: usize = 3;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    // Runs of an old list may have ended since.
    let servers = evidence.servers.iter().filter(|_| evidence.has_all_servers());
    servers.filter_map(|server| stuck(server, evidence.now)).collect()
}

/// Returns a finding for a server with runs that outlive their deadlines.
fn stuck(server: &ServerState, now: DateTime<Utc>) -> Option<Finding> {
    let mut stuck: Vec<_> = server.workers.iter().filter(|worker| worker.is_stuck(now)).collect();
    stuck.sort_by(|a, b| (&a.task_type, &a.task_id).cmp(&(&b.task_type, &b.task_id)));
    let runs = match stuck.len() {
        0 => return None,
        1 => "1 run whose time is over goes on".to_owned(),
        n => format!("{n} runs whose time is over go on"),
    };
    let named: Vec<String> =
        stuck.iter().take(EXAMPLES).map(|worker| format!("{} {}", worker.task_type, worker.task_id)).collect();
    let more = if stuck.len() > EXAMPLES { ", …" } else { "" };
    Some(Finding {
        severity: Severity::Error,
        check: "stuck",
        subject: format!("{}:{}", server.info.host, server.info.pid),
        found: format!("{runs}: {}{more}", named.join(", ")),
        means: "the job blocks its thread and does not return: its task, its slot and its lease wait for it",
        repair:
            "give what the job waits for a time-out, or make it an `fn` with a `kill_after`, which an `async fn` does not take; a restart \
             of the worker frees the slot, and the task runs again"
                .to_owned(),
    })
}

//! Checks of the broker itself: memory, persistence, clocks, slow calls, the file.

use asynq_grammar::shell;
use asynq_runtime::{
    broker::{Node, WriteRefusal},
    task::Timestamp,
};
use chrono::TimeDelta;

use super::{
    Evidence, Finding, Severity,
    clocks::{GOS_PRECISION, MOST_SKEW},
    finding::FindingsAbout,
};
use crate::unlisted::is_away;

/// Calls that kept a node busy for at least this long are reported, in milliseconds.
const SLOW_MS: u128 = 10;
/// How long a slow call is reported after it happened.
const RECENT: TimeDelta = TimeDelta::hours(24);
/// A write-ahead log above this size is not emptied as it should be, in bytes.
const LARGE_LOG: u64 = 256 << 20;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A node of a cluster that answers nothing is a finding of `cluster.rs`.
    let nodes: Vec<&Node> = evidence.nodes.iter().filter(|node| !is_away(node, &evidence.nodes)).collect();
    for &node in &nodes {
        let mut of_node = FindingsAbout { subject: &node.address, all: &mut findings };
        info(node, &mut of_node);
        memory(node, evidence, &mut of_node);
        persistence(node, &mut of_node);
        clock(node, &mut of_node);
        slow_calls(node, evidence, &mut of_node);
        file(node, &mut of_node);
        disk(node, &mut of_node);
    }
    findings.extend(node_clocks(&nodes));
    findings.extend(server_clocks(evidence));
    findings
}

/// Returns the flag with which `redis-cli` encrypts, where the node asks for it.
pub(super) fn tls(node: &Node) -> &'static str {
    if node.address.starts_with("rediss") { " --tls" } else { "" }
}

/// Returns the host and the port of an endpoint as `redis-cli` takes them: an IPv6 address without its brackets.
pub(super) fn host_and_port(endpoint: &str) -> Option<(&str, &str)> {
    let (host, port) = endpoint.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port))
}

/// Returns the beginning of a command line that leads to the node. A login is left to the operator: no password is printed.
fn redis_cli(node: &Node) -> String {
    let tls = tls(node);
    match node.endpoint.as_deref() {
        Some(path) if path.starts_with('/') => format!("redis-cli -s {}", shell::quote(path)),
        Some(place) => match host_and_port(place) {
            Some((host, port)) => format!("redis-cli -h {} -p {port}{tls}", shell::quote(host)),
            None => format!("redis-cli -s {}", shell::quote(&format!("./{place}"))),
        },
        None => format!("redis-cli{tls}"),
    }
}

/// Returns the commands that set a setting of the node and keep it. A refusal is told by the answer alone: `redis-cli` ends with 0.
fn set(node: &Node, setting: &str, value: &str) -> String {
    let cli = redis_cli(node);
    format!(
        "{cli} CONFIG SET {setting} {value}; where it answers OK: {cli} CONFIG REWRITE; then the same on each of its replicas, as one of \
         them takes over"
    )
}

fn info(node: &Node, findings: &mut FindingsAbout<'_>) {
    // Only CLUSTER INFO has this section. A file always has facts.
    if node.facts.iter().all(|fact| fact.section == "cluster info") {
        findings.add(
            Severity::Error,
            "unreadable",
            "this Redis does not answer INFO",
            "its version, its role, eviction, memory and persistence are not known: it may lose tasks, or take no writes",
            "grant this program's user +info, or give the command its name back (rename-command), then ask again",
        );
    }
}

fn memory(node: &Node, evidence: &Evidence, findings: &mut FindingsAbout<'_>) {
    match node.fact("maxmemory_policy").unwrap_or_default() {
        "" if node.fact("redis_version").is_some() && !evidence.allows_eviction => findings.add(
            Severity::Warning,
            "eviction",
            "this Redis does not tell its maxmemory-policy",
            "unless it is noeviction, Redis deletes tasks or their locks without a word when its memory is full",
            "set the policy to noeviction where the service is set up, and end this warning by allow_eviction=true in the URL",
        ),
        // A file has no such fact, and an INFO that is refused is a finding of its own.
        "" | "noeviction" => {}
        policy => findings.add(
            Severity::Error,
            "eviction",
            format!("maxmemory-policy is {policy}"),
            "when its memory is full, Redis deletes tasks or their locks without a word",
            set(node, "maxmemory-policy", "noeviction"),
        ),
    }
    if let (Some(used), Some(most @ 1..)) = (node.number("used_memory"), node.number("maxmemory")) {
        let percent = used.saturating_mul(100) / most;
        if percent >= 80 {
            findings.add(
                if percent >= 95 { Severity::Error } else { Severity::Warning },
                "memory",
                format!("{percent} % of maxmemory are used"),
                "when maxmemory is reached, nothing can be enqueued; running tasks still end",
                "give Redis more memory, or delete what is not needed: asynq task delete-all --queue QUEUE --state completed",
            );
        }
    }
}

fn persistence(node: &Node, findings: &mut FindingsAbout<'_>) {
    if node.fact("aof_enabled") == Some("0") {
        findings.add(
            Severity::Warning,
            "persistence",
            "there is no append-only file",
            "when Redis dies, every task since its last snapshot is lost",
            set(node, "appendonly", "yes"),
        );
    }
    let writes = [
        ("aof_last_write_status", "the append-only file cannot be written"),
        ("aof_last_bgrewrite_status", "the append-only file could not be rewritten"),
        ("rdb_last_bgsave_status", "the last snapshot failed"),
    ];
    let means = match node.refuses_writes {
        Some(WriteRefusal::CannotSave) => {
            "Redis takes no writes: nothing can be enqueued, no outcome is stored, and no server is listed as running"
        }
        _ => "tasks that are enqueued now are lost when Redis dies, and Redis may refuse writes",
    };
    for (fact, found) in writes {
        if node.fact(fact).is_some_and(|status| status != "ok") {
            findings.add(
                Severity::Error,
                "persistence",
                found,
                means,
                "look into the log of Redis: mostly the disk is full or the folder not writable",
            );
        }
    }
    if node.fact("role") == Some("slave") {
        findings.add(
            Severity::Error,
            "replica",
            "this Redis is a replica",
            "it takes no writes: nothing can be enqueued or run here, and no server is listed as running",
            format!(
                "use the URL of the master, or redis-sentinel:// with the sentinels' addresses; if it was made a replica by \
                 mistake: {} REPLICAOF NO ONE",
                redis_cli(node)
            ),
        );
    }
    if node.refuses_writes == Some(WriteRefusal::TooFewReplicas) {
        let good = node.number("min_slaves_good_slaves").unwrap_or_default();
        let are = if good == 1 { "replica is" } else { "replicas are" };
        findings.add(
            Severity::Error,
            "no-writes",
            format!("it takes no writes: min-replicas-to-write is not met, {good} {are} in step"),
            "nothing can be enqueued, no outcome is stored, and no server is listed as running, though workers live",
            format!(
                "bring the replicas back; to go on with fewer until then: {} CONFIG SET min-replicas-to-write {good}, and set it back \
                 then, before any CONFIG REWRITE",
                redis_cli(node)
            ),
        );
    }
}

fn clock(node: &Node, findings: &mut FindingsAbout<'_>) {
    let off = TimeDelta::from_std(node.precision).unwrap_or(TimeDelta::MAX);
    if node.ahead.abs() > MOST_SKEW + off {
        findings.add(
            Severity::Warning,
            "clock",
            format!("its clock is {} this host's", off_by(node.ahead)),
            "our workers go by the broker's clock; those of Go go by their own and start tasks early or late by as much",
            "let every host keep its time by NTP, such as by timedatectl set-ntp true",
        );
    }
}

/// Compares the clocks of the nodes of a cluster that answer with each other.
fn node_clocks(nodes: &[&Node]) -> Option<Finding> {
    // A node that did not tell its time counts as one without a difference, which was never measured.
    let known = || nodes.iter().copied().filter(|node| !node.ahead.is_zero() || !node.precision.is_zero());
    let (ahead, behind) = (known().max_by_key(|node| node.ahead)?, known().min_by_key(|node| node.ahead)?);
    let off = |node: &Node| TimeDelta::from_std(node.precision).unwrap_or_default();
    let apart = ahead.ahead - behind.ahead;
    (apart > MOST_SKEW + off(ahead) + off(behind)).then(|| {
        Finding {
            severity: Severity::Warning,
            check: "clock",
            subject: ahead.address.clone(),
            found: format!("its clock is {} that of {}", off_by(apart), behind.address),
            means: "programs know the time of one node: in the queues of another that is ahead of it delayed tasks, retries and the tasks of dead \
             workers come later by as much, and in those of one behind it tasks pass their deadline or expire too early",
            repair: "let every host of the cluster keep its time by NTP, such as by timedatectl set-ntp true".to_owned(),
        }
    })
}

/// Returns a text such as `2.5 s ahead of`.
fn off_by(ahead: TimeDelta) -> String {
    let direction = if ahead > TimeDelta::zero() { "ahead of" } else { "behind" };
    format!("{:.1} s {direction}", ahead.abs().num_milliseconds() as f64 / 1000.0)
}

/// Compares the clocks of the servers' hosts with the broker's by the skew of their heartbeats. Where no skew is known, as on SQLite, where
/// all share one clock, a start time in the future shows that it was set back.
fn server_clocks(evidence: &Evidence) -> impl Iterator<Item = Finding> + '_ {
    const NTP: &str = "let that host keep its time by NTP, such as by timedatectl set-ntp true";
    evidence.servers.iter().filter_map(|server| {
        let is_gos = server.info.is_gos();
        let started_ahead = || Some(server.info.start_time.and_then(Timestamp::to_datetime)? - evidence.now);
        let (found, means) = match server.clock_ahead {
            Some(ahead) => {
                let unsure = if is_gos { GOS_PRECISION } else { TimeDelta::zero() };
                if ahead.abs() <= MOST_SKEW + unsure {
                    return None;
                }
                let means = if is_gos {
                    "this worker of Go goes by its host's clock: it starts tasks early or late by as much"
                } else {
                    "workers of ours go by the broker's clock, but its log lines and what its jobs take for now are \
                     off, and a worker of Go there would start tasks early or late"
                };
                (format!("the clock of its host is {} the broker's", off_by(ahead)), means)
            }
            None => {
                let ahead = started_ahead().filter(|ahead| *ahead > MOST_SKEW)?;
                (
                    format!("it started {} s from now: the clock was set back since", ahead.num_seconds()),
                    "delayed tasks and retries from before that come, and locks, tokens and kept tasks from before that end, later by as \
                     much as the clock was set back",
                )
            }
        };
        let subject = format!("{}:{}", server.info.host, server.info.pid);
        Some(Finding { severity: Severity::Warning, check: "clock", subject, found, means, repair: NTP.to_owned() })
    })
}

fn slow_calls(node: &Node, evidence: &Evidence, findings: &mut FindingsAbout<'_>) {
    let slow: Vec<_> = node
        .slow_calls
        .iter()
        .flatten()
        .filter(|call| call.took.as_millis() >= SLOW_MS && call.at > evidence.now - RECENT)
        .collect();
    let Some(worst) = slow.iter().max_by_key(|call| call.took) else { return };
    findings.add(
        Severity::Warning,
        "slow-calls",
        format!("{} slow calls in a day, the worst took {} ms: {}", slow.len(), worst.took.as_millis(), worst.command),
        "while one call runs, Redis answers no other client: every start and every end of a task waits",
        format!("{} SLOWLOG GET 20 shows them; mostly other programs use this Redis, or a host swaps", redis_cli(node)),
    );
}

fn disk(node: &Node, findings: &mut FindingsAbout<'_>) {
    let (Some(room), Some(reserve)) = (node.number("disk_room_bytes"), node.number("disk_reserve_bytes")) else {
        return;
    };
    // Ten reserves would be more than a small disk has.
    let little = reserve.saturating_mul(10).min(node.number("disk_bytes").unwrap_or_default() / 10);
    if room < reserve.max(little) {
        findings.add(
            if room < reserve { Severity::Error } else { Severity::Warning },
            "disk",
            format!("{} MiB are free on its disk and in the file; the last {} MiB take no new task", room >> 20, reserve >> 20),
            "when only the last of the disk is free, nothing can be enqueued; tasks that wait are worked off",
            "make room on the disk of the file, or delete what is not needed: asynq task delete-all --queue QUEUE --state completed",
        );
    }
}

fn file(node: &Node, findings: &mut FindingsAbout<'_>) {
    if node.refuses_writes == Some(WriteRefusal::Locked) {
        findings.add(
            Severity::Error,
            "no-writes",
            format!("it takes no writes: {}", node.fact("write_error").unwrap_or("the write lock is held")),
            "nothing can be enqueued, no outcome is stored, and no server is listed as running, though workers live",
            format!(
                "unless the error names another cause, end the program that holds the write lock, such as a forgotten sqlite3 shell or \
                 a transaction that was left open: lsof {} shows the programs that have the file open",
                shell::quote(&node.address)
            ),
        );
    }
    match node.fact("quick_check") {
        None | Some("ok") => {}
        Some(unknown) if unknown.starts_with("unknown") => {}
        Some(damage) => findings.add(
            Severity::Error,
            "damaged-file",
            damage,
            "SQLite cannot trust the file; tasks in the damaged part are lost",
            "stop every worker and keep a copy of FILE, FILE-wal and FILE-shm; then restore a backup, or salvage: sqlite3 FILE \
             .recover >salvaged.sql && sqlite3 NEW <salvaged.sql (docs/operations.md#sqlite says what to look at before NEW takes \
             the place of FILE)",
        ),
    }
    if let Some(bytes) = node.number("wal_bytes")
        && bytes > LARGE_LOG
    {
        findings.add(
            Severity::Warning,
            "large-log",
            format!("its write-ahead log has {} MiB", bytes >> 20),
            "a connection has read from an old state for very long, so that the log cannot begin anew",
            "end the program that keeps the file open for reading, such as a forgotten sqlite3 shell or a backup",
        );
    }
}

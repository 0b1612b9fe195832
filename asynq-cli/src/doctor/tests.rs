//! The findings for each kind of evidence.

mod repairs;

use std::time::Duration;

use asynq_runtime::{
    broker::{
        Examination, Fact, GroupStats, Node, Oddity, OddityKind, QueueStats, ServerState, SlowCall, WriteRefusal,
    },
    task::{ArchiveLimit, GroupName, QueueName, QueueWeight, SchedulerEntry, ServerInfo, Timestamp, WorkerInfo},
};
use chrono::{DateTime, TimeDelta, Utc};
use clap::Parser as _;

use super::{
    Evidence, Finding, diagnose,
    evidence::{QueueEvidence, UnknownCounts, UnknownPart},
    unanswered::Unanswered,
};
use crate::{command::Cli, entries::Entry};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_893_553_445, 0).unwrap()
}

/// Returns the evidence of a sound system: a Redis, a worker on the queue `default`, and a task in it.
fn sound() -> Evidence {
    let mut node = Node::new("redis://h:6379", "7.0.15");
    for (name, value) in [
        ("role", "master"),
        ("maxmemory_policy", "noeviction"),
        ("used_memory", "1000"),
        ("maxmemory", "0"),
        ("aof_enabled", "1"),
        ("aof_last_write_status", "ok"),
        ("rdb_last_bgsave_status", "ok"),
    ] {
        set(&mut node, name, value);
    }
    (node.slow_calls, node.endpoint) = (Some(Vec::new()), Some("h:6379".to_owned()));
    let mut stats = QueueStats::empty(QueueName::from_wire("default"), now());
    (stats.pending, stats.size) = (1, 1);
    let examination = Examination { complete: true, ..Examination::default() };
    let info = ServerInfo {
        host: "h".into(),
        pid: 7,
        queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }],
        start_time: Some(Timestamp::from(now() - TimeDelta::hours(1))),
        ..ServerInfo::default()
    };
    Evidence {
        now: now(),
        nodes: vec![node],
        servers: vec![ServerState::new(info, Vec::new())],
        queues: vec![QueueEvidence {
            stats,
            is_listed: true,
            examination,
            states: Default::default(),
            unknown: Default::default(),
            oldest_group: None,
        }],
        entries: vec![entry("@hourly", TimeDelta::minutes(3))],
        ..Evidence::default()
    }
}

/// Returns a periodic entry whose last tick was this long ago.
fn entry(spec: &str, ago: TimeDelta) -> Entry {
    let listed = SchedulerEntry { spec: spec.into(), task_type: "report".into(), ..SchedulerEntry::default() };
    Entry { listed, paused: false, last: Some(now() - ago), error: None }
}

#[test]
fn an_entry_that_is_listed_and_not_fired_is_reported() {
    let findings_of = |entry: Entry| {
        let findings = diagnose(&Evidence { entries: vec![entry], ..sound() });
        findings.into_iter().map(|finding| (finding.check, finding.found)).collect::<Vec<_>>()
    };
    assert_eq!(findings_of(entry("* * * * *", TimeDelta::seconds(90))), []);
    let late = findings_of(entry("TZ=Europe/Berlin */10 * * * *", TimeDelta::minutes(42)));
    assert!(
        late.len() == 1 && late[0].0 == "late-schedule" && late[0].1.starts_with("4 of its times have passed"),
        "{late:?}"
    );
    is_documented(&diagnose(&Evidence { entries: vec![entry("@hourly", TimeDelta::days(1))], ..sound() })[0]);
    assert!(findings_of(entry("* * * * * *", TimeDelta::days(30)))[0].1.starts_with("1000 of its times or more"));
    assert_eq!(findings_of(Entry { last: None, ..entry("* * * * *", TimeDelta::days(1)) }), [], "it is Go's");
    assert_eq!(findings_of(entry("nonsense", TimeDelta::days(1))), []);
    // The leader has passed over a tick that `missed = "skip"` leaves out.
    for (next, findings) in [(TimeDelta::hours(23), 0), (TimeDelta::hours(-1), 1)] {
        let mut entry = entry("@daily", TimeDelta::hours(25));
        entry.listed.next_enqueue_time = Some((now() + next).into());
        assert_eq!(findings_of(entry).len(), findings, "{next}");
    }
    // The clock was set back, and the leader waits until it has come to the last tick again.
    for (ahead, findings) in [(TimeDelta::seconds(5), 0), (TimeDelta::seconds(568), 1)] {
        let mut entry = entry("* * * * *", -ahead);
        entry.listed.next_enqueue_time = Some((now() + ahead).into());
        let found = findings_of(entry);
        assert_eq!(found.len(), findings, "{ahead}");
        assert!(
            found.iter().all(|(check, found)| *check == "late-schedule" && found.contains("568 s ahead")),
            "{found:?}"
        );
    }
    // The full hour passed 4 minutes ago.
    assert_eq!(findings_of(entry("@every 1h", TimeDelta::minutes(3))), []);
    assert_eq!(findings_of(entry("@every 1h", TimeDelta::minutes(10))).len(), 1);
    // robfig leaves out a night in which 02:30 does not exist, and our rules do not.
    let now: DateTime<Utc> = "2027-03-28T12:00:00Z".parse().unwrap();
    for (compat, findings) in [(false, 1), (true, 0)] {
        let mut entry = entry("TZ=Europe/Berlin 30 2 * * *", TimeDelta::zero());
        (entry.listed.compat, entry.last) = (compat, Some(now - TimeDelta::hours(30)));
        let evidence = Evidence { entries: vec![entry], now, ..sound() };
        let found = diagnose(&evidence).into_iter().filter(|finding| finding.check == "late-schedule").count();
        assert_eq!(found, findings, "{compat}");
    }
}

fn set(node: &mut Node, name: &str, value: &str) {
    node.facts.retain(|fact| fact.name != name);
    node.facts.push(Fact { section: "any".into(), name: name.into(), value: value.into() });
}

/// Takes the policy from the answer of a Redis, as hosted services do.
fn withhold_policy(node: &mut Node) {
    node.facts.retain(|fact| fact.name != "maxmemory_policy");
    set(node, "redis_version", "7.0.15");
}

/// Says that the disk of the node's file has 10 GB, and that the file can still take `room` bytes.
fn set_disk(node: &mut Node, room: &str) {
    let facts = [("disk_bytes", "10000000000"), ("disk_room_bytes", room), ("disk_reserve_bytes", "8388608")];
    facts.into_iter().for_each(|(name, value)| set(node, name, value));
}

/// Returns a group whose first task joined it so long ago.
fn group(ago: TimeDelta) -> GroupStats {
    GroupStats::new(GroupName::from_wire("g"), 3, Some(now() - ago))
}

/// Returns a run whose deadline is this far from now.
fn run(left: TimeDelta) -> WorkerInfo {
    let deadline = Some(Timestamp::from(now() + left));
    WorkerInfo { task_id: "t1".into(), task_type: "mail".into(), deadline, ..WorkerInfo::default() }
}

fn slow(ago: TimeDelta, ms: u64) -> SlowCall {
    SlowCall { at: now() - ago, took: Duration::from_millis(ms), command: "EVALSHA asynq:{q}:pending".into() }
}

#[test]
fn a_system_in_order_has_no_finding() {
    assert_eq!(diagnose(&sound()), []);
}

#[test]
fn each_fault_is_reported_once_with_its_severity_and_subject() {
    type Fault = fn(&mut Evidence);
    let cases: Vec<(&str, Fault)> = vec![
        ("error eviction redis://h:6379", |e| set(&mut e.nodes[0], "maxmemory_policy", "allkeys-lru")),
        ("warning eviction redis://h:6379", |e| withhold_policy(&mut e.nodes[0])),
        ("warning memory redis://h:6379", |e| set(&mut e.nodes[0], "maxmemory", "1250")),
        ("error memory redis://h:6379", |e| set(&mut e.nodes[0], "maxmemory", "1010")),
        ("warning persistence redis://h:6379", |e| set(&mut e.nodes[0], "aof_enabled", "0")),
        ("error persistence redis://h:6379", |e| set(&mut e.nodes[0], "aof_last_write_status", "err")),
        ("error persistence redis://h:6379", |e| set(&mut e.nodes[0], "rdb_last_bgsave_status", "err")),
        ("error replica redis://h:6379", |e| set(&mut e.nodes[0], "role", "slave")),
        ("error no-writes redis://h:6379", |e| e.nodes[0].refuses_writes = Some(WriteRefusal::TooFewReplicas)),
        ("error unreadable redis://h:6379", |e| e.nodes[0].facts.clear()),
        ("error unreadable redis://h:6379", |e| {
            let state = Fact { section: "cluster info".into(), name: "cluster_state".into(), value: "ok".into() };
            e.nodes[0].facts = vec![state];
        }),
        ("error cluster redis://h:6379", |e| set(&mut e.nodes[0], "cluster_state", "fail")),
        ("error cluster redis://h:6379", |e| {
            set(&mut e.nodes[0], "cluster_state", "ok");
            set(&mut e.nodes[0], "cluster_slots_fail", "5461");
        }),
        ("error cluster redis://h:6379", |e| {
            set(&mut e.nodes[0], "cluster_state", "ok");
            set(&mut e.nodes[0], "cluster_slots_assigned", "16000");
        }),
        ("warning clock redis://h:6379", |e| e.nodes[0].ahead = TimeDelta::seconds(-2)),
        ("warning clock h:7", |e| {
            e.servers[0].info.start_time = Some(Timestamp::from(now() + TimeDelta::seconds(3)));
        }),
        ("warning clock h:7", |e| e.servers[0].clock_ahead = Some(TimeDelta::milliseconds(-1_600))),
        ("warning clock h:7", |e| {
            (e.servers[0].info.rust_version, e.servers[0].clock_ahead) =
                ("1".into(), Some(TimeDelta::milliseconds(1_100)));
        }),
        ("warning slow-calls redis://h:6379", |e| {
            e.nodes[0].slow_calls = Some(vec![slow(TimeDelta::hours(1), 12), slow(TimeDelta::hours(2), 40)]);
        }),
        ("error damaged-file redis://h:6379", |e| set(&mut e.nodes[0], "quick_check", "row 7 missing from index")),
        ("error disk redis://h:6379", |e| set_disk(&mut e.nodes[0], "1000000")),
        ("warning disk redis://h:6379", |e| set_disk(&mut e.nodes[0], "80000000")),
        ("warning large-log redis://h:6379", |e| set(&mut e.nodes[0], "wal_bytes", "300000000")),
        ("error no-consumer default", |e| e.servers.clear()),
        ("error no-consumer default", |e| e.servers[0].info.queues[0].queue = Some("other".into())),
        ("error no-consumer default", |e| e.servers[0].info.status = "stopped".into()),
        ("error no-consumer default", |e| {
            e.servers.clear();
            (e.queues[0].stats.pending, e.queues[0].stats.active) = (0, 1);
        }),
        ("error unlisted-queue default", |e| e.queues[0].is_listed = false),
        ("warning long-wait default", |e| e.queues[0].stats.latency = Duration::from_secs(400)),
        ("warning paused default", |e| {
            (e.queues[0].stats.paused, e.queues[0].stats.latency) = (true, Duration::from_secs(4_000));
        }),
        ("warning paused report", |e| {
            e.entries[0] = Entry { paused: true, ..entry("* * * * *", TimeDelta::days(1)) };
        }),
        ("warning group-waits default", |e| e.queues[0].oldest_group = Some(group(TimeDelta::hours(2)))),
        ("error no-handler default", |e| {
            e.queues[0].unknown.insert(("mail".into(), UnknownPart::Type), UnknownCounts { waiting: 3, archived: 0 });
        }),
        ("error no-handler default", |e| {
            e.queues[0].unknown.insert(("mail".into(), UnknownPart::Type), UnknownCounts { waiting: 0, archived: 1 });
        }),
        ("error unknown-shape default", |e| {
            e.queues[0].unknown.insert(("mail".into(), UnknownPart::Shape), UnknownCounts { waiting: 1, archived: 1 });
        }),
        ("warning full-archive default", |e| e.queues[0].stats.archived = 9_500),
        ("error stuck h:7", |e| e.servers[0].workers = vec![run(TimeDelta::seconds(-11)), run(TimeDelta::seconds(30))]),
    ];
    for (expected, fault) in cases {
        let mut evidence = sound();
        fault(&mut evidence);
        let texts: Vec<String> =
            diagnose(&evidence).iter().map(|f| format!("{} {} {}", f.severity, f.check, f.subject)).collect();
        assert_eq!(texts, [expected]);
        is_understood(&diagnose(&evidence)[0].repair);
        is_documented(&diagnose(&evidence)[0]);
    }
}

#[test]
fn a_server_that_started_after_now_tells_of_a_clock_that_was_set_back() {
    let mut evidence = sound();
    evidence.servers[0].info.start_time = Some(Timestamp::from(now() + TimeDelta::hours(1)));
    evidence.servers[0].clock_ahead = None;
    assert_eq!(diagnose(&evidence)[0].found, "it started 3600 s from now: the clock was set back since");
}

#[test]
fn harmless_evidence_is_not_reported() {
    type Fault = fn(&mut Evidence);
    let cases: Vec<(&str, Fault)> = vec![
        ("a clock within what the question took", |e| {
            (e.nodes[0].ahead, e.nodes[0].precision) = (TimeDelta::milliseconds(2_500), Duration::from_secs(2));
        }),
        ("a Go server's clock within what is known of it", |e| {
            e.servers[0].clock_ahead = Some(TimeDelta::milliseconds(1_400));
        }),
        ("a clock that is right, whenever the server started", |e| {
            e.servers[0].info.start_time = Some(Timestamp::from(now() + TimeDelta::seconds(3)));
            e.servers[0].clock_ahead = Some(TimeDelta::zero());
        }),
        ("a slow call of last week", |e| e.nodes[0].slow_calls = Some(vec![slow(TimeDelta::days(7), 500)])),
        ("a file too large to be checked", |e| set(&mut e.nodes[0], "quick_check", "unknown: too large")),
        ("a run that has just reached its deadline", |e| e.servers[0].workers = vec![run(TimeDelta::seconds(-9))]),
        ("a quiet server that ends its last task", |e| {
            e.servers[0].info.status = "stopped".into();
            (e.queues[0].stats.pending, e.queues[0].stats.active) = (0, 1);
        }),
        ("a quiet server beside one that is not", |e| {
            e.servers.push(e.servers[0].clone());
            e.servers[0].info.status = "closed".into();
        }),
        ("an empty queue that nobody serves", |e| {
            e.servers.clear();
            e.queues[0].stats.pending = 0;
        }),
        ("a queue that was paused a moment ago", |e| {
            (e.queues[0].stats.paused, e.queues[0].stats.latency) = (true, Duration::from_secs(299));
        }),
        ("a group whose tasks have just joined", |e| e.queues[0].oldest_group = Some(group(TimeDelta::minutes(59)))),
        ("a Redis that does not tell its policy, where the URL allows any", |e| {
            withhold_policy(&mut e.nodes[0]);
            e.allows_eviction = true;
        }),
        ("a cluster that is whole", |e| set(&mut e.nodes[0], "cluster_state", "ok")),
        ("a disk with room", |e| set_disk(&mut e.nodes[0], "90000000")),
        ("a node without a list of slow calls", |e| e.nodes[0].slow_calls = None),
    ];
    for (case, fault) in cases {
        let mut evidence = sound();
        fault(&mut evidence);
        assert_eq!(diagnose(&evidence), [], "{case}");
    }
}

#[test]
fn without_writes_nothing_is_concluded_from_the_list_of_servers() {
    type State = fn(&mut Node);
    let states: [(&str, State); 4] = [
        ("replica", |node| {
            set(node, "role", "slave");
            node.refuses_writes = Some(WriteRefusal::Replica);
        }),
        ("no-writes", |node| {
            set(node, "min_slaves_good_slaves", "0");
            node.refuses_writes = Some(WriteRefusal::TooFewReplicas);
        }),
        ("persistence", |node| {
            set(node, "rdb_last_bgsave_status", "err");
            node.refuses_writes = Some(WriteRefusal::CannotSave);
        }),
        ("no-writes", |node| node.refuses_writes = Some(WriteRefusal::Locked)),
    ];
    for (check, state) in states {
        for servers in 0..=1 {
            let mut evidence = sound();
            state(&mut evidence.nodes[0]);
            evidence.servers.truncate(servers);
            evidence.servers.iter_mut().for_each(|server| server.workers = vec![run(TimeDelta::minutes(-1))]);
            (evidence.queues[0].stats.active, evidence.queues[0].stats.latency) = (2, Duration::from_secs(4_000));
            let findings = diagnose(&evidence);
            assert_eq!(findings.iter().map(|finding| finding.check).collect::<Vec<_>>(), [check]);
            assert!(findings[0].means.contains("no server is listed"), "{findings:?}");
        }
    }
}

#[test]
fn nodes_whose_clocks_differ_from_each_other_are_named() {
    let mut evidence = sound();
    let mut behind = evidence.nodes[0].clone();
    (behind.address, behind.ahead) = ("redis://h:6380".to_owned(), TimeDelta::milliseconds(-700));
    evidence.nodes[0].ahead = TimeDelta::milliseconds(700);
    evidence.nodes.push(behind);
    let findings = diagnose(&evidence);
    assert_eq!((findings.len(), findings[0].check, &*findings[0].subject), (1, "clock", "redis://h:6379"));
    assert_eq!(findings[0].found, "its clock is 1.4 s ahead of that of redis://h:6380");
    is_understood(&findings[0].repair);
    is_documented(&findings[0]);
    evidence.nodes[1].precision = Duration::from_millis(500);
    assert!(diagnose(&evidence).is_empty(), "the answer may have taken as long");
    // The other node did not tell its time.
    evidence.nodes[0].ahead = TimeDelta::seconds(5);
    (evidence.nodes[1].ahead, evidence.nodes[1].precision) = (TimeDelta::zero(), Duration::ZERO);
    let findings = diagnose(&evidence);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].found, "its clock is 5.0 s ahead of this host's");
}

#[test]
fn a_node_of_a_cluster_that_does_not_answer_is_named_and_hides_servers() {
    let mut evidence = sound();
    evidence.servers.clear();
    let mut away = Node::new("redis-cluster://a:1,b:2", "unknown");
    away.endpoint = Some("b:2".to_owned());
    evidence.nodes.push(away);
    let findings = diagnose(&evidence);
    assert_eq!(findings.len(), 1, "no queue is said to have no server: {findings:?}");
    assert_eq!((findings[0].check, &*findings[0].found), ("unreadable", "a node of the cluster does not answer: b:2"));
    assert!(!findings[0].repair.contains("+info"), "{findings:?}");
}

#[test]
fn queues_that_do_not_answer_are_one_finding_for_each_node() {
    let queues = |n: u32| Unanswered {
        queues: (0..n).map(|n| QueueName::from_wire(&format!("q{n}"))).collect(),
        error: "no answer".to_owned(),
    };
    let mut evidence = sound();
    let mut away = Node::new("redis-cluster://h:6379,b:2", "unknown");
    away.endpoint = Some("b:2".to_owned());
    evidence.nodes.push(away);
    evidence.unanswered = [("b:2".to_owned(), queues(6)), ("h:6379".to_owned(), queues(1))].into();
    let findings = diagnose(&evidence);
    assert_eq!(
        findings.iter().map(|finding| &*finding.found).collect::<Vec<_>>(),
        [
            "a node of the cluster does not answer: b:2, with 6 queues: q0, q1, q2, q3, q4, …",
            "this node does not answer for 1 queue: q0: no answer",
        ]
    );
    findings.iter().for_each(is_documented);
}

#[test]
fn every_kind_of_oddity_is_reported_with_its_examples_and_its_repair() {
    for &kind in OddityKind::ALL {
        let mut evidence = sound();
        evidence.queues[0].examination.oddities =
            vec![Oddity { kind, count: 12, examples: vec!["a".into(), "b".into()] }];
        let findings = diagnose(&evidence);
        assert_eq!(findings.len(), 1, "{kind}");
        let finding = &findings[0];
        assert!(finding.found.starts_with("12 ") && finding.found.ends_with(": a, b, …"), "{}", finding.found);
        assert!(!finding.means.is_empty() && !finding.repair.is_empty());
        is_understood(&finding.repair);
        is_documented(finding);
    }
}

/// Asserts that the page about the command line has a row for the check, with its severity.
fn is_documented(finding: &Finding) {
    const PAGE: &str = include_str!("../../../docs/cli.md");
    let start = format!("| `{}` | ", finding.check);
    let row = PAGE.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}"));
    assert!(row.contains(&finding.severity.to_string()), "{row}");
}

/// Asserts that the command line accepts every `asynq` command of a repair.
fn is_understood(repair: &str) {
    for (at, _) in repair.match_indices("asynq ") {
        let command = repair[at..].split([',', ';']).next().unwrap();
        if let Err(error) = Cli::try_parse_from(command.split_whitespace()) {
            panic!("{command}: {error}");
        }
    }
}

#[test]
fn some_of_the_runs_that_are_stuck_are_named() {
    let mut evidence = sound();
    let stuck = |n: u32| WorkerInfo { task_id: format!("t{n}"), ..run(TimeDelta::minutes(-1)) };
    evidence.servers[0].workers = (1..=4).rev().map(stuck).collect();
    let found = &diagnose(&evidence)[0].found;
    assert_eq!(found, "4 runs whose time is over go on: mail t1, mail t2, mail t3, …");
}

#[test]
fn a_queue_is_served_by_a_pattern_too() {
    let mut evidence = sound();
    evidence.queues[0].stats.name = QueueName::from_wire("tenant:7");
    assert_eq!(diagnose(&evidence)[0].check, "no-consumer");
    evidence.servers[0].info.queues[0].queue = Some("tenant:*".into());
    assert_eq!(diagnose(&evidence)[0].check, "no-consumer", "a star is nothing special to Go");
    evidence.servers[0].info.rust_version = "0.1.0".into();
    assert_eq!(diagnose(&evidence), []);
}

#[test]
fn a_small_archive_is_full_from_nine_tenths_on() {
    let is_reported = |archived| {
        let mut evidence = sound();
        let server = &mut evidence.servers[0].info;
        (server.rust_version, server.archives) =
            ("0.1.0".into(), vec![ArchiveLimit { queue: "default".into(), tasks: 15 }]);
        evidence.queues[0].stats.archived = archived;
        diagnose(&evidence).iter().any(|finding| finding.check == "full-archive")
    };
    assert_eq!([0, 1, 9, 13, 14, 15].map(is_reported), [false, false, false, false, true, true]);
}

#[test]
fn the_worst_comes_first() {
    let mut evidence = sound();
    set(&mut evidence.nodes[0], "aof_enabled", "0");
    evidence.servers.clear();
    let checks: Vec<_> = diagnose(&evidence).iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["no-consumer", "persistence"]);
}

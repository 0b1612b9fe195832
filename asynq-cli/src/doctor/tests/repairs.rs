//! The repairs: what their commands change, and names that a shell or a flag would misread.

use std::process::Command;

use asynq_runtime::TaskState;

use super::*;

#[test]
fn a_command_for_redis_leads_to_the_node_that_has_the_fault() {
    for (address, endpoint, expected) in [
        ("redis://h:6379/0", Some("h:6379"), "redis-cli -h h -p 6379 "),
        ("redis-cluster://a:1,b:2 (node on port 2)", Some("10.0.0.2:2"), "redis-cli -h 10.0.0.2 -p 2 "),
        ("rediss://jobs@[::1]:6380/0", Some("[::1]:6380"), "redis-cli -h ::1 -p 6380 --tls "),
        ("redis+unix:///run/redis.sock?db=0", Some("/run/redis.sock"), "redis-cli -s /run/redis.sock "),
        ("redis+unix:///a b/s?db=0", Some("/a b/s"), "redis-cli -s '/a b/s' "),
        ("redis://h:6379/0", None, "redis-cli "),
    ] {
        let mut evidence = sound();
        let node = &mut evidence.nodes[0];
        (node.address, node.endpoint) = (address.to_owned(), endpoint.map(str::to_owned));
        set(node, "maxmemory_policy", "allkeys-lru");
        let repair = &diagnose(&evidence)[0].repair;
        let expected = format!(
            "{expected}CONFIG SET maxmemory-policy noeviction; where it answers OK: {expected}CONFIG REWRITE; then the same on each of \
             its replicas, as one of them takes over"
        );
        assert_eq!(repair, &expected);
    }
}

#[test]
fn a_command_for_a_cluster_encrypts_and_quotes_the_node() {
    let mut evidence = sound();
    let node = &mut evidence.nodes[0];
    (node.address, node.endpoint) = ("rediss-cluster://[::1]:7000".to_owned(), Some("[::1]:7000".to_owned()));
    set(node, "cluster_state", "fail");
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.starts_with("redis-cli --cluster check ::1:7000 --tls shows which"), "{repair}");
    let loses = "gone for good: redis-cli --cluster fix ::1:7000 --tls, which gives the slots to other nodes without their tasks";
    assert!(repair.ends_with(loses), "{repair}");
    evidence.nodes[0].endpoint = Some("$(reboot):7000".to_owned());
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.contains("check '$(reboot):7000' --tls"), "{repair}");
}

#[test]
fn no_repair_of_one_queue_takes_a_worker_from_the_others() {
    let mut evidence = sound();
    evidence.queues[0].stats.name = QueueName::from_wire("mail");
    let repair = &diagnose(&evidence)[0].repair;
    let start = "add it to the queues of a worker that has its jobs, or start a further one for it alone with --queues=mail, or move";
    assert!(repair.starts_with(start), "{repair}");
    evidence.servers.clear();
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.starts_with("no worker runs: start one, which serves the queues of its jobs unless"), "{repair}");
    let mut evidence = sound();
    evidence.servers[0].info.status = "stopped".into();
    let Finding { found, repair, .. } = &diagnose(&evidence)[0];
    assert_eq!(found, "1 task waits and every server of the queue is quiet");
    assert!(repair.starts_with("its workers run and take no more tasks") && !repair.contains("--queues"), "{repair}");
}

#[test]
fn a_name_that_a_shell_would_misread_is_quoted_in_commands() {
    let mut evidence = sound();
    evidence.servers.clear();
    evidence.queues[0].stats.name = QueueName::from_wire("it's; rm -rf");
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.contains(r"--queues='it'\''s; rm -rf',"), "{repair}");
    let mut evidence = sound();
    let kind = OddityKind::TaskWithoutPlace;
    evidence.queues[0].examination.oddities = vec![Oddity { kind, count: 1, examples: vec!["$(reboot)".into()] }];
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.contains("asynq task run --queue=default -- '$(reboot)'"), "{repair}");
}

#[test]
fn a_name_that_the_flag_of_queues_reads_as_syntax_is_written_for_it() {
    for (name, expected) in [
        ("low", "--queues=low"),
        ("team/3", "--queues='team/3=1'"),
        ("rate=high", "--queues='rate=high=1'"),
        ("a,b", "App::queue in its set-up, as --queues cannot write this name"),
        (" lead", "App::queue in its set-up, as --queues cannot write this name"),
        ("*", "--queues='*', a pattern that other queues may match, too"),
    ] {
        let mut evidence = sound();
        evidence.servers.clear();
        evidence.queues[0].stats.name = QueueName::from_wire(name);
        evidence.queues[0].examination.oddities = [OddityKind::ActiveWithoutLease, OddityKind::IdWithoutTask]
            .map(|kind| Oddity { kind, count: 1, examples: vec!["t1".into()] })
            .into();
        let findings = diagnose(&evidence);
        assert_eq!(findings.len(), 3);
        for Finding { repair, .. } in findings {
            assert!(repair.contains(expected), "{name:?}: {repair}");
        }
    }
}

#[test]
fn a_name_that_begins_with_a_hyphen_is_not_a_flag_of_a_command() {
    let mut evidence = sound();
    let queue = &mut evidence.queues[0];
    queue.stats.name = QueueName::from_wire("-q");
    queue.oldest_group = Some(GroupStats::new(GroupName::from_wire("-g"), 3, Some(now() - TimeDelta::hours(2))));
    let kind = OddityKind::TaskWithoutPlace;
    queue.examination.oddities = vec![Oddity { kind, count: 1, examples: vec!["-x".into()] }];
    queue.states.insert("-x".into(), TaskState::Retry);
    let repairs: Vec<_> = diagnose(&evidence).into_iter().map(|finding| finding.repair).collect();
    repairs.iter().for_each(|repair| is_understood(repair));
    for command in ["asynq task run-all --queue=-q --state aggregating --group=-g", "asynq task run --queue=-q -- -x"] {
        assert!(repairs.iter().any(|repair| repair.ends_with(command)), "{repairs:#?}");
    }
}

#[test]
fn no_repair_names_a_queue_to_workers_that_refuse_it() {
    let mut evidence = sound();
    evidence.queues[0].stats.name = QueueName::from_wire("a{b}c");
    evidence.queues[0].examination.oddities =
        OddityKind::ALL.iter().map(|&kind| Oddity { kind, count: 1, examples: vec!["a".into()] }).collect();
    let findings = diagnose(&evidence);
    assert!(findings.iter().any(|finding| finding.check == "no-consumer"), "{findings:?}");
    for Finding { repair, .. } in &findings {
        assert!(!repair.contains("--queues"), "{repair}");
        is_understood(repair);
    }
}

#[test]
fn all_archived_tasks_are_run_again_only_where_each_of_them_has_the_unknown_part() {
    let all = "asynq task run-all --queue=default --state archived";
    let (of_type, of_shape) = ((UnknownPart::Type, 2), (UnknownPart::Shape, 1));
    for (parts, archived, is_all) in
        [(vec![of_type], 2, true), (vec![of_type], 3, false), (vec![of_type, of_shape], 3, false)]
    {
        let mut evidence = sound();
        let queue = &mut evidence.queues[0];
        queue.stats.archived = archived;
        let number = parts.len();
        for (part, archived) in parts {
            queue.unknown.insert(("mail".into(), part), UnknownCounts { waiting: 0, archived });
        }
        let findings = diagnose(&evidence);
        assert_eq!(findings.len(), number);
        for Finding { repair, .. } in findings {
            assert_eq!(repair.contains(all), is_all, "{repair}");
            assert_eq!(repair.contains("asynq task run --queue=default ID …"), !is_all, "{repair}");
            is_understood(&repair);
        }
    }
}

#[test]
fn the_repair_of_an_unknown_shape_is_what_lets_its_tasks_run() {
    let mut evidence = sound();
    let counts = UnknownCounts { waiting: 1, archived: 0 };
    evidence.queues[0].unknown.insert(("mail".into(), UnknownPart::Shape), counts);
    let repair = &diagnose(&evidence)[0].repair;
    // Under a new name no worker would have a job for the tasks that wait.
    assert!(repair.contains("a default, an alias or an upgrade") && !repair.contains("new job name"), "{repair}");
}

#[test]
fn a_misplaced_task_that_is_over_is_not_run_again_by_its_repair() {
    for kind in [OddityKind::TaskWithoutPlace, OddityKind::TaskInWrongPlace] {
        let mut evidence = sound();
        let queue = &mut evidence.queues[0];
        let examples = TaskState::ALL.iter().map(ToString::to_string).collect();
        queue.examination.oddities = vec![Oddity { kind, count: 12, examples }];
        queue.states = TaskState::ALL.into_iter().map(|state| (state.to_string(), state)).collect();
        let repair = &diagnose(&evidence)[0].repair;
        is_understood(repair);
        for part in [
            "asynq task delete --queue=default -- completed;",
            "asynq task archive --queue=default -- archived;",
            "asynq task run --queue=default -- pending scheduled retry;",
            "as an empty body loses them: asynq task run --queue=default -- aggregating, else: asynq task archive",
            "where a second run does no harm: asynq task run --queue=default -- active, else",
            "then ask again for the others",
        ] {
            assert!(repair.contains(part), "{part}\n{repair}");
        }
        let unknown = &mut evidence.queues[0];
        unknown.states.clear();
        let repair = &diagnose(&evidence)[0].repair;
        assert!(!repair.contains("task delete") && repair.contains("else: asynq task archive"), "{repair}");
    }
}

#[test]
fn the_repair_of_lost_tasks_names_all_that_were_kept_and_the_finding_the_first_ten() {
    let mut evidence = sound();
    let queue = &mut evidence.queues[0];
    let examples: Vec<String> = (0..25).map(|n| format!("t{n}")).collect();
    queue.states = examples.iter().map(|id| (id.clone(), TaskState::Pending)).collect();
    let all = examples.join(" ");
    queue.examination.oddities = vec![Oddity { kind: OddityKind::TaskWithoutPlace, count: 25, examples }];
    let Finding { found, repair, .. } = &diagnose(&evidence)[0];
    assert!(found.ends_with("t8, t9, …"), "{found}");
    assert!(repair.ends_with(&format!("asynq task run --queue=default -- {all}")), "{repair}");
    is_understood(repair);
}

#[test]
fn the_repair_of_a_paused_entry_names_its_queue() {
    let listed_in = |queue: &str, paused| {
        let mut entry = Entry { paused, ..entry("@hourly", TimeDelta::minutes(3)) };
        (entry.listed.id, entry.listed.enqueue_options) = ("-e".into(), vec![format!("Queue(\"{queue}\")")]);
        entry
    };
    let mut evidence = sound();
    evidence.entries = vec![listed_in("a", false), listed_in("b c", true)];
    let findings = diagnose(&evidence);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].repair.ends_with("asynq cron resume --queue='b c' -- -e"), "{findings:?}");
    evidence.entries = vec![listed_in("b", true)];
    is_understood(&diagnose(&evidence)[0].repair);
}

/// Where there is no `sqlite3`, the command ends with an error, too.
#[test]
fn the_repair_of_a_damaged_file_fails_or_makes_a_file_with_its_rows() {
    let mut evidence = sound();
    set(&mut evidence.nodes[0], "quick_check", "row 7 missing from index");
    let repair = &diagnose(&evidence)[0].repair;
    assert!(repair.contains("FILE, FILE-wal and FILE-shm"), "{repair}");
    let command = repair[repair.find("sqlite3 FILE").unwrap()..].split(" (").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let shell = |line: &str| Command::new("sh").args(["-c", line]).current_dir(folder.path()).output().unwrap();
    shell("sqlite3 FILE 'CREATE TABLE task(id); INSERT INTO task VALUES (1), (2), (3)'");
    if shell(command).status.success() {
        let rows = shell("sqlite3 NEW 'SELECT count(*) FROM task'");
        assert_eq!(String::from_utf8_lossy(&rows.stdout).trim(), "3", "{command}");
    }
}

#[test]
fn no_repair_lets_a_worker_take_tasks_of_jobs_that_it_lacks() {
    for kind in [OddityKind::ActiveWithoutLease, OddityKind::LeaseWithoutTask, OddityKind::IdWithoutTask] {
        let mut evidence = sound();
        evidence.queues[0].examination.oddities = vec![Oddity { kind, count: 1, examples: vec!["t1".into()] }];
        let repair = &diagnose(&evidence)[0].repair;
        assert!(repair.starts_with("run a worker of ours that has every job of the queue"), "{repair}");
    }
}

#[test]
fn the_tasks_of_a_group_run_only_where_their_job_does_the_work_by_itself() {
    let mut evidence = sound();
    evidence.queues[0].oldest_group = Some(group(TimeDelta::hours(2)));
    let repair = &diagnose(&evidence)[0].repair;
    let (condition, _) = repair.split_once("asynq task run-all").unwrap();
    assert!(condition.contains("only where the job of these tasks does the work by itself, too"), "{repair}");
}

#[test]
fn a_setting_for_a_while_is_not_kept_by_the_repair_of_another_finding() {
    let mut evidence = sound();
    evidence.nodes[0].refuses_writes = Some(WriteRefusal::TooFewReplicas);
    let repair = &diagnose(&evidence)[0].repair;
    assert!(
        repair.ends_with("CONFIG SET min-replicas-to-write 0, and set it back then, before any CONFIG REWRITE"),
        "{repair}"
    );
}

#[test]
fn no_repair_deletes_failures_or_asks_for_an_option_that_the_job_does_not_take() {
    let mut evidence = sound();
    set(&mut evidence.nodes[0], "maxmemory", "1010");
    evidence.servers[0].workers = vec![run(TimeDelta::minutes(-1))];
    let findings = diagnose(&evidence);
    let repair = |check: &str| &findings.iter().find(|finding| finding.check == check).unwrap().repair;
    assert!(repair("memory").ends_with("--state completed"), "{findings:?}");
    assert!(repair("stuck").contains("make it an `fn` with a `kill_after`"), "{findings:?}");
}

//! `doctor` on real brokers, sound and ill.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use asynq_runtime::{
    Client, RawTask, Registry, Server, job,
    prelude::JobResult,
    task::{QueueWeight, ServerInfo},
};
use asynq_tests::{
    Calls, Need, RedisStore, SqliteStore, Store as _, archive, default_queue, eventually, patient, task, task_id,
};

use crate::fixture::{CliFixture, on_both_brokers, read};

#[job]
async fn resize(_width: u32) -> JobResult {
    Ok(())
}

/// Registers a server that serves the default queue.
async fn serve<S: asynq_tests::Store>(cli: &CliFixture<S>) {
    let t = &cli.t;
    let member = t.another_member(7).await;
    let queues = vec![QueueWeight { queue: Some("default".into()), weight: Some(1) }];
    let info = ServerInfo {
        host: "host-7".into(),
        pid: 4007,
        status: "active".into(),
        start_time: Some(t.now().into()),
        queues,
        ..ServerInfo::default()
    };
    t.broker().beat(&member, &info, &[]).await.unwrap();
}

/// Returns the findings as `severity check subject`, without those that the test's machine causes: no Redis of a test
/// keeps anything, and its clock stands still.
async fn found<S: asynq_tests::Store>(cli: &CliFixture<S>) -> Vec<String> {
    let answer = cli.run("doctor --json").await;
    let report = read(&answer);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(answer.code, u8::from(!findings.is_empty()), "{answer}");
    let text = |finding: &serde_json::Value, name: &str| finding[name].as_str().unwrap().to_owned();
    findings
        .iter()
        .filter(|finding| !["persistence", "clock"].contains(&finding["check"].as_str().unwrap()))
        .map(|finding| format!("{} {} {}", text(finding, "severity"), text(finding, "check"), text(finding, "subject")))
        .collect()
}

on_both_brokers! {
    async fn a_system_in_order_has_no_findings(cli) {
        serve(&cli).await;
        cli.t.seed_every_state().await;
        assert_eq!(found(&cli).await, [""; 0]);
    }

    async fn tasks_that_no_worker_takes_are_found_with_the_command_that_repairs_it(cli) {
        cli.t.seed_pending(&["t1", "t2"]).await;
        assert_eq!(found(&cli).await, ["error no-consumer default"]);
        let answer = cli.run("doctor").await;
        assert_eq!(answer.code, 1);
        for part in ["2 tasks wait and no server serves the queue", "means", "repair", "--queues=default"] {
            assert!(answer.out.contains(part), "{part}\n{answer}");
        }
    }

    async fn types_and_shapes_that_a_worker_requeues_are_found_at_once(cli) {
        serve(&cli).await;
        let worker = Server::builder("nothing://is-connected")
            .broker(cli.t.another_broker().await)
            .registry(Registry::only::<(resize,)>().unwrap())
            .build()
            .await
            .unwrap();
        let client = Client::new(cli.t.shared());
        for (r#type, payload, id) in [("email:send", &b"{}"[..], "t1"), ("resize", b"\x01\0\0\0\0\x05", "t2")] {
            client.enqueue(RawTask::new(r#type, payload).task_id(id)).await.unwrap();
        }
        let running = worker.start().await.unwrap();
        eventually("both tasks are requeued", async || {
            (cli.t.broker().queue_stats(&default_queue()).await.unwrap().retry == 2).then_some(())
        })
        .await;
        running.shutdown().await.unwrap();
        assert_eq!(found(&cli).await, ["error no-handler default", "error unknown-shape default"]);
        let answer = cli.run("doctor").await;
        assert!(answer.out.contains("1 wait for one that does, 0 are archived"), "{answer}");
        let task = cli.run("task inspect -q default t1").await;
        assert!(task.out.contains("handler not found for task \"email:send\""), "{task}");
    }

    async fn types_that_were_given_up_are_found_with_the_command_that_runs_them_again(cli) {
        serve(&cli).await;
        cli.t.enqueue(task("t1")).await;
        let run = cli.t.take_one().await;
        cli.t.settle(&run, archive("handler not found for task \"email:send\"")).await;
        assert_eq!(found(&cli).await, ["error no-handler default"]);
        let answer = cli.run("doctor").await;
        assert!(answer.out.contains("asynq task run-all --queue=default --state archived"), "{answer}");
    }

    async fn the_newest_failures_of_a_long_archive_are_looked_at(cli) {
        serve(&cli).await;
        for n in 0..501 {
            cli.t.enqueue(task(&format!("t{n}"))).await;
            let run = cli.t.take_one().await;
            if n == 500 {
                cli.t.advance(Duration::from_secs(1));
            }
            let error = if n == 500 { "handler not found for task \"email:send\"" } else { "boom" };
            cli.t.settle(&run, archive(error)).await;
        }
        serve(&cli).await;
        assert_eq!(found(&cli).await, ["error no-handler default"]);
        let answer = cli.run("doctor --limit 1 --json").await;
        assert!(answer.out.contains("\"no-handler\"") && answer.out.contains("\"complete\": false"), "{answer}");
        // The examination reads whole slices; this limit leaves only some of the errors unread.
        let answer = cli.run("doctor --limit 500 --json").await;
        assert!(answer.out.contains("\"complete\": false"), "{answer}");
    }

    async fn an_active_task_without_a_lease_is_found(cli) {
        if cli.t.lacks(Need::LostLease) {
            return;
        }
        serve(&cli).await;
        cli.t.seed_active("t1").await;
        cli.t.store.lose_lease(&default_queue(), &task_id("t1"));
        assert_eq!(found(&cli).await, ["error active-without-lease default"]);
    }

    async fn tasks_whose_message_is_damaged_are_told(cli) {
        serve(&cli).await;
        for id in ["sound", "damaged"] {
            cli.t.seed_retry(id, Duration::from_secs(3600)).await;
        }
        assert_eq!(found(&cli).await, [""; 0]);
        cli.t.store.overwrite_message(&default_queue(), &task_id("damaged"), b"\xff");
        assert_eq!(found(&cli).await, ["error unreadable default"]);
        let answer = cli.run("doctor").await;
        assert!(answer.out.contains("1 task in retry or in the archive cannot be read"), "{answer}");
    }

    async fn a_limit_that_ends_the_search_is_reported(cli) {
        serve(&cli).await;
        let ids: Vec<String> = (0..250).map(|n| format!("t{n}")).collect();
        cli.t.seed_pending(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        cli.t.advance(Duration::from_secs(1));
        serve(&cli).await;
        let answer = cli.run("doctor --limit 1 --json").await;
        assert!(answer.out.contains("\"complete\": false"), "{answer}");
        let answer = cli.run("doctor --limit 1").await;
        assert!(answer.out.ends_with("\nNot every task was looked at: --limit says how many are.\n"), "{answer}");
    }
}

/// On SQLite no task is without a place.
#[tokio::test]
async fn the_repairs_of_orphans_that_are_over_run_none_of_them_again() {
    let cli = CliFixture::<RedisStore>::start().await;
    serve(&cli).await;
    cli.t.seed_every_state().await;
    for state in ["completed", "archived"] {
        cli.t.store.go().unwrap().break_off(state, state);
    }
    assert_eq!(found(&cli).await, ["error orphan default"]);
    let answer = cli.run("doctor").await;
    for command in ["task delete --queue=default -- completed", "task archive --queue=default -- archived"] {
        assert!(answer.out.contains(&format!("asynq {command}")), "{answer}");
        let obeyed = cli.run(&format!("--yes {command}")).await;
        assert_eq!(obeyed.code, 0, "{obeyed}");
    }
    assert!(!answer.out.contains("asynq task run"), "{answer}");
    assert_eq!(found(&cli).await, [""; 0]);
    let stats = cli.t.broker().queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.pending, stats.completed, stats.archived), (1, 0, 1));
}

#[tokio::test]
async fn without_a_broker_the_exit_code_is_two() {
    let answer = crate::fixture::run(None, Default::default(), &["doctor", "--url", "redis://127.0.0.1:1"]).await;
    assert_eq!(answer.code, 2, "{answer}");
}

/// Runs `asynq WORDS` on this Redis.
async fn run_on(server: &asynq_tests::RedisServer, words: &[&str]) -> crate::fixture::Answer {
    let url = server.url();
    crate::fixture::run(None, Default::default(), &[words, &["--url", &url]].concat()).await
}

/// Starts a Redis with one task, which no server serves.
async fn with_a_waiting_task() -> asynq_tests::RedisServer {
    let server = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    let client = patient::client(&server.url()).await;
    client.enqueue(RawTask::new("email", &b"{}"[..])).await.unwrap();
    server
}

/// Go's `queue rm` looks neither at groups nor at completed tasks, and its clients never write the name of a deleted queue again.
#[tokio::test]
async fn a_queue_that_lost_its_name_is_found_and_its_repair_lists_and_removes_it() {
    let server = with_a_waiting_task().await;
    let mut redis = server.connection();
    redis::cmd("SREM").arg("asynq:queues").arg("default").exec(&mut redis).unwrap();
    let answer = run_on(&server, &["doctor"]).await;
    for part in [
        "error: unlisted-queue: default",
        "1 task in a queue that is missing from the list",
        "asynq queue resume -- default; then, where its tasks are not wanted: asynq queue rm --force -- default\n",
    ] {
        assert!(answer.out.contains(part), "{part}\n{answer}");
    }
    let (listing, stats) = (run_on(&server, &["queue", "ls"]).await, run_on(&server, &["stats"]).await);
    assert_eq!(listing.out, "");
    for text in [listing.err, stats.out] {
        assert!(text.contains("another tool removed their names: see `asynq doctor`"), "{text}");
    }
    let resumed = run_on(&server, &["queue", "resume", "default"]).await;
    assert_eq!((resumed.code, run_on(&server, &["queue", "ls"]).await.out), (0, "default\n".to_owned()), "{resumed}");
    let answer = run_on(&server, &["doctor"]).await;
    assert!(answer.out.contains("no-consumer") && !answer.out.contains("unlisted-queue"), "{answer}");
    let removed = run_on(&server, &["--yes", "queue", "rm", "--force", "default"]).await;
    assert_eq!(removed.code, 0, "{removed}");
    let left: Vec<String> = redis::cmd("KEYS").arg("asynq:{default}:t:*").query(&mut redis).unwrap();
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
async fn a_foreign_key_in_place_of_a_task_is_not_a_damaged_message() {
    let server = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    let client = patient::client(&server.url()).await;
    client.enqueue(RawTask::new("email", &b"{}"[..])).await.unwrap();
    let mut redis = server.connection();
    redis::cmd("SET").arg("asynq:{default}:t:foreign").arg("text").exec(&mut redis).unwrap();
    redis::cmd("ZADD").arg("asynq:{default}:retry").arg("4000000000").arg("foreign").exec(&mut redis).unwrap();
    let answer = run_on(&server, &["doctor"]).await;
    assert!(answer.out.contains("foreign-key") && !answer.out.contains("cannot be read"), "{answer}");
}

#[tokio::test]
async fn neither_the_names_of_all_queues_nor_all_keys_are_read_for_each_queue() {
    const QUEUES: u64 = 30;
    let server = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    let client = patient::client(&server.url()).await;
    for n in 0..QUEUES {
        client.enqueue(RawTask::new("email", &b"{}"[..]).queue(format!("q{n}"))).await.unwrap();
    }
    let mut redis = server.connection();
    let before = Calls::ask(&mut redis);
    let answer = run_on(&server, &["doctor"]).await;
    let asked = Calls::ask(&mut redis) - &before;
    assert!(answer.out.contains("30 queues") && asked.of("smembers") < QUEUES, "{asked:?}\n{answer}");
    assert_eq!(asked.of("scan"), 1, "one step looks at a thousand keys: {asked:?}\n{answer}");
}

#[tokio::test]
async fn a_redis_that_may_evict_is_a_finding_or_a_warning_and_takes_no_task() {
    let server = with_a_waiting_task().await;
    redis::cmd("CONFIG").arg(&["SET", "maxmemory-policy", "allkeys-lru"]).exec(&mut server.connection()).unwrap();
    let warning = "warning: this Redis may evict tasks when its memory is full (maxmemory-policy allkeys-lru)";
    for words in [&["stats"][..], &["stats", "--json"], &["queue", "ls", "-l"], &["queue", "pause", "default"]] {
        let answer = run_on(&server, words).await;
        assert_eq!((answer.code, answer.err.matches(warning).count()), (0, 1), "{answer}");
        assert!(!answer.out.contains(warning), "{answer}");
    }
    for words in [&["task", "enqueue", "-t", "mail", "-l", "{}"][..], &["cron", "run", "report"]] {
        let refused = run_on(&server, words).await;
        assert!(refused.code == 2 && refused.err.contains("error: this Redis may evict tasks"), "{refused}");
    }
    let answer = run_on(&server, &["doctor"]).await;
    assert_eq!(answer.code, 1, "{answer}");
    assert!(answer.out.contains("error: eviction:"), "{answer}");
}

#[tokio::test]
async fn a_redis_that_cannot_save_is_examined_and_every_reading_command_answers() {
    let server = with_a_waiting_task().await;
    let mut redis = server.connection();
    let (_, folder): (String, String) = redis::cmd("CONFIG").arg(&["GET", "dir"]).query(&mut redis).unwrap();
    // A snapshot is written beside this place and then renamed, which fails: Redis now refuses writes, and PING.
    std::fs::create_dir(std::path::Path::new(&folder).join("dump.rdb")).unwrap();
    redis::cmd("CONFIG")
        .arg(&["SET", "save", "3600 1", "stop-writes-on-bgsave-error", "yes"])
        .exec(&mut redis)
        .unwrap();
    redis::cmd("BGSAVE").exec(&mut redis).unwrap();
    let mut refuses = || redis::cmd("PING").exec(&mut redis).err().is_some_and(|error| error.code() == Some("MISCONF"));
    eventually("Redis refuses writes", async || refuses().then_some(())).await;

    let answer = run_on(&server, &["doctor"]).await;
    assert_eq!(answer.code, 1, "{answer}");
    for part in ["error: persistence:", "the last snapshot failed", "Redis takes no writes:", "servers not known"] {
        assert!(answer.out.contains(part), "{part}\n{answer}");
    }
    for part in ["unreadable", "no-consumer"] {
        assert!(!answer.out.contains(part), "{answer}");
    }
    for (words, code) in [(&["cron", "ls"][..], 0), (&["stats"], 0), (&["cron", "history", "none"], 1)] {
        let answer = run_on(&server, words).await;
        assert!(answer.code == code && !answer.err.contains("MISCONF"), "{answer}");
    }
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_is_named_and_no_server_is_said_to_be_missing() {
    let server = with_a_waiting_task().await;
    let mut redis = server.connection();
    let answer = run_on(&server, &["doctor"]).await;
    assert!(answer.out.contains("error: no-consumer: default") && !answer.out.contains("no-writes"), "{answer}");
    let command = format!("redis-cli -h 127.0.0.1 -p {} CONFIG SET appendonly yes", server.port());
    assert!(answer.out.contains(&command), "{command}\n{answer}");
    let states = [
        (
            &["CONFIG", "SET", "min-replicas-to-write", "1"][..],
            &["CONFIG", "SET", "min-replicas-to-write", "0"][..],
            "no-writes",
        ),
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"], "replica"),
    ];
    for (begin, end, check) in states {
        redis::cmd(begin[0]).arg(&begin[1..]).exec(&mut redis).unwrap();
        let (doctor, stats, servers) = (
            run_on(&server, &["doctor"]).await,
            run_on(&server, &["stats"]).await,
            run_on(&server, &["server", "ls"]).await,
        );
        redis::cmd(end[0]).arg(&end[1..]).exec(&mut redis).unwrap();
        assert_eq!(doctor.code, 1, "{doctor}");
        assert!(doctor.out.contains(&format!("error: {check}: redis://")), "{doctor}");
        assert!(!doctor.out.contains("no-consumer") && doctor.out.contains("servers not known"), "{doctor}");
        for answer in [stats, servers] {
            assert!(answer.out.contains("no server is listed, but the broker takes no writes"), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_file_whose_lock_another_program_holds_is_named_and_no_server_is_said_to_be_missing() {
    let cli = CliFixture::<SqliteStore>::start().await;
    serve(&cli).await;
    cli.t.seed_pending(&["t1"]).await;
    let holder = cli.t.store.connection();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    cli.t.advance(Duration::from_secs(11));
    let findings = found(&cli).await;
    assert!(findings.len() == 1 && findings[0].starts_with("error no-writes "), "{findings:?}");
    for command in ["server ls", "stats"] {
        let answer = cli.run(command).await;
        assert!(answer.out.contains("no server is listed, but the broker takes no writes"), "{answer}");
    }
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(found(&cli).await, ["error no-consumer default"], "the server is late by itself");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_info_is_a_finding() {
    let server = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    redis::cmd("ACL").arg(&["SETUSER", "default", "-info"]).exec(&mut server.connection()).unwrap();
    let answer = run_on(&server, &["doctor"]).await;
    assert_eq!(answer.code, 1, "{answer}");
    assert!(answer.out.contains("error: unreadable: redis://") && answer.out.contains("+info"), "{answer}");
    assert!(!answer.out.contains("Nothing is wrong"), "{answer}");
}

#[tokio::test]
async fn what_redis_refuses_to_tell_is_a_finding_beside_the_others() {
    let server = with_a_waiting_task().await;
    let mut redis = server.connection();
    for (right, subjects) in [("zrangebyscore", &["servers", "periodic entries"][..]), ("smembers", &["queues"])] {
        redis::cmd("ACL").arg(&["SETUSER", "default", &format!("-{right}")]).exec(&mut redis).unwrap();
        let answer = run_on(&server, &["doctor"]).await;
        redis::cmd("ACL").arg(&["SETUSER", "default", &format!("+{right}")]).exec(&mut redis).unwrap();
        assert_eq!(answer.code, 1, "{answer}");
        for subject in subjects {
            assert!(answer.out.contains(&format!("error: unreadable: {subject}\n")), "{subject}\n{answer}");
        }
        assert!(answer.out.contains("there is no append-only file"), "{answer}");
        assert!(!answer.out.contains("no-consumer"), "nobody knows who serves: {answer}");
    }
}

/// Writes a beat as Go's `WriteServerState` does that waited for so many seconds: Go takes the time before it sends the beat.
fn beat_of_go(redis: &mut redis::Connection, waited: u64) {
    let key = "asynq:servers:{go:7:id}";
    let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - waited;
    redis::cmd("ZADD").arg("asynq:servers").arg(sent + 10).arg(key).exec(redis).unwrap();
    // This text is a `ServerInfo` with the host alone.
    redis::cmd("SETEX").arg(key).arg(10).arg("\n\u{2}go").exec(redis).unwrap();
}

#[tokio::test]
async fn a_beat_of_go_that_waited_for_redis_is_not_taken_for_a_wrong_clock() {
    let server = asynq_tests::RedisServer::start(asynq_tests::Persistence::None);
    let mut redis = server.connection();
    beat_of_go(&mut redis, 3);
    let beats = async {
        eventually("doctor has read a beat that waited", async || {
            beat_of_go(&mut redis, 3);
            (Calls::ask(&mut redis).of("pttl") > 0).then_some(())
        })
        .await;
        eventually("a beat that did not wait", async || {
            let began = Instant::now();
            beat_of_go(&mut redis, 0);
            (began.elapsed() < Duration::from_millis(500)).then_some(())
        })
        .await;
    };
    let (answer, ()) = tokio::join!(run_on(&server, &["doctor"]), beats);
    assert!(!answer.out.contains("the clock of its host"), "{answer}");
}

//! Large numbers and sizes: 1,200 queues, payloads of 1 MiB, many periodic entries over a slow network.

use asynq_runtime::{Client, job, prelude::JobResult};
use asynq_tests::{Build as _, Calls, Persistence, RedisServer, patient, task};

use crate::fixture::{Setting, on_both_brokers, run};

#[job]
async fn letter(text: String) -> JobResult {
    let _ = text;
    Ok(())
}

on_both_brokers! {
    async fn more_queues_than_a_table_has_rows(cli) {
        let tasks: Vec<_> = (0..1_200).map(|n| task("one").in_queue(&format!("q{n:04}"))).collect();
        for answer in cli.t.broker().enqueue(tasks).await {
            answer.unwrap();
        }
        let names = cli.run("queue ls").await;
        assert_eq!((names.out.lines().count(), names.out.lines().last()), (1_200, Some("q1199")));
        let stats = cli.run("stats").await;
        assert!(stats.out.contains("\nand 200 more queues\n"), "{stats}");
        let stats = cli.json("stats").await;
        assert_eq!((&stats["queues_left_out"], &stats["totals"]["waiting"]), (&200.into(), &1_200.into()));
        assert_eq!(cli.json("queue ls").await.as_array().map(Vec::len), Some(1_200));
    }

    async fn a_payload_of_a_mebibyte_is_cut_for_people_and_whole_for_programs(cli) {
        let mut large = task("large");
        let text = format!("\"{}\"", "é".repeat(524_287));
        assert_eq!(text.len(), 1024 * 1024);
        large.message.payload = text.clone().into();
        cli.t.enqueue(large).await;
        let mut binary = task("binary");
        binary.message.payload = vec![0xFF; 1024 * 1024].into();
        cli.t.enqueue(binary).await;

        let table = cli.run("task ls -q default -s pending").await;
        assert!(table.out.len() < 1_000, "{} bytes", table.out.len());
        assert!(table.out.contains("\"ééé") && table.out.contains("non-printable bytes"), "{table}");
        let output = cli.run("task inspect -q default large").await;
        assert!(output.out.len() < 6_000 && output.out.contains("… and 1044481 more bytes (--max-payload)"), "{output}");
        let binary = cli.run("task inspect -q default binary").await;
        assert!(binary.out.contains("non-printable bytes (1048576 bytes; --json --raw shows them as base64)"), "{binary}");

        let whole = cli.json("task inspect -q default large").await;
        assert_eq!(whole["payload"]["data"].as_str().map(|data| data.len() + 2), Some(text.len()));
        let page = cli.json("task ls -q default -s pending").await;
        assert_eq!((&page[0]["payload"]["cut"], &page[0]["payload"]["bytes"]), (&true.into(), &1_048_576.into()));
        assert_eq!(page[1]["payload"]["data"].as_str().map(str::len), Some(16_384_usize.div_ceil(3) * 4));
    }

    async fn long_arguments_of_the_default_codec_are_not_said_to_be_bytes(cli) {
        letter::job("x".repeat(5_000)).task_id("long").enqueue(&Client::new(cli.t.shared())).await.unwrap();
        let table = cli.run("task ls -q default -s pending").await;
        assert!(table.out.contains("long arguments: `asynq task inspect`"), "{table}");
        assert!(!table.out.contains("non-printable"), "{table}");
    }

    async fn a_payload_over_the_limit_is_refused_before_it_is_sent(cli) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large");
        std::fs::write(&file, vec![b'x'; 1024 * 1024 + 1]).unwrap();
        let file = file.to_str().unwrap();
        let words = ["task", "enqueue", "-t", "mail", "--id", "x", "--payload-file", file];
        let refused = cli.run_words(&words).await;
        assert_eq!(refused.code, 2, "{refused}");
        assert!(refused.err.contains("more than 1048576 bytes; raise --payload-limit"), "{refused}");
        assert_eq!(cli.run_words(&[&words[..], &["--payload-limit", "2000000"]].concat()).await.code, 0);
    }
}

#[tokio::test]
async fn a_cancellation_does_not_ask_one_queue_after_the_other() {
    let server = RedisServer::start(Persistence::None);
    let client = patient::client(&server.url()).await;
    let tasks = (0..300).map(|n| task("one").in_queue(&format!("q{n}"))).collect();
    for answer in client.broker().enqueue(tasks).await {
        answer.unwrap();
    }
    let mut redis = server.connection();
    let before = Calls::ask(&mut redis);
    let answer = run(Some(client), Setting::default(), &["task", "cancel", "other"]).await;
    let calls = Calls::ask(&mut redis) - &before;
    assert!(answer.code == 1 && answer.err.contains("there is no task `other` in any queue"), "{answer}");
    let slow = ["evalsha", "eval", "hmget", "hget"].map(|name| calls.of(name));
    assert!(slow.iter().sum::<u64>() < 30, "{calls:?}");
}

mod timing {
    use std::time::{Duration, Instant};

    use asynq_runtime::{job::JobsLock, task::SchedulerEntry};
    use asynq_tests::{NetworkOptions, SlowNetwork};

    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_periodic_entries_do_not_take_a_round_trip_each() {
        let server = RedisServer::start(Persistence::None);
        let options = NetworkOptions { bits_per_second: 100_000_000, round_trip: ROUND_TRIP };
        let network = SlowNetwork::to(server.port(), options).await;
        let entries: Vec<_> =
            (0..64).map(|n| SchedulerEntry { id: format!("e{n}"), ..SchedulerEntry::default() }).collect();
        let near = Client::connect(&server.url()).await.unwrap();
        near.broker().show_entries("host:1:s", &entries, Duration::from_secs(3_600)).await.unwrap();
        let far = Client::connect(&network.url()).await.unwrap();
        let began = Instant::now();
        let answer = run(Some(far), Setting::default(), &["cron", "ls"]).await;
        assert_eq!(answer.code, 0, "{answer}");
        assert!(began.elapsed() < ROUND_TRIP * 32, "{:?}", began.elapsed());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn doctor_and_a_check_before_a_deploy_do_not_take_round_trips_for_each_queue() {
        const QUEUES: u32 = 96;
        let server = RedisServer::start(Persistence::None);
        let options = NetworkOptions { bits_per_second: 100_000_000, round_trip: ROUND_TRIP };
        let network = SlowNetwork::to(server.port(), options).await;
        let near = Client::connect(&server.url()).await.unwrap();
        let tasks = (0..QUEUES).map(|n| task("one").in_queue(&format!("q{n}"))).collect();
        near.broker().enqueue(tasks).await.into_iter().for_each(|answer| drop(answer.unwrap()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, JobsLock::default().to_string()).unwrap();
        for (words, told) in
            [(&["doctor"][..], "no-consumer: q95"), (&["deploy", "check", file.path().to_str().unwrap()], "q95")]
        {
            let far = Client::connect(&network.url()).await.unwrap();
            let began = Instant::now();
            let answer = run(Some(far), Setting::default(), words).await;
            assert!(answer.out.contains(told), "{answer}");
            // One after the other, each takes more than a single round trip.
            assert!(began.elapsed() < ROUND_TRIP * QUEUES, "{words:?}: {:?}", began.elapsed());
        }
    }
}

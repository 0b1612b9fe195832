//! Bad input, in numbers: crowds, depths, and every field with the wrong type.

use std::time::Duration;

use asynq_runtime::{
    broker::{GroupRules, Settled, Wanted},
    task::{Header, TaskMessage},
};
use asynq_tests::{Build as _, Store as _, archive, default_queue, done, members, queue, task, task_id};

use super::Fixture;

/// Replaces the message of `bad` by `bytes`, and asserts that `bad` is archived with them while its neighbours run.
async fn is_archived(bytes: &[u8]) {
    let t = Fixture::start().await;
    t.seed_pending(&["good1", "bad", "good2"]).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), bytes);
    // The bytes of one answer are limited: a large task may come with the next one.
    let mut runs = t.take(10).await;
    runs.extend(t.take(10).await);
    assert!(runs[0].message.is_ok() && runs[2].message.is_ok(), "the neighbours are unharmed");
    let reason = runs[1].message.clone().expect_err("these bytes are not a message").reason;
    assert!(!reason.is_empty() && reason.len() < 300, "{reason}");
    assert_eq!(t.settle(&runs[1], archive(&reason)).await, Settled::Ok);
    assert_eq!(t.snapshot().await.archived[0].payload, bytes, "nothing is lost");
}

fn message(id: &str) -> Vec<u8> {
    TaskMessage { id: id.into(), ..task(id).message }.encode()
}

#[tokio::test]
async fn each_field_with_a_wrong_wire_type_is_archived_with_a_reason() {
    for field in 1..=15_u8 {
        // Texts, bytes and headers have wire type 2, numbers have type 0; these eight bytes have type 1.
        let mut raw = message("bad");
        raw.push(field << 3 | 1);
        raw.extend_from_slice(&[7; 8]);
        is_archived(&raw).await;
    }
}

#[tokio::test]
async fn the_last_of_two_ids_counts_and_another_one_is_archived_with_a_reason() {
    let mut raw = message("bad");
    raw.extend_from_slice(b"\x1a\x05other");
    is_archived(&raw).await;
}

#[tokio::test]
async fn groups_of_the_future_nested_a_million_deep_are_archived_with_a_reason() {
    let mut raw = message("bad");
    raw.extend(std::iter::repeat_n([0xfb, 0x3f], 1_000_000).flatten()); // field 1023, wire type 3: begin of a group
    is_archived(&raw).await;
}

#[tokio::test]
async fn ten_thousand_headers_and_headers_of_any_characters_arrive() {
    let t = Fixture::start().await;
    let mut new = task("t1").with_header("", "no name").with_header("a\r\nb: c", "\r\n\u{1b}[31m");
    new.message.headers.extend((0..10_000).map(|n| Header::new(format!("k{n}"), "v")));
    t.enqueue(new.clone()).await;
    let run = t.take_one().await;
    assert_eq!(run.message.unwrap().headers, new.message.headers);
}

#[tokio::test]
async fn types_of_any_characters_are_kept() {
    let t = Fixture::start().await;
    for (n, name) in ["a\0b", "\u{202e}txt.exe", "e\u{301}", "\u{1f468}\u{200d}\u{1f469}"].into_iter().enumerate() {
        let mut new = task(&format!("t{n}"));
        new.message.r#type = name.into();
        let run = t.start_run(new).await;
        assert_eq!(run.message.as_ref().unwrap().r#type, name);
        assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    }
}

/// The largest calls end within the call timeout of a program, which is longer by far than they take.
mod timing {
    use super::*;

    #[tokio::test]
    async fn ten_thousand_queues_are_listed_counted_and_served() {
        const QUEUES: usize = 10_000;
        let t = Fixture::with_default_timeout().await;
        let names: Vec<_> = (0..QUEUES).map(|n| queue(&format!("q{n:05}"))).collect();
        for some in names.chunks(1_000) {
            let tasks = some.iter().map(|name| task("t1").in_queue(name.as_str())).collect();
            assert!(t.broker().enqueue(tasks).await.iter().all(Result::is_ok));
        }
        assert_eq!(t.broker().queues().await.unwrap(), names);
        let last = &names[QUEUES - 1];
        assert_eq!(t.broker().queue_stats(last).await.unwrap().pending, 1);
        let wanted = [Wanted { queue: last.clone(), n: 1 }];
        assert_eq!(t.broker().dequeue(t.member(), &wanted).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_group_of_very_many_goes_away_set_by_set() {
        // More than Lua can return in one call.
        const TASKS: usize = 9_000;
        let t = Fixture::with_default_timeout().await;
        for first in (0..TASKS).step_by(1_000) {
            let tasks = (first..first + 1_000).map(|n| task(&format!("t{n:05}")).grouped("g")).collect();
            assert!(t.broker().enqueue(tasks).await.iter().all(Result::is_ok));
        }
        t.advance(Duration::from_secs(60));
        let mut taken = 0;
        // Without a largest size, as asynq's `GroupMaxSize(0)`.
        while let Some(set) = t.try_claim("g", &GroupRules::default()).await {
            taken += members(&set).len();
            assert!(taken <= TASKS, "{taken} of {TASKS} came out");
            t.finish(&set, &asynq_tests::becomes(Vec::new())).await.unwrap();
        }
        assert_eq!(taken, TASKS);
        assert_eq!(t.group_sizes().await, []);
        assert_eq!(t.broker().queue_stats(&default_queue()).await.unwrap().aggregating, 0);
    }
}

/// One answer has some 4 MiB, and one task at least.
#[tokio::test]
async fn large_tasks_come_a_few_at_a_time_and_in_their_order() {
    let t = Fixture::start().await;
    let megabytes = [5_usize, 1, 1, 1, 1, 1, 1, 1, 1, 5];
    let ids: Vec<String> = (0..megabytes.len()).map(|n| format!("t{n}")).collect();
    for (id, megabytes) in ids.iter().zip(megabytes) {
        t.enqueue(task(id).with_payload(vec![7; megabytes << 20])).await;
    }
    let mut taken = Vec::new();
    while taken.len() < ids.len() {
        let runs = t.take(ids.len()).await;
        let bytes: usize = runs.iter().map(|run| run.message.as_ref().unwrap().payload.len()).sum();
        assert!(!runs.is_empty() && bytes < 10 << 20, "{} tasks of {bytes} bytes", runs.len());
        taken.extend(runs.iter().map(|run| run.key.id.to_string()));
    }
    assert_eq!(taken, ids);
}

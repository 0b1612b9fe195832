//! Bad input: each kind gets a typed answer or is archived with a reason, and no other task stops.

use std::time::Duration;

use asynq_runtime::{
    broker::{BrokerErrorKind, Quarantined, Refused, Run, Settled},
    task::{TaskMessage, TaskState, UndecodableMessage},
};
use asynq_tests::{
    Build as _, Need, Seeded as _, Store as _, archive, default_queue, done, lock_key, queue, retry, soon, task,
    task_id,
};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

/// Replaces the message of `bad` by `bytes`, between two good neighbours, and takes all three.
async fn planted(bytes: &[u8]) -> (Fixture, Vec<Run>) {
    let t = Fixture::start().await;
    t.seed_pending(&["good1", "bad", "good2"]).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), bytes);
    let runs = t.take(10).await;
    let ids: Vec<_> = runs.iter().map(|run| run.key.id.as_str()).collect();
    assert_eq!(ids, ["good1", "bad", "good2"], "the neighbours are unharmed");
    assert!(runs[0].message.is_ok() && runs[2].message.is_ok());
    (t, runs)
}

/// Asserts that `bytes` are returned unchanged with a reason, and can be archived with both.
async fn is_archived_with_its_bytes(bytes: &[u8]) {
    let (t, runs) = planted(bytes).await;
    let UndecodableMessage { raw, reason } = runs[1].message.clone().unwrap_err();
    assert_eq!(raw, bytes);
    assert!(!reason.is_empty());

    assert_eq!(t.settle(&runs[1], archive(&format!("undecodable: {reason}"))).await, Settled::Ok);
    for good in [&runs[0], &runs[2]] {
        assert_eq!(t.settle(good, done()).await, Settled::Ok);
    }

    let seen = t.snapshot().await;
    assert_eq!((seen.ids(TaskState::Archived), seen.len()), (vec!["bad"], 1));
    assert_eq!(seen.archived[0].payload, bytes, "nothing is lost");
    assert_eq!(seen.archived[0].error, Some(format!("undecodable: {reason}")));
}

fn message(id: &str, queue: &str) -> Vec<u8> {
    let mut message = task(id).message;
    message.queue = queue.into();
    message.encode()
}

#[tokio::test]
async fn bytes_that_are_not_a_message_are_archived_with_a_reason() {
    is_archived_with_its_bytes(b"\xff\xfe not a message \x00").await;
}

#[tokio::test]
async fn a_truncated_message_is_archived_with_a_reason() {
    let whole = message("bad", "default");
    is_archived_with_its_bytes(&whole[..whole.len() - 1]).await;
}

#[tokio::test]
async fn a_length_beyond_the_end_is_archived_with_a_reason() {
    is_archived_with_its_bytes(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f").await;
}

#[tokio::test]
async fn a_type_that_is_not_utf_8_is_archived_with_a_reason() {
    is_archived_with_its_bytes(b"\x0a\x02\xc3\x28\x1a\x03bad\x22\x07default").await;
}

#[tokio::test]
async fn an_error_text_that_is_not_utf_8_is_archived_with_a_reason() {
    let mut raw = message("bad", "default");
    raw.extend_from_slice(b"\x3a\x02\xc3\x28"); // field 7: error_msg
    is_archived_with_its_bytes(&raw).await;
}

#[tokio::test]
async fn an_empty_message_is_archived_with_a_reason() {
    is_archived_with_its_bytes(b"").await;
}

#[tokio::test]
async fn a_message_with_another_id_is_archived_with_a_reason() {
    is_archived_with_its_bytes(&message("other", "default")).await;
}

#[tokio::test]
async fn a_message_of_another_queue_is_archived_with_a_reason() {
    is_archived_with_its_bytes(&message("bad", "other")).await;
}

#[tokio::test]
async fn a_message_with_fields_of_the_future_is_read() {
    let mut raw = message("bad", "default");
    raw.extend_from_slice(b"\xfa\x3f\x03new"); // field 1023
    let (_t, runs) = planted(&raw).await;
    assert_eq!(runs[1].text(), &task("bad").message);
}

#[tokio::test]
async fn bytes_that_cannot_be_read_do_not_stop_recovery() {
    let (t, _runs) = planted(b"\xff\xff").await;
    t.let_leases_pass();
    let mut back = t.recover().await;
    back.sort();
    assert_eq!(back, ["bad", "good1", "good2"]);
}

#[tokio::test]
async fn bytes_that_cannot_be_read_can_be_deferred() {
    let (t, runs) = planted(b"\xff\xff").await;
    assert_eq!(t.settle(&runs[1], asynq_tests::requeue()).await, Settled::Ok);
    assert!(t.take_one().await.message.is_err(), "they are as they were");
}

#[tokio::test]
async fn bytes_that_cannot_be_read_do_not_stop_the_forwarder() {
    let t = Fixture::start().await;
    for id in ["good1", "bad", "good2"] {
        t.seed_scheduled(id, SECOND).await;
    }
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff");
    t.advance(2 * SECOND);
    assert_eq!(t.forward().await, 3);
    assert_eq!(t.take(10).await.iter().filter(|run| run.message.is_ok()).count(), 2);
}

#[tokio::test]
async fn bytes_that_cannot_be_read_show_as_no_task() {
    let (t, _runs) = planted(b"\xff\xff").await;
    let seen = t.snapshot().await;
    assert_eq!(seen.ids(TaskState::Active), ["good1", "good2"]);
    assert_eq!(seen.stats.active, 3);
}

#[tokio::test]
async fn a_large_payload_of_any_bytes_arrives_whole() {
    let t = Fixture::start().await;
    let payload: Bytes = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    t.enqueue(task("t1").with_payload(payload.clone())).await;
    assert_eq!(t.take_one().await.text().payload, payload);
}

#[tokio::test]
async fn names_that_look_like_keys_do_not_collide() {
    let t = Fixture::start().await;
    let mut names =
        vec!["a", "a:t", "pending", "t:", "x:due", "x:orphans", "{", "a}b", "g:a", "unique:x", "ünïcode \u{1f4e8}"];
    if !t.lacks(Need::NameWithoutTag) {
        names.push("}");
    }
    for name in &names {
        for id in ["1", "pending", "t:1", "x"] {
            t.enqueue(task(id).in_queue(name)).await;
        }
    }
    assert_eq!(t.broker().queues().await.unwrap().len(), names.len());
    for name in names {
        let wanted = [asynq_runtime::broker::Wanted { queue: queue(name), n: 9 }];
        let runs = t.broker().dequeue(t.member(), &wanted).await.unwrap();
        let ids: Vec<_> = runs.iter().map(|run| run.key.id.as_str()).collect();
        assert_eq!(ids, ["1", "pending", "t:1", "x"], "in {name:?}");
        assert!(runs.iter().all(|run| run.key.queue == name && run.message.is_ok()));
    }
}

#[tokio::test]
async fn ids_of_any_characters_live_a_whole_life() {
    let t = Fixture::start().await;
    for id in [
        "*",
        "[a-z]?",
        "\\",
        "a b",
        "';DROP TABLE task;--",
        "%s%n",
        "\u{202e}\u{1f468}\u{200d}\u{1f469}",
        &"x".repeat(512),
    ] {
        let run = t.seed_active(id).await;
        t.settle(&run, retry(Duration::ZERO, id)).await;
        t.advance(SECOND);
        assert_eq!(t.forward().await, 1, "{id:?}");
        let run = t.take_one().await;
        assert_eq!(run.key.id, id);
        assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    }
    assert!(t.snapshot().await.is_empty());
}

#[tokio::test]
async fn a_lock_key_of_any_characters_is_a_lock() {
    let t = Fixture::start().await;
    for (i, key) in ["*", "a b", "'", "ü\u{0}", &"k".repeat(2000)].into_iter().enumerate() {
        let run = t.start_run(task(&format!("t{i}")).locked(&lock_key(key), 60)).await;
        assert_eq!(t.holder_of(&lock_key(key)).await.unwrap(), run.key.id);
        t.settle(&run, done()).await;
        assert_eq!(t.holder_of(&lock_key(key)).await, None);
    }
}

#[tokio::test]
async fn a_lock_of_less_than_a_second_holds_for_a_second() {
    let t = Fixture::start().await;
    let mut new = task("t1").locked(&lock_key("k"), 1);
    new.unique.as_mut().unwrap().ttl = Duration::from_millis(1);
    match t.try_enqueue(new).await {
        Ok(_) => assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1"),
        Err(Refused::Broker(error)) => assert_eq!(error.kind(), BrokerErrorKind::Config),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn times_beyond_all_calendars_are_kept_within_them() {
    let t = Fixture::start().await;
    for (id, delay) in [("a", Duration::MAX), ("b", Duration::from_secs(u64::MAX)), ("c", Duration::from_secs(1 << 40))]
    {
        let placed = t.enqueue(task(id).after(delay)).await;
        assert_eq!(placed.state, TaskState::Scheduled, "{id}");
        assert!(placed.process_at > t.now() + TimeDelta::days(365 * 100), "{placed:?}");
    }
    t.enqueue(task("d").at(DateTime::<Utc>::MAX_UTC)).await;
    t.enqueue(task("e").at(DateTime::<Utc>::MIN_UTC)).await;
    let run = t.take_one().await;
    assert_eq!(run.key.id, "e");
    assert_eq!(t.settle(&run, retry(Duration::MAX, "never again")).await, Settled::Ok);
    assert_eq!(t.forward().await, 0);
    let seen = t.snapshot().await;
    assert_eq!((seen.scheduled.len(), seen.retry.len()), (4, 1));
}

#[tokio::test]
async fn a_lock_for_ever_is_a_lock() {
    let t = Fixture::start().await;
    let mut new = task("t1").locked(&lock_key("k"), 1);
    new.unique.as_mut().unwrap().ttl = Duration::MAX;
    t.enqueue(new).await;
    assert_eq!(t.holder_of(&lock_key("k")).await.unwrap(), "t1");
}

#[tokio::test]
async fn numbers_at_their_ends_survive_a_life() {
    let t = Fixture::start().await;
    let mut new = task("t1");
    new.message = TaskMessage {
        retry: -1,
        retried: i32::MAX,
        timeout: i64::MIN,
        deadline: i64::MAX,
        retention: i64::MAX,
        last_failed_at: i64::MIN,
        ..new.message
    };
    let run = t.start_run(new).await;
    t.snapshot().await;
    assert_eq!(t.settle(&run, retry(Duration::ZERO, "boom")).await, Settled::Ok);
    t.advance(SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert_eq!(run.text().retried, i32::MAX, "it does not wrap");
    assert_eq!(t.settle(&run, asynq_tests::complete("42")).await, Settled::Ok);
    t.broker().delete_expired(&default_queue(), 10).await.unwrap();
    assert_eq!(t.snapshot().await.stats.completed, 1, "kept for ever");
}

#[tokio::test]
async fn an_error_text_of_a_megabyte_does_not_stop_the_archive() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(t.settle(&run, archive(&"ü".repeat(1 << 19))).await, Settled::Ok);
    assert!(t.snapshot().await.archived[0].error.as_ref().unwrap().starts_with("üü"));
}

#[tokio::test]
async fn a_closed_broker_returns_an_error() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.broker().close().await;
    t.broker().close().await;
    assert_eq!(t.broker().ping().await.unwrap_err().kind(), BrokerErrorKind::Closed);
    let refused = t.try_enqueue(task("t2")).await.unwrap_err();
    assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Closed), "{refused:?}");
    let answer = t.broker().settle(&[run.ends_with(done())]).await.remove(0);
    assert_eq!(answer.unwrap_err().kind(), BrokerErrorKind::Closed);
    let waited = soon(t.broker().wait_for_work(&[default_queue()], Quarantined::All, Duration::from_secs(3600))).await;
    assert_eq!(waited.unwrap_err().kind(), BrokerErrorKind::Closed);
}

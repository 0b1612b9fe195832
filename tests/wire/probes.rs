//! Answers to data that asynq did not write: ours beside those of Go in `probes.json`.

use std::{collections::BTreeSet, time::Duration};

use asynq_runtime::{
    broker::{Action, BulkAction, GroupRules, Page, QueueDeleted, Run, SetOutcome, Settled},
    task::{Extra, TaskState},
};
use asynq_tests::{Build as _, RedisFixture, Store as _, archive, complete, default_queue, done, group, task, task_id};
use serde_json::{Value as Json, json};

/// The golden file of this module.
pub(crate) const FILES: [&str; 1] = ["probes"];

/// The probe, its action, our answer where it differs from Go's, and why ours is better.
const DEVIATIONS: &[(&str, &str, &str, &str)] = &[
    (
        "unknown_state",
        "hash state='waiting' but id in pending",
        r#"{"delete":"ok","dequeue":"ok","get":"none","run":"ok"}"#,
        "a repair looks for a task whose state says nothing in every place",
    ),
    (
        "counter_not_integer",
        "asynq:{default}:processed='abc', then GetQueueInfo",
        r#""ok total=0""#,
        "a counter that is no number does not hide the rest",
    ),
    (
        "archive_unpack_8500",
        "Archive when that many entries are older than 90 days",
        r#"{"archived_card":1,"err":"ok","hash_state":"archived","in_active":0,"in_lease":0}"#,
        "what is too old is deleted in slices, and never in the script of an outcome",
    ),
    ("list_pending_page", "Page(0) size 2", r#""ok[p0 p1]""#, "there is no page before the first"),
    ("list_pending_size0", "PageSize(0)", r#""ok0""#, "a page for no tasks has none"),
    (
        "done_missing_lease",
        "Done when the lease entry is gone: partial effect",
        r#"{"active_len":0,"err":"ok","hash_exists":0,"state":""}"#,
        "the fence asks for the run's token, not for its lease",
    ),
    (
        "complete_existing_member",
        "MarkAsComplete when the id is already in completed",
        r#""ok""#,
        "an id that lies there by mistake does not stop an outcome",
    ),
    (
        "undecodable_message_blocks_recovery",
        "one undecodable msg among expired leases; ListLeaseExpired over two queues",
        r#"{"err":"ok","inspector_list_active":"ok","returned":2}"#,
        "a message that nobody can read stops neither recovery nor a listing",
    ),
];

/// Probes that are tested in another place or do not apply here, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("scheduler_option_string", "Periodic: scheduler"),
    ("scheduler_entry_missing_timestamps", "Periodic: scheduler"),
    ("scheduler_fractional_ttl", "Periodic: scheduler"),
    ("scheduler_no_entries", "Periodic: scheduler"),
    ("invalid_utf8_error", "an error text of Rust is UTF-8"),
    ("syncer_retry", "tests/runtime/server/faults.rs: an outcome is kept until the broker has it"),
    ("dequeue_error_busy_loop", "tests/runtime/server/faults.rs: fetching backs off"),
    ("lost_reply_enqueue", "tests/runtime/redis/lost.rs: a repeat knows its first send"),
    ("lost_reply_enqueue_unique", "tests/runtime/redis/lost.rs: a repeat knows its first send"),
    ("lost_reply_dequeue", "tests/runtime/redis/lost.rs: the lost run comes first"),
    ("lost_reply_done", "tests/runtime/redis/lost.rs: a repeat knows its first send"),
];

fn probes() -> Vec<Json> {
    crate::wire::golden::file("probes")["probes"].as_array().unwrap().clone()
}

/// Compares our answer with Go's.
#[track_caller]
fn check(probe: &str, variant: &str, ours: &Json) {
    let all = probes();
    let go = all.iter().find(|found| found["probe"] == probe && found["what"] == variant).expect("a probe of the file");
    let known = DEVIATIONS.iter().find(|row| (row.0, row.1) == (probe, variant));
    match known {
        Some((_, _, answer, why)) => {
            assert_eq!(*ours, serde_json::from_str::<Json>(answer).unwrap(), "{why}");
            assert_ne!(*ours, go["observed"], "{probe} no longer differs");
        }
        None => assert_eq!(*ours, go["observed"], "{probe} ({variant}): Go's answer is on the right"),
    }
}

/// Probes with a test below, by name.
const TESTED: &[&str] = &[
    "fractional_score_scheduled",
    "fractional_score_retry",
    "fractional_score_archived",
    "fractional_score_completed",
    "fractional_score_forward",
    "fractional_score_group",
    "fractional_score_lease",
    "fractional_score_servers",
    "extra_hash_fields",
    "unknown_proto_field",
    "extra_keys",
    "unknown_state",
    "pending_since_missing",
    "pending_since_seconds",
    "pending_since_fractional",
    "counter_not_integer",
    "counter_fractional",
    "archive_unpack_7000",
    "archive_unpack_8500",
    "list_pending_page",
    "list_pending_size0",
    "queue_name_cache",
    "done_missing_lease",
    "complete_existing_member",
    "undecodable_message_blocks_recovery",
];

#[test]
fn every_probe_has_its_test_or_its_place() {
    let there: BTreeSet<String> = probes().iter().map(|probe| probe["probe"].as_str().unwrap().to_owned()).collect();
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    let known: BTreeSet<String> = TESTED.iter().copied().chain(elsewhere).map(str::to_owned).collect();
    assert_eq!(there, known);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, place) in ELSEWHERE {
        if let Some(file) = place.split(':').next().filter(|file| file.ends_with(".rs")) {
            assert!(root.join(file).is_file(), "{name} is not in {file}");
        }
    }
}

fn key(name: &str) -> String {
    format!("asynq:{{default}}:{name}")
}

fn redis(t: &RedisFixture, words: &[&str]) {
    t.store.command::<::redis::Value>(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
}

fn hash_field(t: &RedisFixture, id: &str, field: &str) -> String {
    let found: Option<Vec<u8>> = t.store.command(&[b"HGET", key(&format!("t:{id}")).as_bytes(), field.as_bytes()]);
    found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn number(t: &RedisFixture, words: &[&str]) -> i64 {
    t.store.command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

fn ok(is: bool) -> &'static str {
    if is { "ok" } else { "error" }
}

async fn listed(t: &RedisFixture, state: TaskState, page: Page) -> Vec<String> {
    let tasks = t.broker().tasks(&default_queue(), state, page).await.unwrap();
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

async fn retried(t: &RedisFixture, run: &Run) -> Settled {
    let error = Some("boom".into());
    let delay = Duration::from_secs(60);
    t.settle(run, Action::Retry { delay, error, counted: true, extra: Extra::default() }).await
}

#[tokio::test]
async fn fractional_scores_in_lists() {
    for state in [TaskState::Scheduled, TaskState::Retry, TaskState::Archived, TaskState::Completed] {
        let t = RedisFixture::start().await;
        t.seed_every_state().await;
        redis(&t, &["ZADD", &key(state.as_str()), "2000000000.5", state.as_str()]);
        let found = t.broker().task(&default_queue(), &task_id(state.as_str())).await.unwrap();
        let list = listed(&t, state, Page::default()).await == [state.as_str()];
        let ours = json!({"get_task_info": ok(found.is_some()), "list": ok(list)});
        check(&format!("fractional_score_{state}"), "zset score 2000000000.5", &ours);
    }
}

#[tokio::test]
async fn a_fractional_score_that_is_due() {
    let t = RedisFixture::start().await;
    t.seed_scheduled("t1", Duration::from_secs(3600)).await;
    redis(&t, &["ZADD", &key("scheduled"), &format!("{}.5", t.now().timestamp() - 5), "t1"]);
    assert_eq!(t.forward().await, 1);
    let ours = format!("ok state={}", hash_field(&t, "t1", "state"));
    check("fractional_score_forward", "forwarding of a fractional due score", &json!(ours));
}

#[tokio::test]
async fn a_fractional_score_in_a_group() {
    let t = RedisFixture::start().await;
    t.seed_group("g", &["t1"]).await;
    redis(&t, &["ZADD", &key("g:g"), "1700000000.5", "t1"]);
    let list = t
        .broker()
        .list(&default_queue(), TaskState::Aggregating, Some(&group("g")), Page::default(), None)
        .await
        .unwrap();
    let set = t.try_claim("g", &GroupRules::default()).await;
    let n = set.as_ref().map_or(0, |set| set.members.len());
    let read = t.finish(&set.unwrap(), &SetOutcome::default()).await;
    let ours = json!({"check": "ok", "list": ok(list.len() == 1), "n": n, "read": ok(read.is_ok())});
    check("fractional_score_group", "group zset score 1700000000.5", &ours);
}

#[tokio::test]
async fn a_fractional_lease() {
    let t = RedisFixture::start().await;
    let run = t.seed_active("t1").await;
    redis(&t, &["ZADD", &key("lease"), "1700000000.5", "t1"]);
    let active = t.broker().tasks(&default_queue(), TaskState::Active, Page::default()).await.unwrap();
    let orphaned = active[0].lease_until.unwrap() < t.now();
    let extended = t.extend(&run.key).await == Settled::Ok;
    let ours = json!({"extend": ok(extended), "list_active": ok(active.len() == 1), "orphaned": orphaned});
    check("fractional_score_lease", "lease score with .5", &ours);
}

#[tokio::test]
async fn a_fractional_server() {
    let t = RedisFixture::start().await;
    redis(
        &t,
        &[
            "ZINCRBY",
            "asynq:servers",
            "0.5",
            &t.store.command::<Vec<String>>(&[b"ZRANGE", b"asynq:servers", b"0", b"0"])[0],
        ],
    );
    let servers = t.broker().servers().await;
    let ours = json!({"err": ok(servers.is_ok()), "n": servers.unwrap().len()});
    check("fractional_score_servers", "servers zset score with .5", &ours);
}

#[tokio::test]
async fn extra_fields_of_a_task() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["t1"]).await;
    redis(&t, &["HSET", &key("t:t1"), "x_extra", "1", "rs:owner", "2"]);
    let list = listed(&t, TaskState::Pending, Page::default()).await == ["t1"];
    let get = t.broker().task(&default_queue(), &task_id("t1")).await.unwrap().is_some();
    let info = t.broker().queue_stats(&default_queue()).await;
    let run = t.take_one().await;
    let settled = retried(&t, &run).await == Settled::Ok;
    // Our own fields come and go; Go's answer has all the others.
    let fields: Vec<&str> = ["msg", "state", "x_extra", "rs:owner"]
        .into_iter()
        .filter(|field| !hash_field(&t, "t1", field).is_empty())
        .collect();
    let ours = json!({"dequeue": "ok", "fields_after_retry": fields, "get": ok(get), "list": ok(list),
        "queue_info": ok(info.is_ok()), "retry": ok(settled)});
    check("extra_hash_fields", "unknown fields in the task hash", &ours);
}

#[tokio::test]
async fn an_unknown_field_of_a_message() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["t1"]).await;
    let mut bytes = task("t1").message.encode();
    bytes.extend(b"\xa2\x06\x01x");
    t.store.overwrite_message(&default_queue(), &task_id("t1"), &bytes);
    let run = t.take_one().await;
    assert_eq!(retried(&t, &run).await, Settled::Ok);
    let stored: Vec<u8> = t.store.command(&[b"HGET", key("t:t1").as_bytes(), b"msg"]);
    let ours = json!({"dequeue": "ok", "preserved_after_retry": stored.ends_with(b"\xa2\x06\x01x")});
    check("unknown_proto_field", "field 100 appended to TaskMessage, then Go dequeues and retries", &ours);
}

#[tokio::test]
async fn an_unknown_key_of_a_queue() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["t1"]).await;
    redis(&t, &["SET", &key("rs:something"), "1"]);
    let info = t.broker().queue_stats(&default_queue()).await.is_ok();
    t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Delete).await.unwrap();
    let deleted = t.broker().delete_queue(&default_queue()).await;
    // Receipts expire by themselves.
    let left =
        t.store.keys().into_iter().filter(|(name, dumped)| name.starts_with("asynq:{default}") && dumped.pttl < 0);
    let left: Vec<String> = left.map(|(name, _)| name).collect();
    let ours = json!({"delete_queue_force": ok(deleted.is_ok()), "left": left, "queue_info": ok(info)});
    check("extra_keys", "unknown key asynq:{default}:rs:*", &ours);
}

#[tokio::test]
async fn an_unknown_state() {
    let change = async |variant: &str| {
        let t = RedisFixture::start().await;
        t.seed_pending(&["t1"]).await;
        redis(&t, &["HSET", &key("t:t1"), "state", "waiting"]);
        let (queue, id) = (default_queue(), task_id("t1"));
        match variant {
            "get" => t.broker().task(&queue, &id).await.unwrap().map_or("none", |_| "ok"),
            "dequeue" => ok(t.take(1).await.len() == 1),
            "run" => {
                t.broker().change_task(&queue, &id, None, BulkAction::Run).await.unwrap();
                ok(listed(&t, TaskState::Pending, Page::default()).await == ["t1"])
            }
            _ => {
                t.broker().change_task(&queue, &id, None, BulkAction::Delete).await.unwrap();
                ok(t.snapshot().await.stats.size == 0)
            }
        }
    };
    let ours = json!({"delete": change("delete").await, "dequeue": change("dequeue").await,
        "get": change("get").await, "run": change("run").await});
    check("unknown_state", "hash state='waiting' but id in pending", &ours);
}

#[tokio::test]
async fn times_of_waiting_that_are_none() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["t1"]).await;
    let latency = async || t.broker().queue_stats(&default_queue()).await.unwrap().latency;
    redis(&t, &["HDEL", &key("t:t1"), "pending_since"]);
    let ours = json!({"err": "ok", "latency": format!("{}s", latency().await.as_secs())});
    check("pending_since_missing", "latency when the oldest pending task has no pending_since", &ours);

    // Go's answers are the hours since 1970 at the time of the probe; our answer is within two seconds of our own clock.
    for (probe, since) in
        [("pending_since_seconds", t.now().timestamp().to_string()), ("pending_since_fractional", "12.5".into())]
    {
        redis(&t, &["HSET", &key("t:t1"), "pending_since", &since]);
        let go = probes().into_iter().find(|found| found["probe"] == probe).unwrap()["observed"].clone();
        let hours = go["latency"].as_str().or(go.as_str()).unwrap().split('h').next().unwrap().parse::<u64>().unwrap();
        assert!(hours > 50 * 365 * 24, "Go takes it for nanoseconds");
        let ours = t.now().timestamp() as u64 - latency().await.as_secs();
        assert!(ours <= 2, "{probe}: so do we");
    }
}

#[tokio::test]
async fn counters_that_are_not_whole_numbers() {
    for (probe, value) in [("counter_not_integer", "abc"), ("counter_fractional", "1.5")] {
        let t = RedisFixture::start().await;
        t.seed_pending(&["t1"]).await;
        redis(&t, &["SET", &key("processed"), value]);
        let stats = t.broker().queue_stats(&default_queue()).await.unwrap();
        assert_eq!(stats.pending, 1);
        let variant = format!("asynq:{{default}}:processed='{value}', then GetQueueInfo");
        check(probe, &variant, &json!(format!("ok total={}", stats.processed_total)));
    }
}

#[tokio::test]
async fn an_archive_with_thousands_of_old_entries() {
    for (probe, old) in [("archive_unpack_7000", 7000), ("archive_unpack_8500", 8500)] {
        let t = RedisFixture::start().await;
        let run = t.seed_active("t1").await;
        let archived = key("archived");
        let mut words: Vec<String> = vec!["ZADD".into(), archived.clone()];
        words.extend((0..old).flat_map(|n| ["1".to_owned(), format!("old{n}")]));
        redis(&t, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let settled = t.settle(&run, archive("boom")).await;
        let trimmed = t.broker().trim_archive(&default_queue(), Duration::from_secs(90 * 86_400), 10_000, 10_000).await;
        assert_eq!(trimmed.unwrap(), old);
        let ours = json!({"archived_card": number(&t, &["ZCARD", &archived]), "err": ok(settled == Settled::Ok),
            "hash_state": hash_field(&t, "t1", "state"), "in_active": number(&t, &["LLEN", &key("active")]),
            "in_lease": number(&t, &["ZCARD", &key("lease")])});
        check(probe, "Archive when that many entries are older than 90 days", &ours);
    }
}

#[tokio::test]
async fn pages_that_are_none() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["p0", "p1", "p2"]).await;
    let page = async |number, size| listed(&t, TaskState::Pending, Page { number, size }).await;
    // Go's page -1 cannot be expressed here.
    for number in [0, 1] {
        let ours = format!("ok[{}]", page(number, 2).await.join(" "));
        check(
            "list_pending_page",
            &if number == 0 { "Page(0) size 2".into() } else { format!("Page({number}) size 2") },
            &json!(ours),
        );
    }
    check("list_pending_size0", "PageSize(0)", &json!(format!("ok{}", page(1, 0).await.len())));
}

/// A broker caches for a minute that other clients know the queue; a deletion of the queue through the same broker
/// clears the cache.
#[tokio::test]
async fn a_queue_that_another_program_deletes() {
    let enqueue_and_delete = async |by_another: bool| {
        let t = RedisFixture::start().await;
        let by = if by_another { t.another_broker().await } else { t.shared() };
        t.seed_pending(&["q1"]).await;
        t.broker().change_task(&default_queue(), &task_id("q1"), None, BulkAction::Delete).await.unwrap();
        assert_eq!(by.delete_queue(&default_queue()).await.unwrap(), QueueDeleted::Done);
        t.seed_pending(&["q2"]).await;
        let members: Vec<String> = t.broker().queues().await.unwrap().iter().map(ToString::to_string).collect();
        let pending = listed(&t, TaskState::Pending, Page::default()).await;
        json!({"pending": pending, "queues_members": members})
    };
    let variant = "client A enqueues; process B removes the queue; client A enqueues again (its in-memory 'queue already \
                published' cache is stale)";
    check("queue_name_cache", variant, &enqueue_and_delete(true).await);
    let ours = enqueue_and_delete(false).await;
    assert_eq!(ours, json!({"pending": ["q2"], "queues_members": ["default"]}));
}

#[tokio::test]
async fn an_outcome_without_a_lease() {
    let t = RedisFixture::start().await;
    let run = t.seed_active("t1").await;
    redis(&t, &["DEL", &key("lease")]);
    let settled = t.settle(&run, done()).await;
    let ours = json!({"active_len": number(&t, &["LLEN", &key("active")]), "err": ok(settled == Settled::Ok),
        "hash_exists": number(&t, &["EXISTS", &key("t:t1")]), "state": hash_field(&t, "t1", "state")});
    check("done_missing_lease", "Done when the lease entry is gone: partial effect", &ours);
}

#[tokio::test]
async fn a_success_that_is_listed_already() {
    let t = RedisFixture::start().await;
    let run = t.start_run(task("t1").with_retention(60)).await;
    redis(&t, &["ZADD", &key("completed"), "2000000000", "t1"]);
    let settled = t.settle(&run, complete("42")).await;
    let variant = "MarkAsComplete when the id is already in completed";
    check("complete_existing_member", variant, &json!(ok(settled == Settled::Ok)));
}

#[tokio::test]
async fn an_unreadable_message_among_lapsed_runs() {
    let t = RedisFixture::start().await;
    t.seed_pending(&["bad", "good"]).await;
    t.take(2).await;
    t.store.overwrite_message(&default_queue(), &task_id("bad"), b"\xff\xff");
    let list = listed(&t, TaskState::Active, Page::default()).await == ["good"];
    t.let_leases_pass();
    let recovered = t.recover().await;
    let ours = json!({"err": "ok", "inspector_list_active": ok(list), "returned": recovered.len()});
    let variant = "one undecodable msg among expired leases; ListLeaseExpired over two queues";
    check("undecodable_message_blocks_recovery", variant, &ours);
}

//! Contract `Produce`: tasks go where they belong, each with an answer of its own.

use std::time::Duration;

use asynq_runtime::{
    broker::{NewTask, Placed, Refused, Wanted},
    task::{Extra, TaskState, Unknown},
};
use asynq_tests::{Build as _, Entry, Seeded as _, Store as _, done, lock_key, queue, task, task_id};
use chrono::{DateTime, SubsecRound as _, TimeDelta};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_task_without_a_delay_is_pending_and_due_now() {
    let t = Fixture::start().await;
    let new = task("t1");

    let placed = t.enqueue(new.clone()).await;

    assert_eq!(placed.state, TaskState::Pending);
    assert_eq!(placed.process_at.trunc_subsecs(3), t.now().trunc_subsecs(3));
    let seen = t.snapshot().await;
    assert_eq!(seen.pending, [Entry::of(&new)]);
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn a_task_with_a_delay_is_scheduled_for_then() {
    let t = Fixture::start().await;
    let new = task("t1").after(MINUTE);

    let placed = t.enqueue(new.clone()).await;

    let due = t.now() + MINUTE;
    assert_eq!(placed.state, TaskState::Scheduled);
    assert!((placed.process_at - due).abs() < TimeDelta::milliseconds(1), "{placed:?}");
    let seen = t.snapshot().await;
    assert_eq!(seen.scheduled, [Entry::of(&new).due(due)]);
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn a_delay_of_zero_means_now() {
    let t = Fixture::start().await;
    assert_eq!(t.enqueue(task("t1").after(Duration::ZERO)).await.state, TaskState::Pending);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn an_instant_that_has_passed_means_now() {
    let t = Fixture::start().await;
    let yesterday = t.now() - TimeDelta::days(1);
    for (id, at) in
        [("just", t.now() - TimeDelta::milliseconds(1)), ("yesterday", yesterday), ("epoch", DateTime::UNIX_EPOCH)]
    {
        assert_eq!(t.enqueue(task(id).at(at)).await.state, TaskState::Pending, "{id}");
    }
    assert_eq!(t.drain().await, ["just", "yesterday", "epoch"]);
}

#[tokio::test]
async fn an_instant_to_come_is_kept_to_the_millisecond() {
    let t = Fixture::start().await;
    let at = DateTime::from_timestamp(2_000_000_000, 123_000_000).unwrap();
    let new = task("t1").at(at);

    assert_eq!(t.enqueue(new.clone()).await, Placed { state: TaskState::Scheduled, process_at: at, replaced: None });
    assert_eq!(t.snapshot().await.scheduled[0].due, Some(at));
}

#[tokio::test]
async fn a_task_due_later_within_this_second_is_scheduled() {
    let t = Fixture::start().await;
    let placed = t.enqueue(task("t1").after(Duration::from_millis(100))).await;
    assert_eq!(placed.state, TaskState::Scheduled);
    assert!(t.take(1).await.is_empty());
}

#[tokio::test]
async fn the_message_arrives_as_it_was_given() {
    let t = Fixture::start().await;
    let mut new = task("t1")
        .with_payload(&b"\x00\xff\xc3("[..])
        .with_header("", "no key")
        .with_header("k", "")
        .with_retention(90);
    new.message.deadline = 2_000_000_000;
    new.message.retried = 3;
    new.message.error_msg = "smtp \u{1f4e8} down".into();
    new.message.last_failed_at = 1_893_553_000;

    t.enqueue(new.clone()).await;

    assert_eq!(t.take_one().await.text(), &new.message);
}

#[tokio::test]
async fn long_messages_are_stored_and_refused_like_short_ones() {
    let t = Fixture::start().await;
    // Long messages are sent to Redis apart from the script.
    let long = |id: &str| task(id).with_payload(id.repeat(20_000));
    let extra = Extra { max_crashes: Some(7), ..Extra::default() };
    let batch = vec![
        long("now"),
        task("short"),
        long("later").after(MINUTE),
        long("unique").locked(&lock_key("k"), 60),
        long("duplicate").locked(&lock_key("k"), 60),
        long("now"),
        long("extra").with_extra(extra.clone()),
        long("grouped").grouped("g"),
    ];
    let tasks = batch.clone();

    let answers = t.broker().enqueue(batch).await;

    let states = answers.iter().map(|answer| answer.as_ref().map(|placed| placed.state).map_err(ToString::to_string));
    let duplicate = Refused::Duplicate { holder: Some(task_id("unique")) }.to_string();
    let taken = Refused::IdConflict.to_string();
    let [pending, scheduled, grouped] = [TaskState::Pending, TaskState::Scheduled, TaskState::Aggregating].map(Ok);
    let expected =
        [pending.clone(), pending.clone(), scheduled, pending.clone(), Err(duplicate), Err(taken), pending, grouped];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    let seen = t.snapshot().await;
    assert_eq!(seen.pending, [0, 1, 3, 6].map(|i| Entry::of(&tasks[i])));
    assert_eq!(seen.scheduled, [Entry::of(&tasks[2]).due(t.now() + MINUTE)]);
    assert_eq!(seen.len(), 5);
    let set = t.claim("g").await;
    assert!(set.members[0].message.as_ref().unwrap().payload == tasks[7].message.payload);
    t.advance(MINUTE);
    t.forward().await;
    let runs = t.take_exactly(5).await;
    let order = ["now", "short", "unique", "extra", "later"];
    for (run, id) in runs.iter().zip(order) {
        assert_eq!(run.key.id, id);
        let new = tasks.iter().find(|task| task.id == id).unwrap();
        assert!(run.text().payload == new.message.payload, "{id} has another payload");
    }
    assert_eq!(runs[3].extra, extra);
}

#[tokio::test]
async fn extra_facts_come_back_with_the_run() {
    let t = Fixture::start().await;
    let extra = Extra {
        max_crashes: Some(7),
        unknown: Some(Unknown { since_ms: 12, times: 3, retried: Some(1) }),
        ..Extra::default()
    };
    let run = t.start_run(task("t1").with_extra(extra.clone())).await;
    assert_eq!(run.extra, extra);
    let plain = t.start_run(task("t2")).await;
    assert_eq!(plain.extra, Extra::default());
}

#[tokio::test]
async fn extra_facts_of_a_scheduled_task_survive_its_wait() {
    let t = Fixture::start().await;
    let extra = Extra { max_crashes: Some(1), ..Extra::default() };
    t.enqueue(task("t1").after(MINUTE).with_extra(extra.clone())).await;
    t.advance(MINUTE);
    t.forward().await;
    assert_eq!(t.take_one().await.extra, extra);
}

#[tokio::test]
async fn a_task_makes_its_queue_known() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").in_queue("low")).await;
    t.enqueue(task("t1").in_queue("high").after(MINUTE)).await;
    assert_eq!(t.broker().queues().await.unwrap(), [queue("high"), queue("low")]);
}

#[tokio::test]
async fn a_batch_has_one_answer_per_item_in_order() {
    let t = Fixture::start().await;
    t.seed_pending(&["taken"]).await;
    t.enqueue(task("holder").locked(&lock_key("k"), 60)).await;
    let batch = vec![
        task("a"),
        task("taken"),
        task("b").after(MINUTE),
        task("c").locked(&lock_key("k"), 60),
        task("d").in_queue("other"),
    ];

    let answers = t.broker().enqueue(batch).await;

    assert_eq!(answers.len(), 5);
    assert_eq!(answers[0].as_ref().unwrap().state, TaskState::Pending);
    assert!(matches!(answers[1], Err(Refused::IdConflict)), "{:?}", answers[1]);
    assert_eq!(answers[2].as_ref().unwrap().state, TaskState::Scheduled);
    assert!(matches!(&answers[3], Err(Refused::Duplicate { holder: Some(id) }) if *id == "holder"), "{:?}", answers[3]);
    assert_eq!(answers[4].as_ref().unwrap().state, TaskState::Pending);
    let seen = t.snapshot().await;
    assert_eq!(seen.ids(TaskState::Pending), ["taken", "holder", "a"]);
    assert_eq!(seen.ids(TaskState::Scheduled), ["b"]);
}

#[tokio::test]
async fn of_two_items_with_one_id_in_a_batch_the_first_is_accepted() {
    let t = Fixture::start().await;
    let answers = t.broker().enqueue(vec![task("t1").with_payload("first"), task("t1").with_payload("second")]).await;
    assert!(answers[0].is_ok(), "{:?}", answers[0]);
    assert!(matches!(answers[1], Err(Refused::IdConflict)), "{:?}", answers[1]);
    assert_eq!(&t.take_one().await.text().payload[..], b"first");
}

#[tokio::test]
async fn of_two_items_with_one_lock_in_a_batch_the_first_is_accepted() {
    let t = Fixture::start().await;
    let answers =
        t.broker().enqueue(vec![task("t1").locked(&lock_key("k"), 60), task("t2").locked(&lock_key("k"), 60)]).await;
    assert!(answers[0].is_ok(), "{:?}", answers[0]);
    assert!(matches!(&answers[1], Err(Refused::Duplicate { holder: Some(id) }) if *id == "t1"), "{:?}", answers[1]);
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn an_empty_batch_has_no_answers() {
    let t = Fixture::start().await;
    assert!(t.broker().enqueue(Vec::new()).await.is_empty());
}

#[tokio::test]
async fn a_batch_of_a_thousand_goes_in_whole_and_in_order() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..1000).map(|i| format!("t{i:04}")).collect();

    let answers = t.broker().enqueue(ids.iter().map(|id| task(id)).collect()).await;

    assert!(answers.iter().all(Result::is_ok) && answers.len() == 1000);
    let taken: Vec<String> = t.take_exactly(1000).await.iter().map(|run| run.key.id.to_string()).collect();
    assert_eq!(taken, ids);
}

#[tokio::test]
async fn a_batch_may_name_several_queues() {
    let t = Fixture::start().await;
    let batch = ["a", "b", "c", "d"].map(|name| task("same").in_queue(name)).to_vec();
    assert!(t.broker().enqueue(batch).await.iter().all(Result::is_ok));
    let wanted = ["d", "a"].map(|name| Wanted { queue: queue(name), n: 9 });
    let runs = t.broker().dequeue(t.member(), &wanted).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.key.queue.as_str()).collect::<Vec<_>>(), ["d", "a"]);
}

#[tokio::test]
async fn the_same_id_in_another_queue_is_free() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    t.enqueue(task("t1").in_queue("other")).await;
}

#[tokio::test]
async fn an_id_is_free_again_after_its_task_is_done() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, done()).await;
    t.enqueue(task("t1")).await;
}

/// Asserts that ids are taken in every state, and that a refused task changes nothing.
async fn an_id_is_taken(state: &str) {
    let t = Fixture::start().await;
    t.seed_every_state().await;
    let before = t.store.dump();

    for id_is_ours in [false, true] {
        let refused = t.try_enqueue(NewTask { id_is_ours, ..task(state).with_payload("another") }).await;
        assert!(matches!(refused, Err(Refused::IdConflict)), "{refused:?}");
        assert_eq!(t.store.dump(), before);
    }
}

macro_rules! an_id_is_taken_while_its_task_is {
    ($($state:ident)*) => {
        mod an_id_is_taken_while_its_task_is {
            $(#[tokio::test] async fn $state() { super::an_id_is_taken(stringify!($state)).await; })*
        }
    };
}

an_id_is_taken_while_its_task_is! { pending active scheduled retry archived completed }

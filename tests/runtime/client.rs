//! `Client`: outcomes one by one, limits, and errors a program can act on.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use asynq_runtime::{Client, EnqueueError, RawTask, TaskId, TaskState, broker::Broker, job::PreparedTask, prelude::*};
use asynq_tests::{RedisFixture, SqliteFixture, task};
use chrono::SubsecRound as _;
use futures_util::FutureExt as _;

#[job(queue = "mails", unique = "1h")]
async fn mail(to: String) -> JobResult {
    drop(to);
    Ok(())
}

#[job]
async fn tidy() {}

async fn client() -> Client {
    Client::connect("sqlite::memory:").await.expect("memory is there")
}

#[tokio::test]
async fn each_item_of_many_has_its_own_outcome_in_order() {
    let client = client().await;
    let tasks = [
        mail::job("ann").into(),
        mail::job("ann").into(),
        tidy::job().task_id("t-1").into(),
        tidy::job().task_id("t-1").into(),
        RawTask::new("of go", "x").queue("a{b}").into(),
        mail { to: "bob".into() }.into(),
    ];
    let outcomes = client.enqueue_all(tasks).await.unwrap();
    let words: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(_) => "ok",
            Err(EnqueueError::Duplicate { .. }) => "duplicate",
            Err(EnqueueError::IdConflict { .. }) => "id conflict",
            Err(EnqueueError::Name(_)) => "name",
            Err(_) => "other",
        })
        .collect();
    assert_eq!(words, ["ok", "duplicate", "ok", "id conflict", "name", "ok"]);

    let ids: Vec<Option<&TaskId>> =
        outcomes.iter().map(|o| o.as_ref().map_or_else(|e| e.existing_id(), |t| Some(&t.id))).collect();
    assert_eq!(ids[0], ids[1], "the holder of the lock is named");
    assert_eq!(ids[3].map(TaskId::as_str), Some("t-1"));
    assert_eq!(outcomes[3].as_ref().unwrap_err().to_string(), "task id `t-1` is taken in queue `default`");
    assert!(client.enqueue_many(Vec::<PreparedTask>::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn refused_items_of_a_long_call_shift_no_outcome_of_another_part() {
    let client = client().await;
    let refused = [0, 255, 256, 257, 511, 599];
    let queue = |n| if refused.contains(&n) { "a{b}" } else { "default" };
    let tasks = (0..600).map(|n| RawTask::new("x", "").queue(queue(n)).task_id(format!("t{n}")));
    for (n, outcome) in client.enqueue_many(tasks).await.unwrap().into_iter().enumerate() {
        match outcome {
            Ok(info) => assert_eq!(info.id.as_str(), format!("t{n}")),
            Err(error) => assert!(refused.contains(&n) && matches!(error, EnqueueError::Name(_)), "{n}: {error}"),
        }
    }
}

async fn takes_the_tasks_of_a_long_call_when_it_sends_them(broker: &dyn Broker) {
    const ALL: usize = 5_000;
    let taken = AtomicUsize::new(0);
    let mut tasks = (0..ALL).map(|n| {
        taken.fetch_add(1, Relaxed);
        task(&format!("t{n}"))
    });
    let mut call = pin!(broker.enqueue_each(&mut tasks));
    assert!(futures_util::poll!(&mut call).is_pending());
    assert!((1..ALL).contains(&taken.load(Relaxed)), "{taken:?}");
    let outcomes = call.await;
    assert!(outcomes.len() == ALL && outcomes.iter().all(Result::is_ok));
}

#[tokio::test]
async fn redis_takes_the_tasks_of_a_long_call_when_it_sends_them() {
    takes_the_tasks_of_a_long_call_when_it_sends_them(RedisFixture::start().await.broker()).await;
}

#[tokio::test]
async fn sqlite_takes_the_tasks_of_a_long_call_when_it_sends_them() {
    takes_the_tasks_of_a_long_call_when_it_sends_them(SqliteFixture::real_time().await.broker()).await;
}

#[tokio::test]
async fn the_payload_limit_can_be_raised_and_lowered() {
    let client = client().await;
    let big = || RawTask::new("big", vec![0; Client::DEFAULT_PAYLOAD_LIMIT + 1]);
    assert!(matches!(client.enqueue(big()).await, Err(EnqueueError::TooLarge { .. })));
    let raised = client.clone().payload_limit(usize::MAX);
    assert_eq!(raised.enqueue(big()).await.unwrap().state, TaskState::Pending);
    let beyond_all = vec![0; Client::MAX_PAYLOAD_LIMIT + 1];
    assert!(matches!(
        raised.enqueue(RawTask::new("huge", beyond_all)).await,
        Err(EnqueueError::TooLarge { limit: Client::MAX_PAYLOAD_LIMIT, .. })
    ));
    let lowered = client.payload_limit(3);
    assert!(matches!(
        lowered.enqueue(RawTask::new("small", "1234")).await,
        Err(EnqueueError::TooLarge { size: 4, limit: 3 })
    ));
}

#[tokio::test]
async fn an_answer_says_state_queue_and_when() {
    let client = client().await;
    // Brokers count in milliseconds.
    let now = client.broker().now().trunc_subsecs(3);
    let task = mail::enqueue_in(&client, "10m", "ann").await.unwrap();
    assert_eq!((task.state, task.queue.as_str(), task.r#type.as_str()), (TaskState::Scheduled, "mails", "mail"));
    // Due times are kept to the millisecond.
    let (due, delay) = (task.next_process_at.unwrap(), chrono::TimeDelta::minutes(10));
    assert!(now + delay <= due && due <= client.broker().now() + delay, "{due}");
    let task = mail::enqueue_at(&client, now - chrono::TimeDelta::hours(1), "bob").await.unwrap();
    assert_eq!(task.state, TaskState::Pending, "a time in the past means now");
}

#[test]
fn a_client_that_finds_no_runtime_says_what_it_needs() {
    let error = Client::connect("sqlite::memory:").now_or_never().and_then(Result::err);
    let error = error.map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|error| error.contains("`block_on`")), "{error:?}");
}

#[tokio::test]
async fn an_invalid_url_is_refused_with_a_valid_example_and_without_its_password() {
    for url in ["postgres://ann:secret@h/db", "", "secret", "amqp:secret", "redis://:secret@h:port"] {
        let error = Client::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), asynq_runtime::broker::BrokerErrorKind::Config, "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{url}: {error:?}");
    }
}

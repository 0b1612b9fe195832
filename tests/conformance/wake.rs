//! Waiting without polling: whoever writes, whoever waits is told (DECISIONS §5 "Wake-up").
//!
//! These cases run on the broker's own time. `LONG` is the safety net, far beyond what a wake-up may take; a case that
//! only the net would end fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::Broker,
    task::{Extra, QueueName},
};
use asynq_tests::{Build as _, default_queue, queue, requeue, retry, snooze, task};
use tokio::task::JoinHandle;

use super::Fixture;

const LONG: Duration = Duration::from_secs(60);
/// A wake-up takes a millisecond; this allows for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

/// Starts to wait for work, and returns once the waiting has begun for sure: it outlasts a short wait before.
async fn waiting(broker: &Arc<dyn Broker>, queues: &[QueueName]) -> JoinHandle<Duration> {
    // The first wait arms whatever the broker listens with, so that the second is not ended by its set-up.
    broker.wait_for_work(queues, Duration::from_millis(50)).await.unwrap();
    let (broker, queues) = (broker.clone(), queues.to_vec());
    let handle = tokio::spawn(async move {
        let began = Instant::now();
        broker.wait_for_work(&queues, LONG).await.unwrap();
        began.elapsed()
    });
    tokio::task::yield_now().await;
    handle
}

async fn woken(waiter: JoinHandle<Duration>) {
    tokio::time::timeout(SOON, waiter).await.expect("the write wakes whoever waits").unwrap();
}

fn here() -> Vec<QueueName> {
    vec![default_queue()]
}

#[tokio::test]
async fn work_that_is_there_ends_the_wait_at_once() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["t1"]).await;
    tokio::time::timeout(SOON, t.broker().wait_for_work(&here(), LONG)).await.expect("at once").unwrap();
    tokio::time::timeout(SOON, t.broker().wait_for_work(&here(), LONG)).await.expect("again").unwrap();
}

#[tokio::test]
async fn of_many_queues_those_with_work_are_named_and_paused_ones_are_not() {
    let t = Fixture::real_time().await;
    let queues: Vec<QueueName> = (0..300).map(|i| queue(&format!("tenant:{i}"))).collect();
    for name in ["tenant:7", "tenant:250", "tenant:251", "elsewhere"] {
        t.enqueue(task(name).in_queue(name)).await;
    }
    t.enqueue(task("later").in_queue("tenant:9").after(Duration::from_secs(60))).await;
    t.broker().pause(&queue("tenant:251")).await.unwrap();
    assert_eq!(t.broker().ready(&queues).await.unwrap(), [queue("tenant:7"), queue("tenant:250")]);
    t.broker().resume(&queue("tenant:251")).await.unwrap();
    assert_eq!(t.broker().ready(&queues[250..]).await.unwrap(), [queue("tenant:250"), queue("tenant:251")]);
    assert!(t.broker().ready(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn without_work_the_wait_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    let queues = here();
    let wait = t.broker().wait_for_work(&queues, Duration::from_millis(200));
    tokio::time::timeout(SOON, wait).await.expect("no longer than the limit").unwrap();
}

#[tokio::test]
async fn an_enqueue_of_this_process_wakes() {
    let t = Fixture::real_time().await;
    let waiter = waiting(&t.shared(), &here()).await;
    t.seed_pending(&["t1"]).await;
    woken(waiter).await;
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn an_enqueue_of_another_process_wakes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let waiter = waiting(&t.shared(), &here()).await;
    there.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    woken(waiter).await;
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn every_enqueue_wakes_not_only_the_first() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    for round in 0..25 {
        let waiter = waiting(&t.shared(), &here()).await;
        there.enqueue(vec![task(&format!("t{round}"))]).await.remove(0).unwrap();
        woken(waiter).await;
        assert_eq!(t.take(5).await.len(), 1, "round {round}");
    }
}

#[tokio::test]
async fn work_in_any_of_the_queues_wakes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let queues = ["a", "b", "c"].map(queue);
    for name in ["c", "a", "b"] {
        let waiter = waiting(&t.shared(), &queues).await;
        there.enqueue(vec![task("t1").in_queue(name)]).await.remove(0).unwrap();
        woken(waiter).await;
        let wanted = [asynq_runtime::broker::Wanted { queue: queue(name), n: 1 }];
        assert_eq!(t.broker().dequeue(t.member(), &wanted).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn every_process_that_waits_is_woken() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let waiters = [waiting(&t.shared(), &here()).await, waiting(&there, &here()).await];
    t.seed_pending(&["t1"]).await;
    for waiter in waiters {
        woken(waiter).await;
    }
}

#[tokio::test]
async fn a_resume_wakes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    t.seed_pending(&["t1"]).await;
    there.pause(&default_queue()).await.unwrap();
    let waiter = waiting(&t.shared(), &here()).await;
    assert!(t.take(1).await.is_empty());
    there.resume(&default_queue()).await.unwrap();
    woken(waiter).await;
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn work_of_a_paused_queue_does_not_end_the_wait() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["t1"]).await;
    t.broker().pause(&default_queue()).await.unwrap();
    let mut rounds = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(400) {
        t.broker().wait_for_work(&here(), Duration::from_millis(100)).await.unwrap();
        rounds += 1;
    }
    assert!(rounds <= 8, "waiting spins: {rounds} rounds in 400 ms");
}

#[tokio::test]
async fn a_requeue_wakes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let run = t.seed_active("t1").await;
    let waiter = waiting(&there, &here()).await;
    t.settle(&run, requeue()).await;
    woken(waiter).await;
}

#[tokio::test]
async fn a_forwarded_task_wakes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    t.seed_scheduled("t1", Duration::from_millis(300)).await;
    let waiter = waiting(&there, &here()).await;
    while t.forward().await == 0 {
        t.broker().wait_for_due(&here(), LONG).await.unwrap();
    }
    woken(waiter).await;
}

#[tokio::test]
async fn a_wait_that_is_given_up_misses_nothing() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let queues = here();
    for round in 0..10 {
        let wait = t.broker().wait_for_work(&queues, LONG);
        assert!(
            tokio::time::timeout(Duration::from_millis(20), wait).await.is_err(),
            "there is nothing in round {round}"
        );
        there.enqueue(vec![task("t1")]).await.remove(0).unwrap();
        tokio::time::timeout(SOON, t.broker().wait_for_work(&here(), LONG)).await.expect("it is there").unwrap();
        let run = t.take_one().await;
        t.settle(&run, asynq_tests::done()).await;
        t.broker().wait_for_work(&here(), Duration::from_millis(50)).await.unwrap();
    }
}

#[tokio::test]
async fn an_idle_wait_does_not_spin() {
    let t = Fixture::real_time().await;
    let mut rounds = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        t.broker().wait_for_work(&here(), Duration::from_millis(100)).await.unwrap();
        rounds += 1;
    }
    assert!(rounds <= 10, "{rounds} rounds in 500 ms");
}

#[tokio::test]
async fn waiting_for_due_ends_when_the_next_task_is_due() {
    let t = Fixture::real_time().await;
    let due = t.enqueue(task("t1").after(Duration::from_millis(400))).await.process_at;
    tokio::time::timeout(SOON, async {
        while t.forward().await == 0 {
            t.broker().wait_for_due(&here(), LONG).await.unwrap();
        }
    })
    .await
    .expect("it is forwarded soon after its time");
    assert!(t.now() >= due, "not before its time");
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn waiting_for_due_ends_at_once_when_something_is_due() {
    let t = Fixture::real_time().await;
    t.seed_scheduled("t1", Duration::from_millis(1)).await;
    tokio::time::timeout(SOON, async {
        while t.forward().await == 0 {
            t.broker().wait_for_due(&here(), LONG).await.unwrap();
        }
    })
    .await
    .expect("at once");
}

#[tokio::test]
async fn without_anything_due_the_wait_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    t.seed_scheduled("t1", Duration::from_secs(3600)).await;
    let queues = here();
    for _ in 0..3 {
        let wait = t.broker().wait_for_due(&queues, Duration::from_millis(100));
        tokio::time::timeout(SOON, wait).await.expect("no longer than the limit").unwrap();
    }
}

/// A wait for due, begun while `t1` is an hour away.
async fn waiting_for_due(t: &Fixture) -> JoinHandle<()> {
    t.seed_scheduled("far", Duration::from_secs(3600)).await;
    t.broker().wait_for_due(&here(), Duration::from_millis(50)).await.unwrap();
    let broker = t.shared();
    let handle = tokio::spawn(async move {
        while broker.forward(&here()).await.unwrap().moved == 0 {
            broker.wait_for_due(&here(), LONG).await.unwrap();
        }
    });
    tokio::task::yield_now().await;
    handle
}

#[tokio::test]
async fn an_earlier_task_of_another_process_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let waiter = waiting_for_due(&t).await;
    there.enqueue(vec![task("near").after(Duration::from_millis(200))]).await.remove(0).unwrap();
    tokio::time::timeout(SOON, waiter).await.expect("the nearer due time is noticed").unwrap();
    assert_eq!(t.drain().await, ["near"]);
}

#[tokio::test]
async fn a_retry_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let run = t.seed_active("near").await;
    let waiter = waiting_for_due(&t).await;
    t.settle(&run, retry(Duration::from_millis(200), "boom")).await;
    tokio::time::timeout(SOON, waiter).await.expect("the nearer due time is noticed").unwrap();
}

#[tokio::test]
async fn a_snooze_of_another_process_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let run = t.seed_active("near").await;
    let waiter = waiting_for_due(&t).await;
    use asynq_tests::Seeded as _;
    let settlement = run.ends_with(snooze(Duration::from_millis(200), Extra::default()));
    there.settle(&[settlement]).await.remove(0).unwrap();
    tokio::time::timeout(SOON, waiter).await.expect("the nearer due time is noticed").unwrap();
}

#[tokio::test]
async fn waiting_for_a_queue_that_nobody_knows_is_no_error() {
    let t = Fixture::real_time().await;
    let none = [queue("none")];
    t.broker().wait_for_work(&none, Duration::from_millis(20)).await.unwrap();
    t.broker().wait_for_due(&none, Duration::from_millis(20)).await.unwrap();
    t.broker().wait_for_work(&[], Duration::from_millis(20)).await.unwrap();
}

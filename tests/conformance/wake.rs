//! Every write ends the waits for it, long before their limit.
//!
//! These cases use the broker's own time. `LONG` is the limit of a wait, far beyond the patience of `soon`: a wait that lasts
//! until its limit fails its case. On Redis a wait for work ends before that only when Redis announces a write. On SQLite these
//! cases cannot tell a notification from the look that each program takes at the file every 100 ms. The tests of the
//! notification itself are in `tests/runtime/sqlite/others.rs` and `asynq-runtime/src/broker/sqlite/watch.rs`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{Broker, Quarantined, RetryOrder},
    task::{Extra, QueueName},
};
use asynq_tests::{Build as _, Seeded as _, default_queue, queue, requeue, retry, snooze, soon, task};
use tokio::{task::JoinHandle, time::timeout};

use super::Fixture;

const LONG: Duration = Duration::from_secs(3600);
/// A wait of this length has begun to listen, and ends by itself.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Starts to wait for work, and returns once the wait has surely begun: it outlasts a short wait before.
async fn waiting(broker: &Arc<dyn Broker>, queues: &[QueueName]) -> JoinHandle<()> {
    // The first wait sets up the broker's listener, so that the set-up does not end the second.
    broker.wait_for_work(queues, Quarantined::All, A_MOMENT).await.unwrap();
    let (broker, queues) = (broker.clone(), queues.to_vec());
    let handle =
        tokio::spawn(async move { drop(broker.wait_for_work(&queues, Quarantined::All, LONG).await.unwrap()) });
    tokio::task::yield_now().await;
    handle
}

/// Returns when a write has ended the wait.
async fn woken(waiter: JoinHandle<()>) {
    soon(waiter).await.unwrap();
}

/// Forwards due tasks, and returns once a task was moved.
async fn forwarded(broker: &dyn Broker) {
    while broker.forward(&here(), RetryOrder::Last).await.unwrap().moved == 0 {
        broker.wait_for_due(&here(), LONG).await.unwrap();
    }
}

/// Asserts that most of several waits last until their limits. Any of them may end early without a cause, but a broker whose
/// waits all end early spins. A slow machine only makes a wait longer.
async fn outlasts_most_waits(wait: impl AsyncFn(Duration) -> Vec<QueueName>) {
    const ROUNDS: usize = 10;
    let mut early = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        wait(A_MOMENT).await;
        early += usize::from(began.elapsed() < A_MOMENT);
    }
    assert!(early <= ROUNDS / 2, "{early} of {ROUNDS} waits ended early");
}

fn here() -> Vec<QueueName> {
    vec![default_queue()]
}

#[tokio::test]
async fn work_that_is_there_ends_the_wait_at_once() {
    let t = Fixture::real_time().await;
    t.seed_pending(&["t1"]).await;
    for _ in 0..2 {
        soon(t.broker().wait_for_work(&here(), Quarantined::All, LONG)).await.unwrap();
    }
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
    assert_eq!(t.broker().ready(&queues, Quarantined::All).await.unwrap(), [queue("tenant:7"), queue("tenant:250")]);
    t.broker().resume(&queue("tenant:251")).await.unwrap();
    assert_eq!(
        t.broker().ready(&queues[250..], Quarantined::All).await.unwrap(),
        [queue("tenant:250"), queue("tenant:251")]
    );
    assert!(t.broker().ready(&[], Quarantined::All).await.unwrap().is_empty());
}

#[tokio::test]
async fn without_work_the_wait_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    soon(t.broker().wait_for_work(&here(), Quarantined::All, Duration::from_millis(200))).await.unwrap();
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

/// A broker that caches the answer to housekeeping must notify those that wait for a change of the queue.
#[tokio::test]
async fn an_enqueue_wakes_where_housekeeping_has_looked_at_the_queue_before() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    t.broker().worth_sweeping(&here()).await.unwrap();
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
async fn a_wait_names_the_queues_that_may_have_something() {
    let t = Fixture::real_time().await;
    let queues: Vec<QueueName> = (0..20).map(|i| queue(&format!("tenant:{i}"))).collect();
    let wait = |limit| t.broker().wait_for_work(&queues, Quarantined::All, limit);
    assert!(wait(A_MOMENT).await.unwrap().is_empty());
    for name in ["tenant:3", "tenant:17", "elsewhere"] {
        t.enqueue(task(name).in_queue(name)).await;
    }
    let mut named = Vec::new();
    // The notifications of two successive writes may come one by one.
    while named.len() < 2 {
        let open = soon(wait(LONG)).await.unwrap();
        for queue in open {
            let wanted = [asynq_runtime::broker::Wanted { queue: queue.clone(), n: 1 }];
            assert_eq!(t.broker().dequeue(t.member(), &wanted).await.unwrap().len(), 1, "{queue}");
            named.push(queue);
        }
    }
    named.sort();
    assert_eq!(named, [queue("tenant:17"), queue("tenant:3")]);
}

#[tokio::test]
async fn a_wait_for_due_tasks_names_their_queues() {
    let t = Fixture::real_time().await;
    let queues: Vec<QueueName> = (0..20).map(|i| queue(&format!("tenant:{i}"))).collect();
    assert!(t.broker().wait_for_due(&queues, A_MOMENT).await.unwrap().is_empty());
    t.enqueue(task("far").in_queue("tenant:1").after(LONG)).await;
    t.enqueue(task("near").in_queue("tenant:4").after(Duration::from_millis(200))).await;
    let due = soon(async {
        loop {
            let due = t.broker().wait_for_due(&queues, LONG).await.unwrap();
            if !due.is_empty() {
                return due;
            }
        }
    });
    assert_eq!(due.await, [queue("tenant:4")]);
}

#[tokio::test]
async fn a_wait_for_other_queues_reports_each_that_comes() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    for name in ["one", "two", "three"] {
        let broker = t.shared();
        let came = tokio::spawn(async move {
            while !broker.queues().await.unwrap().contains(&queue(name)) {
                broker.wait_for_queues(LONG).await.unwrap();
            }
        });
        tokio::task::yield_now().await;
        there.enqueue(vec![task(name).in_queue(name)]).await.remove(0).unwrap();
        soon(came).await.unwrap();
    }
    soon(t.broker().wait_for_queues(A_MOMENT)).await.unwrap();
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
    outlasts_most_waits(async |limit| t.broker().wait_for_work(&here(), Quarantined::All, limit).await.unwrap()).await;
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
    soon(forwarded(t.broker())).await;
    woken(waiter).await;
}

#[tokio::test]
async fn a_wait_that_is_given_up_misses_nothing() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    for round in 0..10 {
        // At each moment from before the question is sent to after its answer. A wait may end early without a cause: then the
        // next wait is dropped.
        let patience = Duration::from_millis(2 * round);
        soon(async {
            while timeout(patience, t.broker().wait_for_work(&here(), Quarantined::All, LONG)).await.is_ok() {}
        })
        .await;
        there.enqueue(vec![task("t1")]).await.remove(0).unwrap();
        soon(t.broker().wait_for_work(&here(), Quarantined::All, LONG)).await.unwrap();
        let run = t.take_one().await;
        t.settle(&run, asynq_tests::done()).await;
    }
}

#[tokio::test]
async fn an_idle_wait_does_not_spin() {
    let t = Fixture::real_time().await;
    outlasts_most_waits(async |limit| t.broker().wait_for_work(&here(), Quarantined::All, limit).await.unwrap()).await;
}

#[tokio::test]
async fn waiting_for_due_ends_when_the_next_task_is_due() {
    let t = Fixture::real_time().await;
    let due = t.enqueue(task("t1").after(Duration::from_millis(400))).await.process_at;
    soon(forwarded(t.broker())).await;
    assert!(t.now() >= due, "not before its time");
    assert_eq!(t.drain().await, ["t1"]);
}

#[tokio::test]
async fn waiting_for_due_ends_at_once_when_something_is_due() {
    let t = Fixture::real_time().await;
    t.seed_scheduled("t1", Duration::from_millis(1)).await;
    soon(forwarded(t.broker())).await;
}

#[tokio::test]
async fn without_anything_due_the_wait_ends_at_its_limit() {
    let t = Fixture::real_time().await;
    t.seed_scheduled("t1", LONG).await;
    outlasts_most_waits(async |limit| soon(t.broker().wait_for_due(&here(), limit)).await.unwrap()).await;
}

/// Starts a wait for due tasks while `t1` is an hour away.
async fn waiting_for_due(t: &Fixture) -> JoinHandle<()> {
    t.seed_scheduled("far", LONG).await;
    t.broker().wait_for_due(&here(), A_MOMENT).await.unwrap();
    let broker = t.shared();
    let handle = tokio::spawn(async move { forwarded(&*broker).await });
    tokio::task::yield_now().await;
    handle
}

#[tokio::test]
async fn an_earlier_task_of_another_process_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let waiter = waiting_for_due(&t).await;
    there.enqueue(vec![task("near").after(Duration::from_millis(200))]).await.remove(0).unwrap();
    soon(waiter).await.unwrap();
    assert_eq!(t.drain().await, ["near"]);
}

#[tokio::test]
async fn a_retry_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let run = t.seed_active("near").await;
    let waiter = waiting_for_due(&t).await;
    t.settle(&run, retry(Duration::from_millis(200), "boom")).await;
    soon(waiter).await.unwrap();
}

#[tokio::test]
async fn a_snooze_of_another_process_shortens_the_wait() {
    let t = Fixture::real_time().await;
    let there = t.another_broker().await;
    let run = t.seed_active("near").await;
    let waiter = waiting_for_due(&t).await;
    let settlement = run.ends_with(snooze(Duration::from_millis(200), Extra::default()));
    there.settle(&[settlement]).await.remove(0).unwrap();
    soon(waiter).await.unwrap();
}

#[tokio::test]
async fn waiting_for_an_unknown_queue_is_not_an_error() {
    let t = Fixture::real_time().await;
    let none = [queue("none")];
    t.broker().wait_for_work(&none, Quarantined::All, Duration::from_millis(20)).await.unwrap();
    t.broker().wait_for_due(&none, Duration::from_millis(20)).await.unwrap();
    t.broker().wait_for_work(&[], Quarantined::All, Duration::from_millis(20)).await.unwrap();
}

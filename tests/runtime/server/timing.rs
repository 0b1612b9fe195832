//! The duration of a stop, and of the wait for the next task. `scripts/lanes` runs these tests at the end, one at a time.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use asynq_runtime::{Client, broker::Broker, server::ServerError};

use super::{Gate, flaky::Flaky, logged, memory, quick, server, soon, start, waits_for_a_permit};

/// A stop takes no longer than its timeout and a second, on a busy machine a few. One that waited for an answer of the
/// broker would take fifteen seconds more.
const IN_TIME: Duration = Duration::from_secs(5);

/// The other queue has room and no task: the fetcher waits for both. Its thread reads the counters while jobs end on others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_at_its_limit_goes_on_whenever_one_of_its_tasks_ends() {
    const TASKS: usize = 2_000;
    /// The fetcher looks again after 10 s, also without a notification.
    const AT_ONCE: Duration = Duration::from_secs(5);
    let broker = memory().await;
    let tasks = (0..TASKS).map(|_| quick::job().queue("narrow"));
    let outcomes = Client::new(broker.clone()).enqueue_many(tasks).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    let (builder, mut log) = server::<(quick,)>(&broker);
    let running = start(builder.queue("narrow", 1).queue("wide", 1).queue_concurrency("narrow", 1)).await;
    for task in 0..TASKS {
        let since = Instant::now();
        logged(&mut log).await;
        let waited = since.elapsed();
        assert!(waited < AT_ONCE, "task {task}: {waited:?}");
    }
    soon(running.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_stop_returns_in_time_although_the_broker_is_dead() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let timeout = Duration::from_millis(300);
    let running = start(builder.state(gate.clone()).shutdown_timeout(timeout)).await;
    for name in ["a", "b"] {
        waits_for_a_permit::job(name).task_id(name).enqueue(&running.client()).await.unwrap();
        logged(&mut log).await;
    }
    flaky.dead.store(true, SeqCst);
    // One job ends without an answer of the broker, the other never ends.
    gate.add_permits(1);
    logged(&mut log).await;
    let since = Instant::now();
    let left = soon(running.shutdown()).await;
    let took = since.elapsed();
    assert!(
        matches!(left, Err(ServerError::Unsettled { outcomes: 2 })),
        "the end of one, the requeue of the other: {left:?}"
    );
    assert!(took >= timeout && took < timeout + IN_TIME, "{took:?}");
}

#[tokio::test]
async fn a_stop_returns_in_time_whichever_call_the_broker_leaves_unanswered() {
    const CALLS: [&str; 17] = [
        "ping",
        "dequeue_sparing",
        "ready",
        "wait_for_work",
        "settle",
        "free_lock",
        "write_result",
        "forward",
        "wait_for_due",
        "extend",
        "extend_locks",
        "recover",
        "sweep",
        "beat",
        "leave",
        "cancellations",
        "queues",
    ];
    const TIMEOUT: Duration = Duration::from_millis(100);
    let mut stops = tokio::task::JoinSet::new();
    for call in CALLS {
        stops.spawn(async move {
            let inner = memory().await;
            let flaky = Flaky::with_lease(inner.clone(), Duration::from_millis(60));
            let broker: Arc<dyn Broker> = flaky.clone();
            let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
            let builder = builder.state(Gate::new(tokio::sync::Semaphore::new(0)));
            let builder = builder.queue("default", 1).queue("tenant:*", 1).health_check("10ms", |_| {});
            let running = start(builder.shutdown_timeout(TIMEOUT)).await;
            waits_for_a_permit::job("a").enqueue(&Client::new(inner)).await.unwrap();
            assert_eq!(logged(&mut log).await, "a started");
            *flaky.hangs.lock().unwrap() = Some(call);
            let since = Instant::now();
            let left = soon(running.shutdown()).await;
            // The task that was requeued is the one outcome that a broker without `settle` cannot take.
            assert!(call != "settle" || matches!(left, Err(ServerError::Unsettled { outcomes: 1 })), "{left:?}");
            (call, since.elapsed())
        });
    }
    for (call, took) in stops.join_all().await {
        assert!(took < TIMEOUT + IN_TIME, "{call}: {took:?}");
    }
}

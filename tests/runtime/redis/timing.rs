//! How long wake-ups take, beside bare round trips. `scripts/lanes` runs these tests at the end, one at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::{Broker, Consume, Produce, Quarantined, Refused, When};
use asynq_test_support::soon;
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tokio::task::JoinSet;

use super::{
    server::{Server, in_time},
    tasks::*,
};
use crate::timing::half_are_below;

const ROUNDS: usize = 31;

async fn round_trip(redis: &mut MultiplexedConnection) -> Duration {
    let begun = Instant::now();
    let _: String = redis::cmd("PING").query_async(redis).await.unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn half_of_all_wake_ups_take_less_than_twenty_milliseconds() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (mut took, mut round_trips) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let queues = [queue()];
        let woken = async {
            broker.wait_for_work(&queues, Quarantined::All, HOUR).await.unwrap();
            Instant::now()
        };
        let pushed = async {
            until_tracked(&mut redis, 2).await;
            round_trips.push(round_trip(&mut redis).await);
            let at = Instant::now();
            let () = redis.lpush("asynq:{default}:pending", round).await.unwrap();
            at
        };
        let (woken, pushed) = soon(async { tokio::join!(woken, pushed) }).await;
        took.push(woken.saturating_duration_since(pushed));
        let () = redis.del("asynq:{default}:pending").await.unwrap();
    }
    half_are_below(took, Duration::from_millis(20), round_trips);
}

#[tokio::test]
async fn half_of_all_due_tasks_are_pending_within_fifty_milliseconds() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let (mut late, mut round_trips) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut delayed = task(&format!("t{round}"));
        delayed.when = When::In(Duration::from_millis(50));
        let placed = broker.enqueue(vec![delayed]).await.remove(0).unwrap();
        round_trips.push(round_trip(&mut redis).await);
        forward_when_due(&broker).await;
        late.push((broker.now() - placed.process_at).to_std().unwrap_or_default());
    }
    half_are_below(late, Duration::from_millis(50), round_trips);
}

#[tokio::test]
async fn a_flood_of_callers_learns_of_an_outage_in_the_time_of_a_few_calls() {
    let mut server = Server::start(&[]);
    let timeout = Duration::from_millis(500);
    let broker = Arc::new(server.broker_with(in_time(timeout)).await);
    put(&broker, &["before"]).await;
    server.kill();
    broker.enqueue(vec![task("first")]).await.remove(0).unwrap_err();
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for n in 0..10_000 {
        let broker = Arc::clone(&broker);
        callers.spawn(async move { broker.enqueue(vec![task(&n.to_string())]).await.remove(0).unwrap_err() });
    }
    let refused = soon(callers.join_all()).await;
    assert!(refused.iter().all(|error| matches!(error, Refused::Broker(error) if error.is_unavailable())));
    // Two sends of 256 tasks at a time, each of which waits for a connection, would take twenty seconds.
    assert!(began.elapsed() < 12 * timeout, "{:?}", began.elapsed());
}

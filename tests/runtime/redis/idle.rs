//! The cost of an idle server on Redis.

use std::{sync::Arc, time::Instant};

use asynq_runtime::{Registry, broker::Groups as _, prelude::*, server::Running, task::QueueName};
use asynq_test_support::{eventually, soon};
use redis::AsyncCommands;

use super::{
    many_groups::{GROUPS, with_groups},
    server::Server as Redis,
    tasks::{calls, commands, scripts},
};

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// Waits for `times` beats from now on; after a beat has been counted, none is on its way.
async fn beats(running: &Running, times: u64) {
    let beat = &running.signals().beat;
    soon(beat.reached(beat.count() + times)).await;
}

#[tokio::test]
async fn an_idle_server_costs_no_more_than_three_commands_a_second() {
    let redis = Redis::start(&[]);
    let broker = Arc::new(redis.broker().await);
    let server = Server::builder("").broker(broker).registry(Registry::only::<(nothing,)>().unwrap());
    let running = server.build().await.unwrap().start().await.unwrap();
    nothing::enqueue(&running.client()).await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    soon(running.signals().cleaned.reached(1)).await;
    soon(running.signals().subscribed.reached(1)).await;
    beats(&running, 1).await;

    let mut foreign = redis.foreign().await;
    let (begun, before) = (Instant::now(), commands(&mut foreign).await);
    // Each beat takes five seconds. A command of every ten seconds comes once more or less often in a part of the time.
    beats(&running, 6).await;
    let sent = commands(&mut foreign).await - before;
    assert!(sent >= 6, "the beats are counted");
    // A busy machine makes the time longer, and the timers of the server with it.
    let seconds = begun.elapsed().as_secs_f64();
    assert!(sent as f64 <= 3.0 * seconds, "{sent} commands in {seconds:.1} seconds");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_idle_server_costs_the_same_with_any_number_of_queues() {
    const QUEUES: usize = 1_000;
    let redis = Redis::start(&[]);
    let mut foreign = redis.foreign().await;
    let names: Vec<String> = (0..QUEUES).map(|i| format!("tenant:{i}")).collect();
    let () = foreign.sadd("asynq:queues", &names).await.unwrap();
    let server = Server::builder("").broker(Arc::new(redis.broker().await)).queue("tenant:*", 1);
    let server = server.registry(Registry::only::<(nothing,)>().unwrap());
    // The server looks for ripe groups, too, every second.
    let server = server.aggregate("", |_, _| Err::<RawTask, _>("there are no groups")).group_grace("10s");
    let running = server.build().await.unwrap().start().await.unwrap();
    // The first wait is on the connection that all share, and the next ones are on one of their own.
    for round in 1..=3 {
        nothing::job().queue("tenant:7").enqueue(&running.client()).await.unwrap();
        soon(running.signals().settled.reached(round)).await;
    }
    // The janitor looks for something to sweep with its first turn.
    soon(running.signals().cleaned.reached(1)).await;
    beats(&running, 2).await;

    // A slow machine may still look at all queues for the first time. Between such looks, of which there is one a minute, an idle server
    // sends three commands a second, as with one queue, and one more for the groups.
    eventually("the server has come to rest", async || {
        let (begun, before) = (Instant::now(), commands(&mut foreign).await);
        beats(&running, 3).await;
        let (sent, seconds) = (commands(&mut foreign).await - before, begun.elapsed().as_secs_f64());
        (sent as f64 <= 10.0 * seconds).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
}

/// A look at other queues than before is one at all of them, as there is one every minute.
#[tokio::test]
async fn a_look_at_all_queues_repeats_few_of_the_answers_that_are_known() {
    const QUEUES: usize = 1_000;
    /// Most answers that a look repeats, after a minute in which there was none.
    const SHARE: u64 = 192;
    let redis = Redis::start(&[]);
    let (broker, mut foreign) = (redis.broker().await, redis.foreign().await);
    let queues: Vec<QueueName> = (0..=QUEUES).map(|i| QueueName::new(&format!("tenant:{i}")).unwrap()).collect();
    let mut asked = Vec::new();
    for known in [&queues[..QUEUES], &queues[..]] {
        let before = calls(&mut foreign, "scard").await;
        assert!(broker.worth_aggregating(known).await.unwrap().is_empty(), "there are no groups");
        asked.push(calls(&mut foreign, "scard").await - before);
    }
    assert!(asked[0] >= QUEUES as u64, "{asked:?}: the questions are counted");
    assert!((1..=1 + SHARE).contains(&asked[1]), "{asked:?}: only one queue was not known");
}

/// A walk over the groups takes a script for each 200 of them. Without the pause of five seconds behind a walk a server sends hundreds of
/// scripts a second.
#[tokio::test]
async fn an_idle_server_beside_thousands_of_groups_that_are_not_ripe_walks_over_them_now_and_then() {
    const WALKS: u64 = 2;
    let (_redis, mut foreign, broker) = with_groups().await;
    let server = Server::builder("").broker(Arc::new(broker)).registry(Registry::only::<(nothing,)>().unwrap());
    let server = server.aggregate("", |_, _| Err::<RawTask, _>("no group is ripe")).group_grace("1h");
    let running = server.build().await.unwrap().start().await.unwrap();
    let walked = &running.signals().aggregated;
    soon(walked.reached(1)).await;
    let (begun, before) = (Instant::now(), scripts(&mut foreign).await);
    soon(walked.reached(walked.count() + WALKS)).await;
    let sent = scripts(&mut foreign).await - before;
    let seconds = begun.elapsed().as_secs_f64();
    assert!(sent >= WALKS * GROUPS as u64 / 250, "{sent} scripts: the walks are counted");
    // A busy machine makes the time longer, and the pauses of the server with it.
    assert!(sent as f64 <= 12.0 * seconds, "{sent} scripts in {seconds:.1} seconds");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_queue_that_comes_is_served_without_a_look_at_all_again_and_again() {
    let redis = Redis::start(&[]);
    let server = Server::builder("").broker(Arc::new(redis.broker().await)).queue("tenant:*", 1);
    let server = server.registry(Registry::only::<(nothing,)>().unwrap());
    let begun = Instant::now();
    let running = server.build().await.unwrap().start().await.unwrap();
    let mut foreign = redis.foreign().await;
    for (round, queue) in [(1, "tenant:a"), (2, "tenant:b")] {
        nothing::job().queue(queue).enqueue(&running.client()).await.unwrap();
        soon(running.signals().settled.reached(round)).await;
    }
    let looks = calls(&mut foreign, "smembers").await;
    assert!(looks > 0, "the looks are counted");
    // A server looks before and after each announcement, and every ten seconds in any case.
    let allowed = 6 + 2 * (begun.elapsed().as_secs() / 10);
    assert!(looks <= allowed, "{looks} looks, {allowed} may be");
    running.shutdown().await.unwrap();
}

//! Idle servers on a Redis whose tracking table is too small for their queues: it announces each key that it forgets.

use std::{sync::Arc, time::Instant};

use asynq_runtime::{Client, Registry, prelude::*};
use asynq_test_support::{Log, eventually, soon};
use redis::AsyncCommands;

use super::{
    server::Server as Redis,
    tasks::{commands, tracked_keys},
};

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

const QUEUES: usize = 8;
const SERVERS: usize = 2;

#[tokio::test]
async fn idle_servers_do_not_read_again_and_again_what_redis_cannot_track() {
    let log = Log::keep();
    let redis = Redis::start(&["--tracking-table-max-keys", "3"]);
    let mut foreign = redis.foreign().await;
    let names: Vec<String> = (0..QUEUES).map(|i| format!("tenant:{i}")).collect();
    let () = foreign.sadd("asynq:queues", &names).await.unwrap();
    let mut running = Vec::new();
    for _ in 0..SERVERS {
        let server = Server::builder("").broker(Arc::new(redis.broker().await)).queue("tenant:*", 1);
        let server = server.registry(Registry::only::<(nothing,)>().unwrap());
        running.push(server.build().await.unwrap().start().await.unwrap());
    }
    let beats = async |times| {
        for one in &running {
            soon(one.signals().beat.reached(one.signals().beat.count() + times)).await;
        }
    };
    // The second beat of each says that there are two.
    beats(2).await;
    assert!(tracked_keys(&mut foreign).await <= 4, "the table is too small");
    eventually("each server has noticed", async || {
        (log.with("tracking-table-max-keys").len() == SERVERS).then_some(())
    })
    .await;

    let (begun, before) = (Instant::now(), commands(&mut foreign).await);
    beats(2).await;
    let sent = commands(&mut foreign).await - before;
    assert!(sent > 0, "the commands are counted");
    // Four times a second each server asks five questions of each queue, as where tracking is refused. Every ten seconds it needs some
    // hundreds of reads to notice the evictions again, and housekeeping reads anew what it asks.
    let seconds = begun.elapsed().as_secs_f64();
    let allowed = SERVERS as f64 * (seconds * (4.0 * 5.0 * QUEUES as f64 + 40.0) + 500.0);
    assert!(sent as f64 <= allowed, "{sent} commands in {seconds:.1} seconds, {allowed:.0} may be");

    let client = Client::new(Arc::new(redis.broker().await));
    for (ran, name) in names.iter().enumerate() {
        nothing::job().queue(name).enqueue(&client).await.unwrap();
        let settled = || running.iter().map(|one| one.signals().settled.count()).sum::<u64>();
        eventually("the task has run", async || (settled() > ran as u64).then_some(())).await;
    }
    assert_eq!(log.with("tracking-table-max-keys").len(), SERVERS, "it is logged once");
    for one in running {
        one.shutdown().await.unwrap();
    }
}

//! Failures of a Redis under running workers: it is emptied, full, demoted, killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use asynq_runtime::{Client, EnqueueError, job::JobBuilder};
use asynq_tests::{Persistence, RedisServer, eventually, jobs::Record};

use crate::processes::{incidents::all_done, world::World};

const RUNS: usize = 20;

/// Longer than the lease of 30 s.
const LONG: Duration = Duration::from_secs(38);

fn command(server: &RedisServer, words: &[&str]) {
    ::redis::cmd(words[0]).arg(&words[1..]).exec(&mut server.connection()).unwrap();
}

/// Redis loses its whole data set while a worker has 20 runs under way, and 20 tasks wait.
async fn an_emptied_redis_is_worked_on(mut world: World, cause: &str, empty: impl FnOnce(&mut RedisServer)) {
    let mut worker = world.everyday(&[("ASYNQ_CONCURRENCY", "20"), ("SCHEDULE", "* * * * * *")]).await;
    world.held(2 * RUNS, RUNS).await;
    empty(world.redis.as_mut().unwrap());
    let log_line = worker.logs("WARN").await;
    // The running tasks existed in Redis alone; their outcomes have no task any more.
    world.release();
    let new: BTreeSet<_> = world.enqueue_records(50, 1).await.iter().map(ToString::to_string).collect();
    eventually("new tasks are done", async || {
        let history = world.history();
        new.iter().all(|id| history.ends().contains_key(id.as_str())).then_some(())
    })
    .await;
    let before = world.ticks().last();
    eventually("the schedule goes on", async || (world.ticks().last() > before).then_some(())).await;
    assert_eq!((world.history().repeated(), world.ticks().doubled()), (Vec::new(), Vec::new()));
    assert!(!worker.has_ended(), "{}", worker.log());
    println!(
        "incident: Redis emptied by {cause} with {RUNS} jobs running: {} new tasks done, the schedule goes on, 0 run twice; \
         logged: {}",
        new.len(),
        log_line.split("WARN").last().unwrap_or_default().trim()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_worker_goes_on_after_flushall() {
    let world = World::redis().await;
    an_emptied_redis_is_worked_on(world, "FLUSHALL", |server| command(server, &["FLUSHALL"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a quarter of a minute: scripts/prove incidents"]
async fn a_worker_goes_on_after_a_restart_without_data() {
    let world = World::redis_keeping(Persistence::None, "").await;
    let restart = |server: &mut RedisServer| {
        server.kill();
        server.restart();
    };
    an_emptied_redis_is_worked_on(world, "a restart without persistence", restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_full_redis_holds_up_outcomes_and_loses_none() {
    let world = World::redis().await;
    let workers = [world.everyday_of(RUNS).await, world.everyday_of(RUNS).await];
    world.hold();
    // A done task is deleted, and a completed one is kept, so that its outcome needs memory.
    world.enqueue_records(RUNS / 2, 0).await;
    for _ in 0..RUNS / 2 {
        world.client.enqueue(JobBuilder::new(Record { millis: 0 }).retention("1h")).await.unwrap();
    }
    world.started(RUNS).await;
    let server = world.redis.as_ref().unwrap();
    command(server, &["CONFIG", "SET", "maxmemory", "1"]);
    let Err(EnqueueError::Broker(refused)) = world.client.enqueue(Record { millis: 0 }).await else {
        panic!("a full Redis takes no task")
    };
    assert!(refused.is_full(), "{refused:?}");
    world.release();
    eventually("all end while Redis is full", async || (world.history().ends().len() == RUNS).then_some(())).await;
    tokio::time::sleep(LONG).await;
    let active = world.stats().await.active;
    command(server, &["CONFIG", "SET", "maxmemory", "0"]);
    all_done(&world, RUNS).await;
    drop(workers);
    println!(
        "incident: Redis full (noeviction) for {LONG:?} while {RUNS} jobs end: enqueue refused ({refused}), {active} outcomes \
         had to wait for room, 0 run twice, {RUNS} done"
    );
}

/// The primary becomes the replica of another server, and then the primary again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes two minutes: scripts/prove incidents"]
async fn a_demoted_redis_holds_up_outcomes_and_loses_none() {
    let world = World::redis().await;
    let _workers = [world.everyday_of(RUNS).await, world.everyday_of(RUNS).await];
    world.held(2 * RUNS, 2 * RUNS).await;
    let (server, other) = (world.redis.as_ref().unwrap(), RedisServer::start(Persistence::None));
    let follow = |replica: &RedisServer, primary: &RedisServer| {
        command(replica, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    };
    let is_in_step = |replica: &RedisServer| {
        let info: String = ::redis::cmd("INFO").arg("replication").query(&mut replica.connection()).unwrap();
        info.contains("master_link_status:up").then_some(())
    };
    follow(&other, server);
    eventually("the other has everything", async || is_in_step(&other)).await;
    command(&other, &["REPLICAOF", "NO", "ONE"]);
    follow(server, &other);
    eventually("it is a replica", async || is_in_step(server)).await;
    let Err(EnqueueError::Broker(refused)) =
        Client::connect(&world.url).await.unwrap().enqueue(Record { millis: 0 }).await
    else {
        panic!("a replica takes no task")
    };
    assert!(refused.is_unavailable(), "{refused:?}");
    world.release();
    eventually("all end meanwhile", async || (world.history().ends().len() == 2 * RUNS).then_some(())).await;
    tokio::time::sleep(LONG).await;
    command(server, &["REPLICAOF", "NO", "ONE"]);
    all_done(&world, 2 * RUNS).await;
    println!(
        "incident: Redis demoted (REPLICAOF, READONLY) for {LONG:?} while {} jobs end: enqueue refused ({refused}), 0 run \
         twice, {} done",
        2 * RUNS,
        2 * RUNS
    );
}

/// Redis is killed three times under load and comes back with its persisted data.
async fn a_killed_redis_loses_nothing_that_it_stored(persistence: Persistence) {
    let mut world = World::redis_keeping(persistence, "").await;
    let _workers = [world.everyday_of(4).await, world.everyday_of(4).await];
    let client = Client::connect(&world.url).await.unwrap();
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let producing = tokio::spawn(async move {
        let (mut stored, mut again) = (BTreeMap::new(), 0);
        for number in 0.. {
            let (id, begun) = (format!("n{number}"), Instant::now());
            loop {
                match client.enqueue(JobBuilder::new(Record { millis: 1 }).task_id(&id).retention("1h")).await {
                    // An earlier call, whose answer was lost, stored the task.
                    Ok(_) | Err(EnqueueError::IdConflict { .. }) => break,
                    Err(EnqueueError::Broker(error)) if error.is_unavailable() => again += 1,
                    Err(error) => panic!("{error:?}"),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stored.insert(id, begun..=Instant::now());
            if tokio::time::timeout(Duration::from_millis(2), stopped.wait_for(|stop| *stop)).await.is_ok() {
                break;
            }
        }
        (stored, again)
    });
    let mut kills = Vec::new();
    for _ in 0..3 {
        let before = world.history().ends().len();
        eventually("work goes on", async || (world.history().ends().len() > before + 50).then_some(())).await;
        kills.push(Instant::now());
        world.redis.as_mut().unwrap().kill();
        world.redis.as_mut().unwrap().restart();
    }
    stop.send_replace(true);
    let (stored, again) = producing.await.unwrap();
    let stats = world.settled().await;
    let history = world.history();
    let ends = history.ends();
    let lost: Vec<_> = stored.iter().filter(|(id, _)| !ends.contains_key(id.as_str())).collect();
    let (gone, twice) = (lost.len(), history.repeated().len());
    if persistence == Persistence::EverySecond {
        // Redis answers for up to two seconds while a sync delays its log: a kill loses the writes of that time.
        let is_held_up = |call: &RangeInclusive<Instant>| {
            kills.iter().any(|kill| *call.start() <= *kill && *kill <= *call.end() + Duration::from_secs(2))
        };
        assert!(lost.iter().all(|(_, call)| is_held_up(call)), "{lost:?}, killed at {kills:?}");
    } else {
        assert_eq!((lost, history.repeated()), (Vec::new(), Vec::new()));
    }
    assert_eq!(stats.archived, 0);
    println!(
        "incident: Redis killed by -9 three times under load, AOF {persistence:?}: {} enqueued ({again} calls made again), \
         {gone} lost, {twice} run twice",
        stored.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_loses_nothing_with_an_aof_that_is_written_always() {
    a_killed_redis_loses_nothing_that_it_stored(Persistence::Always).await;
}

/// The process dies, not the machine: Redis's writes to the operating system survive, and those are nearly all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_loses_nothing_with_an_aof_that_is_synced_every_second() {
    a_killed_redis_loses_nothing_that_it_stored(Persistence::EverySecond).await;
}

//! Ordinary failures of a schedule: deploys, roll-backs, leaders that die or stop, providers that do not answer.

use std::time::Duration;

use asynq_tests::{eventually, unruly::Ticks};
use chrono::Utc;

use crate::processes::world::{Worker, World};

const EACH_SECOND: &str = "* * * * * *";

/// Starts a worker of this release with this schedule.
async fn deploy(world: &World, release: u32, schedule: &str) -> Worker {
    world.everyday(&[("ASYNQ_RELEASE", &release.to_string()), ("SCHEDULE", schedule)]).await
}

/// Waits until ticks of `n` seconds after `second` have run, and returns all ticks.
async fn ticks_after(world: &World, second: i64, n: usize) -> Ticks {
    eventually("ticks come", async || {
        let ticks = world.ticks();
        (ticks.0.range(second + 1..).count() >= n).then_some(ticks)
    })
    .await
}

/// Waits until the tick of this moment has come and the queue is idle: a tick that is missing then does not come any more.
async fn until_now(world: &World) -> Ticks {
    let now = Utc::now().timestamp();
    eventually("the schedule has come to this moment", async || (world.ticks().last() >= Some(now)).then_some(()))
        .await;
    eventually("no tick of before is missing", async || {
        let mut ticks = world.ticks();
        ticks.0.split_off(&now);
        ticks.missing(1).is_empty().then_some(())
    })
    .await;
    world.ticks()
}

/// Returns the worker that leads, and the others.
async fn leader(mut workers: Vec<Worker>) -> (Worker, Vec<Worker>) {
    let at = eventually("a scheduler leads", async || workers.iter().position(Worker::leads)).await;
    (workers.swap_remove(at), workers)
}

/// How the new release ends.
#[derive(Clone, Copy, PartialEq)]
enum Goes {
    InOrder,
    Killed,
}

async fn a_roll_back_brings_the_old_schedule_back(world: World, goes: Goes) {
    let old = deploy(&world, 1, EACH_SECOND).await;
    ticks_after(&world, 0, 2).await;
    let new = deploy(&world, 2, "0 0 0 1 * *").await;
    new.logs("~ tock").await;
    drop(old);
    let quiet = world.ticks().last().unwrap_or_default();
    let mut rolled_back = deploy(&world, 1, EACH_SECOND).await;
    let gone = Utc::now();
    match goes {
        Goes::InOrder => {
            new.signal("TERM");
            let mut new = new;
            assert!(new.ended().await.success());
        }
        Goes::Killed => drop(new),
    }
    let ticks = ticks_after(&world, quiet, 3).await;
    let first = ticks.0.range(quiet + 1..).flat_map(|(_, tasks)| tasks.values()).min().copied().unwrap();
    assert_eq!(ticks.doubled(), [0; 0]);
    assert!(!rolled_back.has_ended());
    let how = if goes == Goes::Killed { "killed" } else { "stopped" };
    println!(
        "incident: deploy rolled back on {}, new release with a monthly schedule {how}: the job ticks each second again \
         {:.1?} later, 0 ticks twice",
        world.broker().kind(),
        (first - gone).to_std().unwrap_or_default()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_roll_back_brings_the_old_schedule_back_on_redis() {
    a_roll_back_brings_the_old_schedule_back(World::redis().await, Goes::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_roll_back_brings_the_old_schedule_back_on_sqlite() {
    a_roll_back_brings_the_old_schedule_back(World::sqlite().await, Goes::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn a_roll_back_from_a_killed_release_brings_the_old_schedule_back_on_redis() {
    a_roll_back_brings_the_old_schedule_back(World::redis().await, Goes::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn a_roll_back_from_a_killed_release_brings_the_old_schedule_back_on_sqlite() {
    a_roll_back_brings_the_old_schedule_back(World::sqlite().await, Goes::Killed).await;
}

/// Two releases run side by side for a while, as in a canary deploy; the newer one ticks every other second.
async fn of_two_releases_one_fires(world: World) {
    const SECONDS: i64 = 20;
    let _old = [deploy(&world, 1, EACH_SECOND).await, deploy(&world, 1, EACH_SECOND).await];
    ticks_after(&world, 0, 2).await;
    let new = deploy(&world, 2, "*/2 * * * * *").await;
    new.logs("~ tock").await;
    let taken_over = Utc::now().timestamp();
    let end = taken_over + SECONDS;
    eventually("both run for a while", async || (world.ticks().last() >= Some(end)).then_some(())).await;
    let ticks = world.ticks();
    assert_eq!(ticks.doubled(), [0; 0]);
    // The tick of that second may come from either release.
    let mut since = ticks;
    since.0 = since.0.split_off(&(taken_over + 1));
    assert_eq!(since.missing(2), [0; 0]);
    assert!(since.0.keys().all(|second| second % 2 == 0), "{:?}", since.0.keys());
    println!(
        "incident: old and new release side by side for {SECONDS} s on {}: {} ticks, all of the new schedule, 0 twice",
        world.broker().kind(),
        since.0.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn of_two_releases_one_fires_on_redis() {
    of_two_releases_one_fires(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn of_two_releases_one_fires_on_sqlite() {
    of_two_releases_one_fires(World::sqlite().await).await;
}

/// The provider of further periodic jobs waits on a connection that does not answer any more.
async fn a_provider_that_hangs_stops_no_other_job(world: World) {
    // Longer than a scheduler with room for 64 calls would last at one call a second.
    const SECONDS: i64 = 75;
    let worker = world.everyday(&[("SCHEDULE", EACH_SECOND), ("HANGING_PROVIDER", "1")]).await;
    ticks_after(&world, 0, 1).await;
    tokio::time::sleep(Duration::from_secs(SECONDS as u64)).await;
    let ticks = until_now(&world).await;
    assert_eq!((ticks.doubled(), ticks.missing(1)), (Vec::new(), Vec::new()));
    let log_line = worker.logs("the provider of periodic entries has not answered").await;
    println!(
        "incident: provider hangs for {SECONDS} s on {}: {} ticks, 0 missing, 0 twice; logged: {}",
        world.broker().kind(),
        ticks.0.len(),
        log_line.split("WARN").last().unwrap_or_default().trim()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes more than a minute: scripts/prove incidents"]
async fn a_provider_that_hangs_stops_no_other_job_on_redis() {
    a_provider_that_hangs_stops_no_other_job(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes more than a minute: scripts/prove incidents"]
async fn a_provider_that_hangs_stops_no_other_job_on_sqlite() {
    a_provider_that_hangs_stops_no_other_job(World::sqlite().await).await;
}

/// The leader of three workers is killed, and the next one stands still.
async fn leaders_that_die_or_stand_still_cost_no_tick(world: World) {
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(deploy(&world, 1, EACH_SECOND).await);
    }
    ticks_after(&world, 0, 2).await;
    let (killed, others) = leader(workers).await;
    killed.kill();
    // A tick that the killed leader was running is recovered when its lease is over.
    let (stopped, others) = leader(others).await;
    let ticks = until_now(&world).await;
    assert_eq!(ticks.doubled(), [0; 0]);
    let longest = ticks.longest_gap();
    println!(
        "incident: leader killed on {}: {} ticks, 0 missing, 0 twice, longest gap {longest:.1?}",
        world.broker().kind(),
        ticks.0.len()
    );

    let before = ticks.last().unwrap();
    stop_outside_of_a_write(&world, &stopped).await;
    let (_successor, _others) = leader(others).await;
    stopped.signal("CONT");
    let mut ticks = until_now(&world).await;
    ticks.0 = ticks.0.split_off(&before);
    assert_eq!(ticks.doubled(), [0; 0]);
    println!(
        "incident: leader stopped by SIGSTOP on {}: {} ticks, 0 missing, 0 twice, longest gap {:.1?}",
        world.broker().kind(),
        ticks.0.len(),
        ticks.longest_gap()
    );
}

/// Stops a worker outside of a write: a program that is stopped in the middle of one keeps the SQLite file's lock, as the guide
/// says.
async fn stop_outside_of_a_write(world: &World, worker: &Worker) {
    eventually("it is stopped while it does not write", async || {
        worker.signal("STOP");
        if world.redis.is_some() {
            return Some(());
        }
        let other = rusqlite::Connection::open(world.file()).unwrap();
        other.busy_timeout(Duration::from_secs(3)).unwrap();
        let is_free = other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        if !is_free {
            worker.signal("CONT");
        }
        is_free.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn leaders_that_die_or_stand_still_cost_no_tick_on_redis() {
    leaders_that_die_or_stand_still_cost_no_tick(World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn leaders_that_die_or_stand_still_cost_no_tick_on_sqlite() {
    leaders_that_die_or_stand_still_cost_no_tick(World::sqlite().await).await;
}

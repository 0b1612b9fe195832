//! The wall clock that tells the leases steps while workers have runs: that of the machine with a SQLite file, and Redis's own.

use std::time::Duration;

use asynq_tests::{WallClock, eventually, journal::Event, skip};
use chrono::{TimeDelta, Utc};

use crate::processes::{incidents::all_done, world::World};

const RUNS: usize = 6;

/// Longer than the lease of 10 s.
const STEP: TimeDelta = TimeDelta::seconds(15);

/// More than two leases.
const AFTERWARDS: Duration = Duration::from_secs(25);

/// How far the workers' clock is ahead of the machine's, as a task of theirs tells.
async fn ahead(world: &World) -> TimeDelta {
    let id = world.enqueue_records(1, 0).await.remove(0).to_string();
    eventually("a task begins", async || {
        let history = world.history();
        let line = history.lines.iter().find(|line| line.event == Event::Start && line.id == id)?;
        Some(line.clock - line.at)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_wall_clock_that_steps_ahead_and_back_takes_nothing_from_two_workers() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    let world = World::sqlite().await;
    let environment = clock.environment();
    let settings = environment.iter().map(|(name, value)| (*name, value.as_str()));
    let settings: Vec<_> = settings.chain([("ASYNQ_CONCURRENCY", "8")]).collect();
    let _workers = [world.everyday(&settings).await, world.everyday(&settings).await];
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    let mut runs = RUNS;
    for (seconds, is_ahead) in [(STEP.num_seconds(), true), (0, false)] {
        clock.step_to(seconds);
        assert_eq!(ahead(&world).await > STEP / 2, is_ahead, "the workers' clock did not step");
        runs += 1;
        tokio::time::sleep(AFTERWARDS).await;
        assert_eq!(world.history().repeated(), []);
    }
    world.release();
    all_done(&world, runs).await;
    println!(
        "incident: wall clock 15 s ahead under 2 workers of SQLite, {AFTERWARDS:?} later back again, {RUNS} jobs running: 0 \
         run twice, {runs} done"
    );
}

/// Longer than the lease of 30 s.
const STEP_OF_REDIS: i64 = 40;

/// Longer than lapses are not believed after a step, and than a lease.
const AFTERWARDS_ON_REDIS: Duration = Duration::from_secs(35);

/// How far Redis's clock is ahead of this machine's, in seconds.
fn redis_is_ahead(world: &World) -> i64 {
    let mut connection = world.redis.as_ref().unwrap().connection();
    let (seconds, _): (i64, i64) = ::redis::cmd("TIME").query(&mut connection).unwrap();
    seconds - Utc::now().timestamp()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_clock_of_redis_that_steps_ahead_and_back_takes_nothing_from_two_workers() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    let world = World::redis_by_clock(&clock).await;
    let settings = [("ASYNQ_CONCURRENCY", "8")];
    let _workers = [world.everyday(&settings).await, world.everyday(&settings).await];
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    let mut runs = RUNS;
    for (seconds, is_ahead) in [(STEP_OF_REDIS, true), (0, false)] {
        clock.step_to(seconds);
        assert_eq!(redis_is_ahead(&world) > STEP_OF_REDIS / 2, is_ahead, "Redis's clock did not step");
        world.enqueue_records(1, 0).await;
        runs += 1;
        world.started(runs).await;
        tokio::time::sleep(AFTERWARDS_ON_REDIS).await;
        assert_eq!(world.history().repeated(), []);
    }
    world.release();
    all_done(&world, runs).await;
    println!(
        "incident: Redis's clock {STEP_OF_REDIS} s ahead under 2 workers, {AFTERWARDS_ON_REDIS:?} later back again, {RUNS} jobs running: \
         0 run twice, {runs} done"
    );
}

//! The wall clock behind the leases steps while workers have runs: the machine's for a SQLite file, and Redis's own.

use std::time::Duration;

use asynq_tests::{WallClock, eventually, journal::Event, skip};
use chrono::{TimeDelta, Utc};

use crate::processes::{incidents::all_done, world::World};

const RUNS: usize = 6;

/// How far the workers' clock is ahead of the machine's, according to a task that they run.
async fn ahead(world: &World) -> TimeDelta {
    let id = world.enqueue_records(1, 0).await.remove(0).to_string();
    eventually("a task begins", async || {
        let history = world.history();
        let line = history.lines.iter().find(|line| line.event == Event::Start && line.id == id)?;
        Some(line.clock - line.at)
    })
    .await
}

/// How far Redis's clock is ahead of the machine's.
async fn redis_is_ahead(world: &World) -> TimeDelta {
    let mut connection = world.redis.as_ref().unwrap().connection();
    let (seconds, _): (i64, i64) = ::redis::cmd("TIME").query(&mut connection).unwrap();
    world.enqueue_records(1, 0).await;
    TimeDelta::seconds(seconds - Utc::now().timestamp())
}

/// Two workers have runs; the clock steps `step` seconds ahead, and back `afterwards`. A task is enqueued after each step.
async fn steps_take_nothing(
    world: &World,
    clock: &WallClock,
    settings: &[(&str, &str)],
    (step, afterwards): (i64, Duration),
    ahead: impl AsyncFn(&World) -> TimeDelta,
) -> usize {
    let settings: Vec<_> = settings.iter().copied().chain([("ASYNQ_CONCURRENCY", "8")]).collect();
    let _workers = [world.everyday(&settings).await, world.everyday(&settings).await];
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    let mut runs = RUNS;
    for seconds in [step, 0] {
        clock.step_to(seconds);
        assert_eq!(ahead(world).await > TimeDelta::seconds(step) / 2, seconds > 0, "the clock did not step");
        runs += 1;
        world.started(runs).await;
        tokio::time::sleep(afterwards).await;
        assert_eq!(world.history().repeated(), []);
    }
    world.release();
    all_done(world, runs).await;
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_wall_clock_that_steps_ahead_and_back_takes_nothing_from_two_workers() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    let world = World::sqlite().await;
    let environment = clock.environment();
    let settings: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    // Longer than the lease of 10 s, and more than two leases.
    let (step, afterwards) = (15, Duration::from_secs(25));
    let done = steps_take_nothing(&world, &clock, &settings, (step, afterwards), ahead).await;
    println!(
        "incident: wall clock {step} s ahead under 2 workers of SQLite, {afterwards:?} later back again, {RUNS} jobs running: 0 \
         run twice, {done} done"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_clock_of_redis_that_steps_ahead_and_back_takes_nothing_from_two_workers() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    let world = World::redis_by_clock(&clock).await;
    // Longer than the lease of 30 s; longer than a lease and than the time after a step in which lapses do not count.
    let (step, afterwards) = (40, Duration::from_secs(35));
    let done = steps_take_nothing(&world, &clock, &[], (step, afterwards), redis_is_ahead).await;
    println!(
        "incident: Redis's clock {step} s ahead under 2 workers, {afterwards:?} later back again, {RUNS} jobs running: 0 run \
         twice, {done} done"
    );
}

//! The wall clock behind the leases steps while workers have runs: the machine's for a SQLite file, and Redis's own.

use std::time::Duration;

use asynq_runtime::job::JobBuilder;
use asynq_tests::{WallClock, eventually, jobs::Record, journal::Event, skip};
use chrono::{TimeDelta, Utc};

use crate::processes::{incidents::all_done, world::World};

const RUNS: usize = 6;
/// How far the clock of a schedule is ahead before it is set back, in seconds.
const AHEAD: i64 = 600;

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
    world.held(RUNS, RUNS).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_wall_clock_that_steps_ahead_of_redis_ends_no_task_before_its_deadline() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    let world = World::redis().await;
    let environment = clock.environment();
    let settings: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let _worker = world.everyday(&settings).await;
    ahead(&world).await;
    clock.step_to(2 * 3600);
    for _ in 0..RUNS {
        world.client.enqueue(JobBuilder::new(Record { millis: 0 }).deadline("30m")).await.unwrap();
    }
    all_done(&world, RUNS + 1).await;
    println!("incident: wall clock 2 h ahead under a worker of Redis: {RUNS} tasks with a deadline in 30 minutes done");
}

/// A schedule and its broker are on one machine, whose clock is ahead and is set back.
async fn a_clock_that_is_set_back_stops_no_schedule(world: &World, clock: &WallClock) {
    let environment = clock.environment();
    let settings = environment.iter().map(|(name, value)| (*name, value.as_str()));
    let _worker = world.everyday(&settings.chain([("SCHEDULE", "* * * * * *")]).collect::<Vec<_>>()).await;
    eventually("ticks come ahead of the time", async || (world.ticks().0.len() >= 2).then_some(())).await;
    clock.step_to(0);
    let back = Utc::now();
    let now = back.timestamp()..back.timestamp() + AHEAD / 2;
    let first =
        eventually("the schedule goes on", async || world.ticks().0.range(now.clone()).next().map(|(&at, _)| at));
    let first = first.await - back.timestamp();
    assert_eq!(world.ticks().doubled(), [0; 0]);
    println!(
        "incident: clock of a schedule and its broker set back by {AHEAD} s on {}: the first tick is that of {first} s later, 0 \
         ticks twice",
        world.broker().kind()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_clock_that_is_set_back_stops_no_schedule_on_sqlite() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    clock.step_to(AHEAD);
    a_clock_that_is_set_back_stops_no_schedule(&World::sqlite().await, &clock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten seconds: scripts/prove incidents"]
async fn a_clock_that_is_set_back_stops_no_schedule_on_redis() {
    let Some(clock) = WallClock::new() else { skip!("{}", WallClock::MISSING) };
    clock.step_to(AHEAD);
    a_clock_that_is_set_back_stops_no_schedule(&World::redis_by_clock(&clock).await, &clock).await;
}

//! The wall clock of a machine steps while workers run on a SQLite file, whose leases it tells.

use std::time::Duration;

use asynq_tests::{WallClock, eventually, journal::Event, skip};
use chrono::TimeDelta;

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
    let Some(clock) = WallClock::new() else { skip!("libfaketime is not installed") };
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

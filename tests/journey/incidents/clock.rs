//! The wall clock of a machine steps while workers run on a SQLite file, whose leases it tells. libfaketime steps it for them alone.

use std::{fs, path::PathBuf, time::Duration};

use asynq_tests::{eventually, journal::Event, skip};
use chrono::{TimeDelta, Utc};
use tempfile::TempDir;

use crate::journey::{incidents::all_done, world::World};

const RUNS: usize = 6;

/// Longer than the lease of 10 s.
const STEP: TimeDelta = TimeDelta::seconds(15);

/// More than two leases.
const AFTERWARDS: Duration = Duration::from_secs(25);

fn libfaketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

/// How far the workers' clock is ahead of the test's, as a task of theirs tells.
async fn ahead(world: &World) -> TimeDelta {
    let id = world.enqueue_records(1, 0).await.remove(0).to_string();
    eventually("a task begins", async || {
        let history = world.history();
        let line = history.lines.iter().find(|line| line.event == Event::Start && line.id == id)?;
        Some(line.at - Utc::now())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: scripts/prove incidents"]
async fn a_wall_clock_that_steps_ahead_and_back_takes_nothing_from_two_workers() {
    let Some(library) = libfaketime() else { skip!("libfaketime is not installed") };
    let (world, folder) = (World::sqlite().await, TempDir::new().unwrap());
    let offset = folder.path().join("offset");
    // Read at every look at the clock, so it must always be whole.
    let step = |seconds: i64| {
        fs::write(folder.path().join("new"), format!("{seconds:+}\n")).unwrap();
        fs::rename(folder.path().join("new"), &offset).unwrap();
    };
    step(0);
    let settings = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", offset.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        // The wall clock steps; the time since the machine started, the file system's and sleeps do not.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
        ("ASYNQ_CONCURRENCY", "8"),
    ];
    let _workers = [world.everyday(&settings).await, world.everyday(&settings).await];
    world.hold();
    world.enqueue_records(RUNS, 0).await;
    world.started(RUNS).await;
    let mut runs = RUNS;
    for (seconds, is_ahead) in [(STEP.num_seconds(), true), (0, false)] {
        step(seconds);
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

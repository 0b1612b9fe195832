//! A SQLite file on a disk that gets full: by its own tasks, and by another file.

use std::{fs, path::Path, time::Duration};

use asynq_runtime::EnqueueError;
use asynq_tests::{eventually, jobs::Parcel, skip};

use crate::processes::{incidents::all_done, small_disk, world::World};

/// More than two leases.
const FULL: Duration = Duration::from_secs(25);

async fn story(folder: &Path) {
    const RUNS: usize = 4;
    let world = World::at(format!("sqlite://{}", folder.join("jobs.db").display())).await;
    let mut worker = world.everyday_of(RUNS).await;
    world.hold();
    let mut stored = 0;
    let refused = loop {
        match world.client.enqueue(Parcel { content: vec![b'x'; 300_000] }).await {
            Ok(_) => stored += 1,
            Err(EnqueueError::Broker(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
        assert!(stored < 1_000, "24 megabytes hold no more");
    };
    assert!(refused.is_full(), "{refused:?}");
    world.started(RUNS).await;
    // Another file, such as a log, takes the rest of the disk while runs end.
    let filler = folder.join("filler");
    small_disk::fill(&filler);
    world.release();
    eventually("runs end on a full disk", async || (world.history().ends().len() >= RUNS).then_some(())).await;
    tokio::time::sleep(FULL).await;
    let done = world.stats().await.processed_total;
    assert_eq!(world.history().repeated(), []);
    assert!(!worker.has_ended(), "{}", worker.log());
    fs::remove_file(filler).unwrap();
    all_done(&world, stored).await;
    world.client.enqueue(Parcel { content: vec![b'x'; 300_000] }).await.expect("there is room again");
    all_done(&world, stored + 1).await;
    println!(
        "incident: disk of SQLite full of tasks: enqueue refused ({refused}); then of other files for {FULL:?}: {done} of \
         {stored} tasks done meanwhile, 0 lost, 0 run twice"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn a_full_disk_holds_up_outcomes_and_loses_none() {
    const NAME: &str = "processes::incidents::disk::a_full_disk_holds_up_outcomes_and_loses_none";
    if !small_disk::run_on("24m", NAME, "incident: ", story).await {
        skip!("this user may not mount a small file system");
    }
}

//! Changes of a SQLite file under running workers: deletion, replacement by another file, a restored backup, a second name.

use std::{
    fs, mem,
    path::{Path, PathBuf},
    time::Instant,
};

use asynq_runtime::Client;
use asynq_tests::{eventually, jobs::Record};

use crate::processes::{
    incidents::all_done,
    world::{Worker, World},
};

const RUNS: usize = 4;

/// The path of the file with `suffix` appended.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", file.display()))
}

/// Starts a worker and returns with its runs under way.
async fn at_work() -> (World, Worker) {
    let world = World::sqlite().await;
    let worker = world.everyday_of(RUNS).await;
    world.held(2 * RUNS, RUNS).await;
    (world, worker)
}

/// The broker is gone for good: the worker says so and ends with an error, for its supervisor. The next worker works.
async fn the_worker_ends_and_the_next_one_works(
    world: &mut World,
    mut worker: Worker,
    damage: &str,
    check: impl FnOnce(),
) {
    let began = Instant::now();
    let status = worker.ended().await;
    let ended = began.elapsed();
    assert_eq!(status.code(), Some(1), "{}", worker.log());
    let log_line = worker.logs("error: ").await;
    check();
    world.release();
    // A program that had the old file open, too, and goes on, keeps no worker out for long. Until it has closed the file, the next worker
    // may end at its start with an error that says so.
    let forgotten = mem::replace(&mut world.client, Client::connect("sqlite::memory:").await.unwrap());
    let mut next = world.launched(&[]);
    eventually("one that a supervisor starts again serves", async || {
        if next.has_ended() {
            next = world.launched(&[]);
        }
        next.log().contains("serving").then_some(())
    })
    .await;
    let new = Client::connect(&world.url).await.unwrap().enqueue(Record { millis: 0 }).await.unwrap().id;
    // Nor does its end take anything from the others.
    forgotten.broker().close().await;
    drop(forgotten);
    eventually("a new task is done", async || world.history().ends().get(new.as_str()).map(|_| ())).await;
    println!(
        "incident: SQLite file {damage}: the worker ended after {ended:.1?} with {status}, the next one works: {log_line}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for what is left of the shutdown timeout: scripts/prove incidents"]
async fn a_worker_whose_file_is_removed_ends_with_an_error() {
    let (mut world, worker) = at_work().await;
    fs::remove_file(world.file()).unwrap();
    the_worker_ends_and_the_next_one_works(&mut world, worker, "removed", || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for what is left of the shutdown timeout: scripts/prove incidents"]
async fn a_worker_whose_file_is_replaced_ends_with_an_error_and_does_not_touch_the_new_one() {
    let (mut world, worker) = at_work().await;
    let other = World::sqlite().await;
    let waiting = other.enqueue_records(1, 0).await.remove(0);
    // A backup is a complete file without a write-ahead log.
    rusqlite::Connection::open(other.file())
        .unwrap()
        .execute("VACUUM INTO ?1", [beside(&world.file(), "-new").to_str().unwrap()])
        .unwrap();
    let new = fs::read(beside(&world.file(), "-new")).unwrap();
    fs::rename(beside(&world.file(), "-new"), world.file()).unwrap();
    let damage = "replaced by another (mv new jobs.db)";
    let file = world.file();
    let check = || assert!(fs::read(file).unwrap() == new, "nothing was written into the other file");
    the_worker_ends_and_the_next_one_works(&mut world, worker, damage, check).await;
    eventually("so is the one in it", async || world.history().ends().get(waiting.as_str()).map(|_| ())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for what is left of the shutdown timeout: scripts/prove incidents"]
async fn a_worker_whose_log_is_removed_ends_with_an_error() {
    let (mut world, worker) = at_work().await;
    fs::remove_file(beside(&world.file(), "-wal")).unwrap();
    the_worker_ends_and_the_next_one_works(&mut world, worker, "without its -wal", || {}).await;
}

/// How a backup is restored.
enum Restored {
    /// As the guide says: every program stops, the log is deleted, and the copy replaces the file.
    ByTheGuide,
    /// The worker stops, and the copy replaces the file beside the log that is still there.
    BesideTheLog,
}

async fn a_backup_that_is_put_in_place_is_worked_off(restored: Restored) {
    let (world, mut worker) = at_work().await;
    let copy = beside(&world.file(), "-backup");
    let backup = rusqlite::Connection::open(world.file()).unwrap();
    backup.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    drop(backup);
    world.client.broker().close().await;
    let how = match restored {
        Restored::ByTheGuide => {
            worker.kill();
            for suffix in ["-wal", "-shm"] {
                fs::remove_file(beside(&world.file(), suffix)).unwrap();
            }
            "worker killed, log removed"
        }
        Restored::BesideTheLog => {
            // The worker's progress after the backup is lost with the restore.
            world.release();
            eventually("all is done", async || (world.history().ends().len() == 2 * RUNS).then_some(())).await;
            worker.signal("TERM");
            assert!(worker.ended().await.success());
            fs::remove_file(world.journal()).unwrap();
            world.hold();
            "worker stopped, log forgotten"
        }
    };
    fs::rename(copy, world.file()).unwrap();
    world.release();
    let began = Instant::now();
    let _worker = world.everyday_of(RUNS).await;
    eventually("all of the backup is done", async || (world.history().ends().len() == 2 * RUNS).then_some(())).await;
    println!(
        "incident: backup by VACUUM INTO put in place ({how}), {RUNS} of its tasks running then: all {} done {:.1?} later",
        2 * RUNS,
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_put_in_place_by_the_guide_is_worked_off() {
    a_backup_that_is_put_in_place_is_worked_off(Restored::ByTheGuide).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for two leases: scripts/prove incidents"]
async fn a_backup_that_is_put_in_place_beside_the_log_is_worked_off() {
    a_backup_that_is_put_in_place_is_worked_off(Restored::BesideTheLog).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_name_of_a_file_in_use_is_refused_and_costs_nothing() {
    let (world, _worker) = at_work().await;
    let name = beside(&world.file(), "-too");
    fs::hard_link(world.file(), &name).unwrap();
    let mut other = world.launched(&[("ASYNQ_URL", &format!("sqlite://{}", name.display()))]);
    let status = other.ended().await;
    assert_eq!(status.code(), Some(1), "{}", other.log());
    let log_line = other.logs("error: ").await;
    fs::remove_file(name).unwrap();
    world.release();
    all_done(&world, 2 * RUNS).await;
    println!(
        "incident: SQLite file with a second hard link: a worker on it ends with {status}: {log_line}; the first goes on"
    );
}

//! Four worker processes on one SQLite file, one of them killed every half second.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use asynq_runtime::{TaskId, TaskState};
use asynq_tests::{eventually, journal::Event};
use chrono::Utc;

use crate::processes::world::{Worker, World};

const KILLS: usize = 12;
const BATCH: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_on_one_file_lose_nothing_when_one_dies_every_half_second() {
    let world = World::sqlite().await;
    let mut workers: Vec<_> = (0..4).map(|_| world.worker(8)).collect();
    let (mut accepted, mut slowest) = (Vec::new(), Duration::ZERO);
    let mut killed_runs = HashSet::new();

    for turn in 0..KILLS {
        // Counted from before the enqueue: on a busy machine the workers may have done the whole batch when the enqueue returns.
        let at_least = world.history().lines.len() + 20;
        accepted.extend(world.enqueue_records(BATCH, 30).await);
        eventually("the workers go on", async || (world.history().lines.len() >= at_least).then_some(())).await;

        let (killed, began) = (Utc::now(), Instant::now());
        let pid = workers.remove(turn % 4).kill();
        let cut_off: Vec<_> = world.history().cut_off(pid).iter().map(|line| (line.id.clone(), line.fence)).collect();
        workers.push(world.worker(8));
        for (id, fence) in cut_off {
            // The lease lasts for an hour: the task comes back because the death is noticed.
            let again = eventually("a task of the dead process comes back", async || {
                let history = world.history();
                let again = history.lines.iter().find(|line| line.id == id && line.fence > fence);
                if let Some(again) = again {
                    return Some(again.at);
                }
                // The task may have been settled just before the kill, with the line of its end not written yet.
                let task = world.broker().task(&World::queue(), &TaskId::from_wire(&id)).await.ok()?;
                task.is_none().then_some(killed)
            })
            .await;
            slowest = slowest.max((again - killed).to_std().unwrap_or_default());
            killed_runs.insert((id, fence));
        }
        // One kill every half second, measured from kill to kill.
        tokio::time::sleep(Duration::from_millis(500).saturating_sub(began.elapsed())).await;
    }

    let stats = world.settled().await;
    let history = world.history();
    let ends = history.ends();
    let lost: Vec<_> = accepted.iter().filter(|id| !ends.contains_key(id.as_str())).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(stats.processed_total as usize, accepted.len(), "settled exactly once each");
    assert_eq!((stats.failed_total, stats.archived), (0, 0));
    for (id, runs) in history.repeated() {
        let explained = history
            .lines
            .iter()
            .filter(|line| line.event == Event::Start && line.id == id)
            .filter(|line| killed_runs.contains(&(line.id.clone(), line.fence)) || dead(line.pid, &workers))
            .count();
        assert!(explained + 1 >= runs, "{id} ran {runs} times, {explained} of them in a killed process");
    }
    assert_eq!(world.tasks(TaskState::Active).await, []);
    drop(workers);
    integrity(&world);
    println!(
        "sqlite: 4 processes, {KILLS} killed, {} tasks: 0 lost, 0 settled twice, slowest return {slowest:?}",
        accepted.len()
    );
}

/// Whether the process is not one of the living workers.
fn dead(pid: u32, workers: &[Worker]) -> bool {
    workers.iter().all(|worker| worker.pid() != pid)
}

/// Asserts that SQLite finds no fault in the file after the last write.
fn integrity(world: &World) {
    let path = world.url.trim_start_matches("sqlite://");
    let file = rusqlite::Connection::open(path).unwrap();
    let verdict: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

//! A mixed fleet: two Go servers and two of ours on one queue, one of them killed with -9 again and again.

use std::{
    collections::HashSet,
    fs,
    time::{Duration, Instant},
};

use asynq_tests::{PATIENCE, skip};
use redis::Commands as _;

use crate::{
    interop::{
        go::NO_GO,
        side::{Order, Side},
        stage::{Stage, name},
        worker::{Settings, Worker},
    },
    process::number,
};

#[tokio::test]
async fn a_mixed_fleet_loses_nothing_while_its_processes_are_killed() {
    let Some(stage) = Stage::start().await else { skip!("{NO_GO}") };
    let [tasks, kills] =
        [number("INTEROP_FLEET_TASKS", 2_000), number("INTEROP_FLEET_KILLS", 4)].map(|number| number as usize);
    let pace = Duration::from_millis(number("INTEROP_FLEET_PACE_MS", 0));
    let journal = stage.folder.path().join("journal");
    let settings = Settings { concurrency: 8, journal: Some(&journal), ..Settings::of("mixed") };
    let sides = [Side::Go, Side::Rust, Side::Go, Side::Rust];
    let mut fleet = Vec::new();
    for side in sides {
        fleet.push(Worker::start(side, &stage.address(), &settings).await);
    }

    // Both sides produce, and both have tasks that fail once before they succeed.
    let mut accepted = HashSet::new();
    let per_round = tasks / (kills + 1);
    for round in 0..=kills {
        let next = Instant::now() + pace;
        for n in 0..per_round {
            let side = sides[n % 2];
            let order = if n % 20 == 0 { Order::new("fail once", "again") } else { Order::new("succeed", "") };
            accepted.insert(stage.enqueue(side, "mixed", &order).await);
        }
        if round < kills {
            tokio::time::sleep_until(next.into()).await;
            let victim = round % fleet.len();
            let successor = Worker::start(sides[victim], &stage.address(), &settings).await;
            // The victim is killed with -9 as it is dropped.
            fleet[victim] = successor;
        }
    }

    // The runs of killed workers come back when their leases have passed. The short run does not wait for that minute: it
    // lets every lease pass that is not extended, and only those of killed workers are not.
    let waits = !pace.is_zero();
    let emptied = async {
        while !stage.broker().queue_stats(&name("mixed")).await.unwrap().is_idle() {
            if !waits {
                let_dead_leases_pass(&stage);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Go recovers tasks once a minute, a limited number each time.
    tokio::time::timeout(5 * PATIENCE, emptied).await.expect("the queue becomes empty");

    let done: HashSet<String> = fs::read_to_string(&journal).unwrap().lines().map(str::to_owned).collect();
    let lost: Vec<&String> = accepted.difference(&done).collect();
    let stats = stage.broker().queue_stats(&name("mixed")).await.unwrap();
    println!(
        "mixed fleet: {} accepted, {kills} kills, {} lost, {} archived",
        accepted.len(),
        lost.len(),
        stats.archived
    );
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(stats.archived, 0);
}

/// Moves leases into the past that were not extended for a while: live servers extend theirs all the time.
fn let_dead_leases_pass(stage: &Stage) {
    let mut redis = stage.server.connection();
    let now = chrono::Utc::now().timestamp();
    let stale = now + 30 - Duration::from_secs(13).as_secs() as i64;
    let ids: Vec<String> = redis.zrangebyscore("asynq:{mixed}:lease", "-inf", stale).unwrap();
    for id in ids {
        let (): () = redis.zadd("asynq:{mixed}:lease", id, now - 120).unwrap();
    }
}

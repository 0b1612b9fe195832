//! Workers killed between the claim of a set and its end: every task is in exactly one new one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use asynq_runtime::{
    broker::{
        Broker,
        redis::{RedisBroker, RedisOptions},
        sqlite::{SqliteBroker, SqliteOptions},
    },
    clock::Clock,
    task::TaskState,
};
use asynq_tests::{
    jobs::Note,
    journal::{eventually, written},
};
use chrono::{DateTime, TimeDelta, Utc};

use crate::world::World;

const NOTES: u32 = 200;
const KILLS: u64 = 12;
/// Fewer would show nothing: a worker may have been faster than its killer.
const FEWEST_STRUCK: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_note_is_in_one_digest_on_redis() {
    let world = World::redis().await;
    let later = RedisBroker::connect(&world.url, RedisOptions::with_clock(Later)).await.unwrap();
    every_note_is_in_one_digest(&world, &later).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_note_is_in_one_digest_on_sqlite() {
    let world = World::sqlite().await;
    let later = SqliteBroker::open(&world.url, SqliteOptions::with_clock(Later)).await.unwrap();
    every_note_is_in_one_digest(&world, &later).await;
}

/// `later` is the broker as it will be when a set's time is over.
async fn every_note_is_in_one_digest(world: &World, later: &dyn Broker) {
    let outcomes = world.client.enqueue_many((0..NOTES).map(|n| Note { n })).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));

    let mut struck = 0;
    for kill in 0..KILLS {
        let before = Digests::read(world);
        let worker = world.worker(2);
        eventually(30, "no set was taken", async || {
            let now = Digests::read(world);
            (now.made > before.made || now.numbers().len() == NOTES as usize).then_some(())
        })
        .await;
        // At another moment each time: while a digest is made, and around the end of its set.
        tokio::time::sleep(Duration::from_millis(kill * 8)).await;
        worker.kill();
        // Two minutes pass for the sets that nobody ended.
        struck += later.reclaim_sets(&World::queue()).await.unwrap();
    }
    assert!(struck >= FEWEST_STRUCK, "only {struck} sets were struck");

    let worker = world.worker(2);
    let digests = eventually(90, "some notes are in no digest", async || {
        let digests = Digests::read(world);
        (digests.numbers().len() == NOTES as usize).then_some(digests)
    })
    .await;
    let stats = world.settled(90).await;
    drop(worker);

    let archived: Vec<_> = world.tasks(TaskState::Archived).await.into_iter().map(|task| task.last_error).collect();
    assert_eq!((stats.aggregating, stats.failed_total, archived), (0, 0, vec![]));
    let all: Vec<u32> = digests.of.values().flatten().copied().collect();
    assert_eq!(all.len(), NOTES as usize, "a note is in two digests: {:?}", digests.of);
    println!("{}: {KILLS} kills, {struck} sets struck, {NOTES} notes in {} digests", world.url, digests.of.len());
}

/// What the workers wrote.
#[derive(Default)]
struct Digests {
    /// How many were begun.
    made: usize,
    /// The notes of each that ran, by its id.
    of: BTreeMap<String, Vec<u32>>,
}

impl Digests {
    fn read(world: &World) -> Self {
        let mut digests = Self::default();
        for line in written(&world.digests()).lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("made") => digests.made += 1,
                Some(id) => {
                    let notes: Vec<u32> = words.map(|n| n.parse().unwrap()).collect();
                    // One that ran again after a kill is the same.
                    let known = digests.of.insert(id.to_owned(), notes.clone());
                    assert!(known.is_none_or(|known| known == notes), "{id} changed");
                }
                None => {}
            }
        }
        digests
    }

    fn numbers(&self) -> BTreeSet<u32> {
        self.of.values().flatten().copied().collect()
    }
}

/// The time at which the sets of now are over.
#[derive(Debug)]
struct Later;

impl Clock for Later {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(121)
    }
}

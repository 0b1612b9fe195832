//! Workers are killed between the claim of a set and its end: every note is in exactly one digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use asynq_runtime::{clock::Clock, task::TaskState};
use asynq_tests::{eventually, jobs::Note, journal::written, patient};
use chrono::{DateTime, TimeDelta, Utc};

use crate::processes::world::World;

const KILLS: u32 = 12;
/// Enqueued before each kill, so that the group has a set to interrupt.
const NOTES_PER_KILL: u32 = 16;
const NOTES: u32 = KILLS * NOTES_PER_KILL;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_note_is_in_one_digest_on_redis() {
    every_note_is_in_one_digest(&World::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_note_is_in_one_digest_on_sqlite() {
    every_note_is_in_one_digest(&World::sqlite().await).await;
}

async fn every_note_is_in_one_digest(world: &World) {
    // A broker whose clock is past the deadline of every set.
    let later = patient::broker(&world.url, Some(Arc::new(Later))).await;
    let mut struck = 0;
    for kill in 0..KILLS {
        let first = kill * NOTES_PER_KILL;
        let notes = (first..first + NOTES_PER_KILL).map(|n| Note { n });
        assert!(world.client.enqueue_many(notes).await.unwrap().iter().all(Result::is_ok));
        let before = Digests::read(world);
        // In every second round aggregation is held, so that the kill is sure to hit the set.
        let is_held = kill % 2 == 0;
        if is_held {
            world.hold();
        }
        let worker = world.worker(2);
        eventually("a set is taken", async || (Digests::read(world).made > before.made).then_some(())).await;
        if !is_held {
            // At another moment each time: during aggregation, and around the end of the set.
            tokio::time::sleep(Duration::from_millis(u64::from(kill) * 8)).await;
        }
        worker.kill();
        // Two minutes pass for the sets of the killed worker.
        let reclaimed = later.reclaim_sets(&World::queue()).await.unwrap();
        if is_held {
            world.release();
            assert!(reclaimed > 0, "a set whose making is held is not ended");
        }
        struck += reclaimed;
    }

    let worker = world.worker(2);
    let digests = eventually("every note is in a digest", async || {
        let digests = Digests::read(world);
        (digests.numbers().len() == NOTES as usize).then_some(digests)
    })
    .await;
    let stats = world.settled().await;
    drop(worker);

    let archived: Vec<_> = world.tasks(TaskState::Archived).await.into_iter().map(|task| task.last_error).collect();
    assert_eq!((stats.aggregating, stats.failed_total, archived), (0, 0, vec![]));
    let all: Vec<u32> = digests.of.values().flatten().copied().collect();
    assert_eq!(all.len(), NOTES as usize, "a note is in two digests: {:?}", digests.of);
    println!("{}: {KILLS} kills, {struck} sets struck, {NOTES} notes in {} digests", world.url, digests.of.len());
}

/// The digests that the workers wrote to the file `DIGESTS`.
#[derive(Default)]
struct Digests {
    /// The number of aggregations begun.
    made: usize,
    /// The notes of each digest that ran, by the digest's id.
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
                    // A digest that ran again after a kill has the same notes.
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

/// A clock past the deadline of the current sets.
#[derive(Debug)]
struct Later;

impl Clock for Later {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(121)
    }
}

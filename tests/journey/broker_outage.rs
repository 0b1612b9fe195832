//! Redis is killed and comes back while jobs end (RELIABILITY F1: asynq runs every one of them twice).

use std::time::Duration;

use crate::world::World;

const HANDLERS: usize = 200;
const OUTAGE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_end_during_an_outage_of_ten_seconds_are_not_run_again() {
    let mut world = World::redis().await;
    let _worker = world.worker(HANDLERS);
    // Every handler ends inside the outage: they begin before it, take longer than all of them need to begin, and less than it.
    let ids = world.enqueue_records(HANDLERS, 6_000).await;
    world.started(HANDLERS, 5).await;

    let redis = world.redis.as_mut().unwrap();
    redis.kill();
    // The outage is what is tested, so its length is given, not awaited.
    tokio::time::sleep(OUTAGE).await;
    let history = world.history();
    assert_eq!(history.ends().len(), HANDLERS, "every handler ended while Redis was away");
    world.redis.as_mut().unwrap().restart();

    let stats = world.settled(20).await;
    // A duplicate would come from a recovery, at the latest one lease after the outage: none is left to recover.
    let history = world.history();
    assert_eq!(history.repeated(), []);
    assert_eq!(history.starts().len(), ids.len());
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (HANDLERS as u64, 0, 0));
    println!("redis: away for {OUTAGE:?} while {HANDLERS} handlers ended: 0 duplicates, 0 lost");
}

//! Redis is killed and comes back while jobs end.

use std::time::Duration;

use asynq_tests::eventually;

use crate::processes::world::World;

const HANDLERS: usize = 200;
const OUTAGE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_end_during_an_outage_of_ten_seconds_are_not_run_again() {
    let mut world = World::redis().await;
    let _worker = world.worker(HANDLERS);
    // Every handler begins before the outage and ends inside it.
    let ids = world.held(HANDLERS, HANDLERS).await;

    world.redis.as_mut().unwrap().kill();
    world.release();
    // The outage is the subject of this test, so its length is fixed and not awaited.
    tokio::time::sleep(OUTAGE).await;
    eventually("all handlers end while Redis is away", async || {
        (world.history().ends().len() == HANDLERS).then_some(())
    })
    .await;
    world.redis.as_mut().unwrap().restart();

    let stats = world.settled().await;
    // A duplicate would come from a recovery, at the latest one lease after the outage; no task is left to recover.
    let history = world.history();
    assert_eq!(history.repeated(), []);
    assert_eq!(history.starts().len(), ids.len());
    assert_eq!((stats.processed_total, stats.failed_total, stats.archived), (HANDLERS as u64, 0, 0));
    println!("redis: away for {OUTAGE:?} while {HANDLERS} handlers ended: 0 duplicates, 0 lost");
}

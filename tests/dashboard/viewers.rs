//! The questions of a dashboard to its broker: none while no user looks.

use std::time::Duration;

use asynq_dashboard::Dashboard;
use asynq_runtime::RawTask;
use asynq_tests::{Persistence, RedisServer, commands, eventually, patient};

use crate::dashboard::stage::{Events, Served};

/// The shortest pause between two samples, and how long the queues are sampled after a look.
const EVERY: Duration = Duration::from_millis(1);
const AWAKE: Duration = Duration::from_millis(300);
/// A time without a question to the broker. Without viewers a sample that takes a millisecond is followed by a pause of fifty.
const LONG: Duration = Duration::from_secs(2);

#[tokio::test]
async fn the_broker_is_asked_nothing_when_no_user_has_looked_for_long() {
    let redis = RedisServer::start(Persistence::None);
    let client = patient::client(&redis.url()).await;
    client.enqueue(RawTask::new("of Go", "x")).await.unwrap();
    let mut connection = redis.connection();
    let served = Served::start(Dashboard::new(&client).sampled(EVERY, AWAKE)).await;
    for viewed in [false, true] {
        if viewed {
            let before = commands(&mut connection);
            let (_, mut events) = Events::open(&served, "").await;
            for _ in 0..3 {
                events.next("samples").await;
            }
            assert!(commands(&mut connection) > before, "commands are counted");
        }
        eventually("the sampler asks nothing", async || {
            let before = commands(&mut connection);
            tokio::time::sleep(LONG).await;
            (commands(&mut connection) == before).then_some(())
        })
        .await;
    }
}

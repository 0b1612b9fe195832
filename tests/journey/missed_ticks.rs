//! Redis is away for some ticks of a schedule and comes back: each of them is made up for, once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use asynq_cron::{CronSpec, Missed, Periodic, Tick};
use asynq_runtime::{RawTask, prelude::*};
use asynq_tests::{Persistence, RedisServer, eventually};

const OUTAGE: Duration = Duration::from_secs(5);

/// How often each second's tick ran.
type Ran = Arc<Mutex<BTreeMap<i64, usize>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_of_an_outage_are_each_made_up_for_once() {
    let mut redis = RedisServer::start(Persistence::Always);
    let ran = Ran::default();
    let noted = Arc::clone(&ran);
    let task = RawTask::new("tick", "").queue("ticks");
    let entry = Periodic::new(CronSpec::parse("* * * * * *").unwrap(), task).unwrap();
    let entry = entry.missed(Missed::All(100)).foreign();
    let server = Server::builder(redis.url())
        .registry(Registry::from_descriptors([]).unwrap())
        .handle("tick", move |task: RawTask| {
            *noted.lock().unwrap().entry(Tick::of(&task.context()).scheduled_at().timestamp()).or_insert(0) += 1;
            async { Ok::<(), JobError>(()) }
        })
        .queue("ticks", 1)
        .service(asynq_cron::service().entry(entry).leader_ttl(Duration::from_secs(3)));
    let running = server.build().await.unwrap().start().await.unwrap();
    let last = || ran.lock().unwrap().keys().next_back().copied();
    eventually("a tick fires", async || last()).await;

    redis.kill();
    let away = chrono::Utc::now().timestamp();
    // The outage is what is tested, so its length is given, not awaited.
    tokio::time::sleep(OUTAGE).await;
    let before = last().unwrap();
    assert!(before <= away, "{before}: nothing fires without a broker, which left at {away}");
    redis.restart();
    let back = chrono::Utc::now().timestamp();
    assert!(back - away >= 4);

    // Two seconds beyond the return show that the schedule goes on as before.
    let until = back + 2;
    eventually("the schedule goes on", async || last().filter(|&last| last >= until)).await;
    eventually("every tick fires", async || {
        let ran = ran.lock().unwrap();
        let first = ran.keys().next().copied()?;
        (first..=until).all(|second| ran.contains_key(&second)).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
    let doubled: Vec<_> = ran.lock().unwrap().clone().into_iter().filter(|(_, times)| *times > 1).collect();
    assert_eq!(doubled, [], "ticks that fired more than once");
}

//! Redis is away for some ticks of a schedule and comes back: each missed tick is made up for, once. Redis also comes back
//! without the last ticks that it had stored, as after a failover: they are made up for, too.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use asynq_cron::{CronSpec, Missed, Periodic, Tick};
use asynq_runtime::{RawTask, broker::Page, prelude::*, task::TaskState};
use asynq_tests::{Persistence, RedisServer, eventually, patient, queue};
use chrono::{TimeDelta, Timelike as _, Utc};

const OUTAGE: Duration = Duration::from_secs(5);

/// The number of runs of each second's tick.
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
    // The outage is the subject of this test, so its length is fixed and not awaited.
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

/// The seconds whose tasks are stored and pending; this queue has no worker.
async fn stored(client: &Client) -> Vec<i64> {
    let tasks = client.broker().tasks(&queue("ticks"), TaskState::Pending, Page { number: 1, size: 1_000 }).await;
    let ids = tasks.unwrap_or_default().into_iter().map(|task| task.id.to_string());
    let mut seconds: Vec<i64> = ids.filter_map(|id| id.rsplit(':').next()?.parse().ok()).collect();
    seconds.sort_unstable();
    seconds
}

/// Schedules `spec`, which is made anew until it is planned before its tick, saves Redis's data when `is_saved_at` holds, kills
/// Redis when `is_lost_at` holds, and starts it again with the saved data. Returns the ticks stored then.
async fn restored(
    spec: impl Fn() -> String,
    is_saved_at: impl Fn(&[i64]) -> bool,
    is_lost_at: impl Fn(&[i64]) -> bool,
) -> (Client, Vec<i64>, RedisServer, asynq_runtime::server::Running) {
    let (mut redis, running, client) = eventually("the entry is planned before its tick", async || {
        let redis = RedisServer::start(Persistence::None);
        let spec = CronSpec::parse(&spec()).unwrap();
        let task = RawTask::new("tick", "").queue("ticks");
        let entry = Periodic::new(spec.clone(), task).unwrap().missed(Missed::All(100)).foreign();
        let (queue, id) = (entry.queue().clone(), entry.id().clone());
        let server = Server::builder(redis.url())
            .registry(Registry::from_descriptors([]).unwrap())
            .service(asynq_cron::service().entry(entry).leader_ttl(Duration::from_secs(3)));
        let running = server.build().await.unwrap().start().await.unwrap();
        let client = patient::client(&redis.url()).await;
        let planned =
            eventually("the entry is planned", async || client.broker().entry(&queue, &id).await.unwrap()).await;
        // A machine that was stopped may plan a daily tick after its time: the next tick is tomorrow.
        if spec.next_after(planned.last).is_some_and(|next| next - planned.now < TimeDelta::hours(1)) {
            return Some((redis, running, client));
        }
        running.shutdown().await.unwrap();
        None
    })
    .await;
    eventually("missed ticks that are saved", async || is_saved_at(&stored(&client).await).then_some(())).await;
    ::redis::cmd("SAVE").query::<()>(&mut redis.connection()).unwrap();
    let acknowledged = eventually("missed ticks that are lost", async || {
        let stored = stored(&client).await;
        is_lost_at(&stored).then_some(stored)
    })
    .await;
    redis.kill();
    redis.restart();
    (client, acknowledged, redis, running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_that_redis_had_stored_and_lost_are_made_up_for() {
    let (client, acknowledged, _redis, running) =
        restored(|| "* * * * * *".to_owned(), |stored| stored.len() >= 2, |stored| stored.len() >= 6).await;
    eventually("every tick is stored again, and those since", async || {
        let until = Utc::now().timestamp() - 1;
        let stored = stored(&client).await;
        let is_whole = (acknowledged[0]..=until).all(|second| stored.binary_search(&second).is_ok());
        (is_whole && until > acknowledged[acknowledged.len() - 1]).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
}

/// The next tick is tomorrow, so that no later tick shows the loss of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daily_tick_that_redis_had_stored_and_lost_is_made_up_for() {
    // The scheduler must plan this tick before its time.
    let daily = || {
        let at = Utc::now() + TimeDelta::seconds(10);
        format!("{} {} {} * * *", at.second(), at.minute(), at.hour())
    };
    let (client, acknowledged, _redis, running) = restored(daily, |_| true, |stored| stored.len() == 1).await;
    eventually("it is stored again", async || (stored(&client).await == acknowledged).then_some(())).await;
    running.shutdown().await.unwrap();
}

//! How much a page weighs as the network carries it, and how fast very large stores are shown.

use std::{collections::HashMap, time::Duration};

use asynq_runtime::Client;
use asynq_tests::{Build as _, Fixture, RedisStore, SqliteStore, Store, eventually, task};
use serde_json::{Value, json};

use crate::{shop, wait, world::World};

/// Most bytes of a page with everything that it needs, nothing of it cached.
const HEAVIEST: u64 = 100_000;

/// What came over the network since the last look, headers included: for the page itself, once all that it asked for is there,
/// and for each page that its script has fetched since. How many those are is a matter of time: a search looks on, part by
/// part, until it has seen everything.
async fn weights<S: Store>(world: &World<S>) -> (u64, Vec<u64>) {
    let mut events = Vec::new();
    eventually("all that the page asked for is there", async || {
        events.extend(world.browser.network().await);
        weighed(&events)
    })
    .await
}

/// The weights that these events tell; `None` while a part of the page is on its way.
fn weighed(events: &[Value]) -> Option<(u64, Vec<u64>)> {
    let told = |method: &'static str| {
        let events = events.iter().filter(move |event| event["method"] == method);
        events.filter_map(|event| Some((event["params"]["requestId"].as_str()?, &event["params"])))
    };
    let finished: HashMap<&str, u64> = told("Network.loadingFinished")
        .chain(told("Network.loadingFailed"))
        .map(|(id, params)| (id, params["encodedDataLength"].as_f64().unwrap_or_default() as u64))
        .collect();
    let (mut page, mut fetched) = (0, Vec::new());
    for (id, params) in told("Network.requestWillBeSent") {
        match (params["type"].as_str(), finished.get(id)) {
            (Some("Fetch"), bytes) => fetched.extend(bytes),
            // The stream of news does not end.
            (Some("EventSource"), _) => {}
            (_, bytes) => page += bytes?,
        }
    }
    Some((page, fetched))
}

#[test]
fn every_page_weighs_less_than_100_kb() {
    wait(async {
        let fixture = SqliteStore::shop_with_more().await;
        let world = World::of(fixture, Vec::new()).await;
        world.browser.chromium("Network.enable", json!({})).await;
        world.browser.chromium("Network.setCacheDisabled", json!({ "cacheDisabled": true })).await;
        let task = format!("/queues/mail/tasks/{}", shop::uuid("mail", 0));
        for path in [
            "/",
            "/queues/mail?state=completed",
            "/queues/mail?state=scheduled",
            &task,
            "/search?q=shop",
            "/servers",
            "/periodic",
            "/broker",
        ] {
            world.open(path).await;
            world.browser.network().await;
            world.open(path).await;
            world.browser.until("performance.getEntriesByType('resource').length >= 8").await;
            world.browser.until("document.querySelector('[data-search]')?.ariaBusy !== 'true'").await;
            let (page, fetched) = weights(&world).await;
            println!("{page:>7} bytes  {path}, then {fetched:?}");
            assert!((10_000..HEAVIEST).contains(&page), "{path}: {page} bytes");
            assert!(fetched.iter().all(|bytes| *bytes < HEAVIEST), "{path}: {fetched:?} bytes");
        }
        world.leave().await;
    });
}

/// The shop, with so many queues and tasks that every list has a full page.
trait More: Store {
    async fn shop_with_more() -> Fixture<Self> {
        let fixture = Fixture::<Self>::real_time().await;
        shop::open(&fixture).await;
        for n in 0..60 {
            fixture.enqueue(task(&format!("more-{n}")).in_queue(&format!("tenant-{n}:background"))).await;
            fixture.enqueue(task(&shop::uuid("mail", 900 + n)).in_queue("mail").after(Duration::from_secs(3600))).await;
        }
        fixture
    }
}

impl<S: Store> More for S {}

/// How long the server took for a page, in milliseconds, as the browser saw it: the middle one of five.
async fn took<S: Store>(world: &World<S>, path: &str) -> f64 {
    let mut times = Vec::new();
    for _ in 0..5 {
        world.open(path).await;
        let took = world.browser.js("const [page] = performance.getEntriesByType('navigation'); return page.responseEnd - page.requestStart").await;
        times.push(took.as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    println!("{:>7.1} ms  {path} on {}", times[2], S::NAME);
    times[2]
}

fn ten_thousand_queues_are_no_burden<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        let all: Vec<_> = (0..10_000).map(|n| task(&format!("t{n}")).in_queue(&format!("queue-{n:05}"))).collect();
        for some in all.chunks(500) {
            for answer in fixture.broker().enqueue(some.to_vec()).await {
                answer.unwrap();
            }
        }
        let client = Client::new(fixture.shared());
        assert_eq!(client.broker().queues().await.unwrap().len(), 10_000);
        let world = World::of(fixture, Vec::new()).await;
        // The first look starts the sampler, and waits for it.
        world.open("/").await;
        for path in [
            "/",
            "/?page=400",
            "/?q=09999",
            "/?sort=size",
            "/queues/queue-05000",
            "/queues/queue-05000/tasks/t5000",
            "/servers",
            "/broker",
        ] {
            let took = took(&world, path).await;
            assert!(took < 200.0, "{path}: {took} ms");
        }
        world.open("/").await;
        assert!(world.browser.text("nav.pages").await.contains("1–25 of 10,000"));
        world.end().await;
    });
}

#[test]
#[ignore = "many queues: scripts/prove dashboard"]
fn ten_thousand_queues_are_no_burden_on_redis() {
    ten_thousand_queues_are_no_burden::<RedisStore>();
}

#[test]
#[ignore = "many queues: scripts/prove dashboard"]
fn ten_thousand_queues_are_no_burden_on_sqlite() {
    ten_thousand_queues_are_no_burden::<SqliteStore>();
}

fn a_million_archived_tasks_are_no_burden<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        for some in 0..1000 {
            let tasks = (0..1000)
                .map(|n| task(&format!("t{:06}", some * 1000 + n)).after(Duration::from_secs(86_400)))
                .collect();
            for answer in fixture.broker().enqueue(tasks).await {
                answer.unwrap();
            }
        }
        let inspector = Client::new(fixture.shared()).inspector();
        inspector.archive_all("default", asynq_runtime::TaskState::Scheduled).await.unwrap();
        let world = World::of(fixture, Vec::new()).await;
        world.open("/").await;
        for path in [
            "/",
            "/queues/default",
            "/queues/default?state=archived&page=16000",
            "/queues/default?state=archived&page=33334",
            "/queues/default?state=archived&page=24000",
            "/queues/default/tasks/t500000",
            "/search?q=t999999",
            "/search?q=in+no+task",
            "/queues/default?state=archived&q=in+no+task",
            "/broker",
        ] {
            let took = took(&world, path).await;
            assert!(took < 200.0, "{path}: {took} ms");
        }
        // What the node says of itself may take a second; it comes by itself.
        world
            .browser
            .until("document.querySelector('#node-0 .figures') && !document.querySelector('[data-again]')")
            .await;
        println!("{} on {}", world.browser.text("#node-0 .figures").await, S::NAME);
        world.open("/queues/default?state=archived").await;
        assert!(world.browser.text("nav.pages").await.contains("of 1,000,000"));
        world.end().await;
    });
}

#[test]
#[ignore = "a million tasks: scripts/prove dashboard"]
fn a_million_archived_tasks_are_no_burden_on_redis() {
    a_million_archived_tasks_are_no_burden::<RedisStore>();
}

#[test]
#[ignore = "a million tasks: scripts/prove dashboard"]
fn a_million_archived_tasks_are_no_burden_on_sqlite() {
    a_million_archived_tasks_are_no_burden::<SqliteStore>();
}

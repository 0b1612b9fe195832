//! The weight of a page as the network carries it.

use std::{collections::HashMap, time::Duration};

use asynq_tests::{Build as _, Fixture, SqliteStore, Store, eventually, task};
use serde_json::{Value, json};

use crate::{browser::Browser, shop, wait, world::World};

/// The most bytes of a page with everything that it needs, nothing of it cached.
const HEAVIEST: u64 = 100_000;

/// The bytes that came over the network since the last call, headers included: for the page itself, once all its parts have
/// come, and for each page that its script has fetched since. The number of the latter depends on time: a search continues,
/// part by part, until it has read every task.
async fn weights<S: Store>(world: &World<S>) -> (u64, Vec<u64>) {
    let mut events = Vec::new();
    eventually("all that the page asked for is there", async || {
        events.extend(world.browser.network().await);
        weighed(&events)
    })
    .await
}

/// The weights according to these events; `None` while a part of the page is on its way.
fn weighed(events: &[Value]) -> Option<(u64, Vec<u64>)> {
    let events_of = |method: &'static str| {
        let events = events.iter().filter(move |event| event["method"] == method);
        events.filter_map(|event| Some((event["params"]["requestId"].as_str()?, &event["params"])))
    };
    let finished: HashMap<&str, u64> = events_of("Network.loadingFinished")
        .chain(events_of("Network.loadingFailed"))
        .map(|(id, params)| (id, params["encodedDataLength"].as_f64().unwrap_or_default() as u64))
        .collect();
    let (mut page, mut fetched) = (0, Vec::new());
    for (id, params) in events_of("Network.requestWillBeSent") {
        match (params["type"].as_str(), finished.get(id)) {
            (Some("Fetch"), bytes) => fetched.extend(bytes),
            // The stream of notifications does not end.
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
        let mut world = World::of(fixture, Vec::new()).await;
        std::mem::replace(&mut world.browser, Browser::with_network_log().await).close().await;
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

/// The shop with so many queues and tasks that every list has a full page.
trait More: Store {
    async fn shop_with_more() -> Fixture<Self> {
        let fixture = Fixture::<Self>::real_time().await;
        shop::open(&fixture).await;
        let one = |n: usize| task(&format!("more-{n}")).in_queue(&format!("tenant-{n}:background"));
        let mail = |n: usize| task(&shop::uuid("mail", 900 + n)).in_queue("mail").after(Duration::from_secs(3600));
        shop::enqueue(fixture.broker(), (0..60).flat_map(|n| [one(n), mail(n)])).await;
        fixture
    }
}

impl<S: Store> More for S {}

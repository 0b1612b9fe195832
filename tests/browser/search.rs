//! A search that is too long for one answer: the page is shown at once, and its script continues.

use asynq_tests::{Build as _, Fixture, SqliteStore, task};
use serde_json::json;

use crate::{wait, world::World};

/// Tasks that are added at a time.
const SOME: usize = 10_000;

/// Enqueues three times as many tasks as one answer reads on this machine, and returns their number.
async fn more_than_one_answer(world: &World<SqliteStore>) -> usize {
    let enqueue = async |from: usize, to: usize| {
        let tasks: Vec<_> = (from..to).map(|n| task(&format!("t{n:07}"))).collect();
        for some in tasks.chunks(1000) {
            for answer in world.fixture.broker().enqueue(some.to_vec()).await {
                answer.unwrap();
            }
        }
    };
    let goes_on =
        "return fetch('/search?q=needle').then((page) => page.text()).then((page) => page.includes('rel=\"next\"'))";
    world.open("/").await;
    let mut n = 0;
    while world.browser.js(goes_on).await == false {
        assert!(n < 1_000_000, "one answer looks at everything");
        enqueue(n, n + SOME).await;
        n += SOME;
    }
    enqueue(n, 3 * n).await;
    3 * n
}

/// Keeps the page's next stream of events, and makes the page open one.
const KEEP_STREAMS: &str = "
    window.streams = [];
    const Real = window.EventSource;
    window.EventSource = class extends Real { constructor(url) { super(url); window.streams.push(this); } };
    dispatchEvent(new Event('pagehide'));
    dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));";

/// Ends the streams as the server does; returns how many there are, and how often the page is fetched anew for that.
const END_STREAMS: &str = "
    let asked = 0;
    const fetched = window.fetch;
    window.fetch = (...all) => { asked += String(all[0]).includes('search'); return fetched(...all); };
    for (const stream of window.streams) stream.dispatchEvent(new Event('error'));
    window.fetch = fetched;
    return [window.streams.length, asked];";

/// A number as pages show it.
fn formatted(n: usize) -> String {
    format!("{},{:03}", n / 1000, n % 1000)
}

#[test]
fn a_long_search_goes_on_by_itself_until_all_was_looked_at() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let tasks = more_than_one_answer(&world).await;
        // Read last: the oldest pending tasks come first, and no task is in a state that is read before.
        for n in 0..3 {
            world.fixture.enqueue(task(&format!("last-{n}")).with_payload(r#"{"to":"needle"}"#)).await;
        }
        let browser = &world.browser;
        let bar = "document.querySelector('[data-search]')";
        let all = format!("{bar}.textContent.startsWith('3 found, {} looked at: that was all')", formatted(tasks + 3));

        world.open("/search?q=needle").await;
        browser.until(&all).await;
        assert_eq!(browser.count("tbody tr").await, 3);
        assert_eq!((browser.count("[data-search] [rel=next]").await, browser.count(".empty").await), (0, 0));

        // A stopped search offers the rest; a task found by its id at once is listed once. The script's next request is held
        // until the search is stopped: a fast server would have answered all of them before.
        let held = json!({ "patterns": [{ "urlPattern": "*after=*" }] });
        browser.chromium("Fetch.enable", held).await;
        world.open("/search?q=last-1").await;
        assert!(browser.text("tbody").await.contains("last-1"));
        browser.click("[data-stop]").await;
        browser.chromium("Fetch.disable", json!({})).await;
        browser
            .until(&format!("!{bar}.querySelector('[rel=next]').hidden && {bar}.querySelector('[data-stop]').hidden"))
            .await;
        // The server ends each stream of events after a while: what was found is not thrown away.
        browser.js(KEEP_STREAMS).await;
        browser.until("window.streams.length").await;
        assert_eq!(browser.js(END_STREAMS).await, json!([1, 0]));
        browser.click("[data-search] [rel=next]").await;
        browser.until(&format!("location.search.includes('after=') && {bar}?.ariaBusy === 'false'")).await;
        assert_eq!(browser.count("tbody tr").await, 1);

        // The results that the script loads can be picked as well, and an action on them updates the page.
        world.open("/queues/default?state=pending&q=needle").await;
        browser.until(&all).await;
        browser.click("[data-all]").await;
        assert_eq!(browser.text("#picked output").await, "3 picked");
        world.act("[data-bulk=archive]", "archived").await;
        browser
            .until(&format!("{bar}.textContent.startsWith('0 found, {} looked at: that was all')", formatted(tasks)))
            .await;
        world.end().await;
    });
}

#[test]
fn a_search_that_cannot_go_on_ends_and_says_why() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.open("/search?q=needle").await;
        // The server refuses this position.
        let go_on = "
            const fetched = window.fetch, bar = document.querySelector('[data-search]');
            window.fetch = (url, options) => { if (String(url).includes('after=')) window.sent = options.headers; return fetched(url, options); };
            bar.append(Object.assign(document.createElement('a'), { rel: 'next', href: '/search?q=needle&after=x' }));
            document.dispatchEvent(new Event('page'))";
        world.browser.js(go_on).await;
        world.browser.until("document.querySelector('#said.bad').textContent.includes('This did not work')").await;
        assert_eq!(world.browser.js("return document.querySelector('[data-search]').ariaBusy").await, "false");
        assert_eq!(world.browser.js("return window.sent['x-asynq-live']").await, "1");

        // A proxy answers in place of the server.
        let go_on = "
            const fetched = window.fetch;
            window.fetch = (url, options) => String(url).includes('after=') ? Promise.resolve(new Response('Hello')) : fetched(url, options);
            document.dispatchEvent(new Event('page'))";
        world.browser.js(go_on).await;
        world.browser.until("document.querySelector('#said.bad').textContent.includes('the status 200')").await;
        assert_eq!(world.browser.js("return document.querySelector('[data-search]').ariaBusy").await, "false");
        world.leave().await;
    });
}

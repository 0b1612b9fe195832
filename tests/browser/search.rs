//! A search that is too long for one answer: the page is there at once, and its script goes on.

use asynq_tests::{Build as _, Fixture, RedisStore, SqliteStore, Store, task};

use crate::{wait, world::World};

/// More than one answer looks at, on a fast machine too.
const TASKS: usize = 40_000;

fn a_long_search_goes_on_by_itself_until_all_was_looked_at<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        let tasks: Vec<_> = (0..TASKS).map(|n| task(&format!("t{n:05}"))).collect();
        for some in tasks.chunks(1000) {
            for answer in fixture.broker().enqueue(some.to_vec()).await {
                answer.unwrap();
            }
        }
        // Looked at last: the oldest pending tasks come first, and none is in a state before that.
        for n in 0..3 {
            fixture.enqueue(task(&format!("last-{n}")).with_payload(r#"{"to":"needle"}"#)).await;
        }
        let world = World::of(fixture, Vec::new()).await;
        let browser = &world.browser;
        let bar = "document.querySelector('[data-search]')";
        let all = format!("{bar}.textContent.startsWith('3 found, 40,003 looked at: that was all')");

        world.open("/search?q=needle").await;
        let first =
            "return fetch(location.href).then((page) => page.text()).then((page) => page.includes('rel=\"next\"'))";
        assert_eq!(browser.js(first).await, true, "one answer looks at all of it: this case needs more tasks");
        browser.until(&all).await;
        assert_eq!(browser.count("tbody tr").await, 3);
        assert_eq!((browser.count("[data-search] [rel=next]").await, browser.count(".empty").await), (0, 0));

        // Stopped, it offers the rest; found by its id at once, a task is there once.
        world.open("/search?q=last-1").await;
        assert!(browser.text("tbody").await.contains("last-1"));
        browser.click("[data-stop]").await;
        browser
            .until(&format!("!{bar}.querySelector('[rel=next]').hidden && {bar}.querySelector('[data-stop]').hidden"))
            .await;
        browser.click("[data-search] [rel=next]").await;
        browser.until(&format!("location.search.includes('after=') && {bar}?.ariaBusy === 'false'")).await;
        assert_eq!(browser.count("tbody tr").await, 1);

        // What the script found can be picked as well, and what is done to it is seen.
        world.open("/queues/default?state=pending&q=needle").await;
        browser.until(&all).await;
        browser.click("[data-all]").await;
        assert_eq!(browser.text("#picked output").await, "3 picked");
        world.act("[data-bulk=archive]", "archived").await;
        browser.until(&format!("{bar}.textContent.startsWith('0 found, 40,000 looked at: that was all')")).await;
        world.end().await;
    });
}

#[test]
fn a_long_search_goes_on_by_itself_until_all_was_looked_at_on_redis() {
    a_long_search_goes_on_by_itself_until_all_was_looked_at::<RedisStore>();
}

#[test]
fn a_long_search_goes_on_by_itself_until_all_was_looked_at_on_sqlite() {
    a_long_search_goes_on_by_itself_until_all_was_looked_at::<SqliteStore>();
}

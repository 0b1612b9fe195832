//! Every page shows the stored data. On Redis, because `tests/dashboard` asks for each page on SQLite without a browser; the broker's
//! own page, which differs, is tested on both here.

use asynq_tests::{Fixture, RedisStore, SqliteStore, Store, task};
use serde_json::json;

use crate::{shop, wait, world::World};

/// True when a search has read every task: one answer is limited in time, and on a slow machine the page's script goes on.
const SEARCHED: &str = "document.querySelector('[data-search]').textContent.includes('that was all')";

#[test]
fn every_page_shows_its_data() {
    wait(async {
        let world = World::<RedisStore>::shop().await;
        let browser = &world.browser;

        world.open("/").await;
        assert_eq!(browser.text("h1").await, "Queues");
        assert_eq!(browser.count("tbody tr").await, 6);
        assert!(browser.text("#q-reports").await.contains("paused"));
        assert_eq!(browser.count("#q-mail svg.bar rect.s-archived").await, 1);
        // A chart has two points as soon as the first view of the page has made the sampler look.
        browser
            .until_refreshed(
                "document.querySelectorAll('#throughput canvas, #size canvas, #latency canvas').length === 3",
            )
            .await;
        browser.until("document.querySelector('#q-mail .spark canvas')").await;
        browser.fill("input[name=q]", "INDEX").await;
        browser.press("\u{e007}").await;
        browser.until("document.querySelectorAll('tbody tr').length === 1").await;
        world.open("/?sort=size").await;
        assert_eq!(browser.text("tbody tr:first-child th").await.trim(), "mail");

        for (state, rows) in [
            ("active", 5),
            ("pending", 15),
            ("scheduled", 12),
            ("retry", 6),
            ("archived", 6),
            ("completed", 24),
            ("aggregating", 12),
        ] {
            world.open(&format!("/queues/mail?state={state}")).await;
            assert_eq!(browser.text(".tabs [aria-current]").await, format!("{state}{rows}"));
            assert_eq!(browser.count("tbody tr").await, rows, "{state}");
        }
        browser.until("document.querySelectorAll('.chart canvas').length === 4").await;
        world.open("/queues/mail?state=completed&per=10&page=3").await;
        assert_eq!(browser.count("tbody tr").await, 4);
        assert_eq!(browser.count("[rel=next]").await, 0);
        world.open("/queues/mail?state=archived&q=customer-20").await;
        browser.until(SEARCHED).await;
        assert_eq!(browser.count("tbody tr").await, 1);
        assert!(browser.text("nav.pages").await.contains("1 found, 6 looked at: that was all"));

        world.open("/queues/mail/groups").await;
        browser.click("[id='g-digest:weekly'] a").await;
        browser.until("location.search.includes('group=digest')").await;
        assert_eq!(browser.count("tbody tr").await, 8);

        let id = shop::uuid("mail", 0);
        world.open(&format!("/queues/mail/tasks/{id}")).await;
        assert_eq!(browser.text("h1").await, "email:send");
        let page = browser.js("return document.querySelector('main').innerText").await;
        let page = page.as_str().unwrap();
        for part in ["customer-0@example.com", "connection refused", "Attempt 1", "traceparent", "Archived", &id] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let active = world.active.iter().find(|run| run.key.queue.as_str() == "mail").unwrap();
        world.open(&format!("/queues/mail/tasks/{}", active.key.id)).await;
        assert!(browser.text("main").await.contains("Runs athost-1:4001"));

        world.open(&format!("/search?q={id}")).await;
        browser.until(SEARCHED).await;
        assert_eq!(browser.count("tbody tr").await, 1);
        world.open("/search?q=tenant-3&state=retry").await;
        browser.until(SEARCHED).await;
        let found = browser.count("tbody tr").await;
        assert!(found > 0);
        assert_eq!(browser.count("tbody .s-retry").await, found);
        world.open("/search?type=image%3Aresize&queue=images&since=2001-01-01T00%3A00&until=2002-01-01T00%3A00").await;
        browser.until(SEARCHED).await;
        assert!(browser.text("main").await.contains("Nothing found"));

        world.open("/servers").await;
        assert!(browser.text("h1 + p").await.starts_with("1 server, 13 of 24"), "{}", browser.text("h1 + p").await);
        assert_eq!(browser.count("tbody tr").await, 13);

        world.open("/periodic").await;
        assert_eq!(browser.count("tbody tr").await, 3);
        assert!(browser.text("main").await.contains("Every 15 minutes"));
        browser.click("[id$='51f4b3f5a0d2'] a").await;
        browser.until("document.querySelector('h1').textContent === 'sync:stock'").await;
        assert_eq!(browser.count(".line li").await, 1, "the next run that Go's scheduler lists");
        world.open(&format!("/periodic/reports/{}", shop::entry_id("report:nightly"))).await;
        assert_eq!(browser.count("tbody tr").await, 5, "its history");

        world.open("/broker").await;
        assert!(browser.text(".figures").await.to_lowercase().contains(RedisStore::KIND));

        for (path, says) in [
            ("/queues/none", "queue `none`"),
            ("/queues/mail/tasks/none", "none"),
            ("/periodic/mail/none", "none"),
            ("/nothing", "Not here"),
            ("/queues/mail?state=lost", "lost"),
        ] {
            world.open(path).await;
            let main = browser.text("main").await;
            assert!(main.contains(says), "{path}: {main}");
        }
        // The browser itself logs each of the five pages that were not found.
        world.end_after("status of 40").await;
    });
}

#[test]
fn the_days_of_a_chart_have_the_same_names_on_its_axis_and_under_the_pointer_in_every_zone() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        // A day begins here at half past six in the evening of UTC, in which days are counted.
        browser.chromium("Emulation.setTimezoneOverride", json!({ "timezoneId": "Asia/Kolkata" })).await;
        // The calendar of this language has other months, and its digits are others.
        browser.chromium("Emulation.setLocaleOverride", json!({ "locale": "fa-IR" })).await;
        let note = "window.drawn = []; const fill = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
                window.drawn.push({ canvas: this.canvas, text, x }); fill.call(this, text, x, y);
            };";
        browser.chromium("Page.addScriptToEvaluateOnNewDocument", json!({ "source": note })).await;
        world.open("/queues/mail").await;
        browser.until("document.querySelector('#days canvas')").await;
        let names = "const days = document.querySelector('#days'), over = days.querySelector('.u-over');
            const labels = window.drawn.filter(({ canvas, text }) => days.contains(canvas) && / /.test(text));
            return labels.map(({ canvas, text, x }) => {
                const at = { clientX: canvas.getBoundingClientRect().left + x / devicePixelRatio, clientY: over.getBoundingClientRect().top + 9 };
                over.dispatchEvent(new MouseEvent('mousemove', at));
                return [text, days.querySelector('[data-at]').textContent, /^[0-9]+ [A-Z][a-z]+$/.test(text)];
            });";
        browser.until(&format!("(() => {{ {names} }})().length > 2")).await;
        for label in browser.js(names).await.as_array().unwrap() {
            let (day, under_the_pointer) = (label[0].as_str().unwrap(), label[1].as_str().unwrap());
            assert!(under_the_pointer.starts_with(&format!("{day}: Processed ")), "{day} is over {under_the_pointer}");
            assert_eq!(label[2], true, "{day} is English, like the page");
        }
        // Only today has numbers, and its bar is whole: seven tenths of a day wide.
        let bar = "const canvas = document.querySelector('#days canvas'), over = document.querySelector('#days .u-over').getBoundingClientRect();
            const { left, top } = canvas.getBoundingClientRect(), by = devicePixelRatio;
            const line = canvas.getContext('2d').getImageData((over.left - left) * by, (over.bottom - top - 3) * by, over.width * by, 1).data;
            const wide = line.filter((alpha, at) => at % 4 === 3 && alpha > 200).length / by;
            return Math.abs(wide - 0.7 * over.width / 30)";
        let off = browser.js(bar).await.as_f64().unwrap();
        assert!(off < 1.5, "{off} pixels");
        // The hours of the other charts are those of UTC as well. The points are of the last minutes.
        browser.until_refreshed("document.querySelector('#size canvas')").await;
        let apart = "const over = document.querySelector('#size .u-over'), { left, top, width } = over.getBoundingClientRect();
            over.dispatchEvent(new MouseEvent('mousemove', { clientX: left + width / 2, clientY: top + 9 }));
            const [, hour, minute] = document.querySelector('#size [data-at]').textContent.match(/^(\\d\\d):(\\d\\d).* UTC: Pending/);
            const now = new Date(), apart = Math.abs(60 * (now.getUTCHours() - hour) + now.getUTCMinutes() - minute);
            return Math.min(apart, 24 * 60 - apart)";
        let apart = browser.js(apart).await.as_u64().unwrap();
        assert!(apart < 90, "{apart} minutes");
        world.end().await;
    });
}

#[test]
fn the_line_of_failed_tasks_is_told_from_the_other_without_its_colour() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        world.fixture.enqueue(task("t1")).await;
        let note = "window.lines = []; const stroke = CanvasRenderingContext2D.prototype.stroke;
            CanvasRenderingContext2D.prototype.stroke = function (...path) {
                window.lines.push({ canvas: this.canvas, colour: this.strokeStyle, dash: this.getLineDash().join() }); stroke.apply(this, path);
            };";
        browser.chromium("Page.addScriptToEvaluateOnNewDocument", json!({ "source": note })).await;
        world.open("/").await;
        browser.until_refreshed("document.querySelector('#throughput canvas')").await;
        let dashes = "(() => {
            const figure = document.querySelector('#throughput'), context = document.createElement('canvas').getContext('2d');
            const colour = (name) => {
                context.strokeStyle = getComputedStyle(figure.querySelector('.s-' + name), '::before').backgroundColor;
                return context.strokeStyle;
            };
            const dashes = (name) => window.lines.filter((line) => figure.contains(line.canvas) && line.colour === colour(name)).map((line) => line.dash);
            return [...new Set(dashes('processed')), ...new Set(dashes('failed'))];
        })()";
        browser.until(&format!("{dashes}.length >= 2")).await;
        assert_eq!(browser.js(&format!("return {dashes}")).await, json!(["", "4,3"]));
        world.end().await;
    });
}

#[test]
fn an_open_page_shows_new_tasks_although_the_clock_was_set_back() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        world.fixture.enqueue(task("t1")).await;
        world.open("/queues/default?state=pending").await;
        browser.js("const now = Date.now; Date.now = () => now() - 3_600_000").await;
        world.fixture.enqueue(task("t2")).await;
        browser.until("document.querySelectorAll('tbody tr').length === 2").await;
        world.end().await;
    });
}

#[test]
fn an_open_page_says_why_its_queue_cannot_be_read() {
    wait(async {
        let world = World::of(Fixture::<RedisStore>::real_time().await, Vec::new()).await;
        world.fixture.enqueue(task("t1")).await;
        world.open("/queues/default").await;
        world.fixture.store.go().unwrap().put_text("pending");
        let down = "return document.querySelector('#down').textContent";
        let down = world.browser.turn_to("/queues/default", down).await;
        let down = down.as_str().unwrap();
        assert!(down.contains("cannot be read") && !down.contains("does not answer"), "{down}");
        world.leave().await;
    });
}

fn the_broker_page_shows_the_facts_of_the_broker<S: Store>() {
    wait(async {
        let world = World::<S>::shop().await;
        let browser = &world.browser;
        world.open("/broker").await;
        // The page may come before the broker's answer, and loads that by itself.
        browser.until("document.querySelector('#node-0 .figures')").await;
        assert_eq!((browser.count("[data-again]").await, browser.count("#asked").await), (0, 0));
        let (kind, figures, fact) = match S::KIND {
            "redis" => ("Redis", ["Memory used", "Eviction", "Persistence", "Clients", "Uptime"], "maxmemory_policy"),
            _ => ("SQLite", ["File", "Write-ahead log", "Free pages", "Durability", "Quick check"], "quick_check"),
        };
        assert!(browser.text(".figures").await.contains(kind));
        let shown = browser.text("#node-0 .figures").await;
        for figure in figures {
            assert!(shown.contains(figure), "{figure}: {shown}");
        }
        assert_eq!(browser.count("#node-0 .slow").await, u64::from(S::KIND == "redis"));
        // The complete list of facts is folded at first, and stays open once it was opened.
        let visible = "return document.querySelector('#node-0 .said dl').checkVisibility()";
        assert_eq!(browser.js(visible).await, false);
        browser.click("#node-0 .said summary").await;
        assert_eq!(browser.js(visible).await, true);
        let facts = browser.text("#node-0 .said").await;
        assert!(facts.contains(fact), "{facts}");
        assert_eq!(browser.turn_to("/broker", visible).await, true);
        world.end().await;
    });
}

#[test]
fn the_broker_page_shows_the_facts_of_the_broker_on_redis() {
    the_broker_page_shows_the_facts_of_the_broker::<RedisStore>();
}

#[test]
fn the_broker_page_shows_the_facts_of_the_broker_on_sqlite() {
    the_broker_page_shows_the_facts_of_the_broker::<SqliteStore>();
}

#[test]
fn the_broker_page_shows_slow_calls_and_their_subjects() {
    wait(async {
        let world = World::<RedisStore>::shop().await;
        let browser = &world.browser;
        // One call is slow; it is about a key of asynq's and has a payload in it. In one transaction, because the page
        // shows the newest calls alone and another client's call in between would be as slow.
        let store = &world.fixture.store;
        let () = store.command(&[b"MULTI"]);
        let () = store.command(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]);
        let () = store.command(&[b"SETEX", b"asynq:{mail}:marked", b"60", b"a private payload"]);
        let () = store.command(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"]);
        let () = store.command(&[b"EXEC"]);
        world.open("/broker").await;
        browser.until("document.querySelector('#node-0 .slow')").await;
        let visible = "return document.querySelector('#node-0 .slow table')?.checkVisibility() ?? null";
        assert_eq!(browser.js(visible).await, false, "they are folded away");
        browser.click("#node-0 .slow summary").await;
        assert_eq!(browser.js(visible).await, true);
        let scroller = "return document.querySelector('#node-0 .slow .scroll').tabIndex";
        assert_eq!(browser.js(scroller).await, 0, "the keyboard reaches what is beyond a narrow screen");
        let shown = browser.text("#node-0 .slow").await;
        assert!(shown.contains("SETEX asynq:{mail}:marked") && shown.contains("ms"), "{shown}");
        assert!(!browser.js("return document.documentElement.outerHTML").await.to_string().contains("private payload"));
        world.end().await;
    });
}

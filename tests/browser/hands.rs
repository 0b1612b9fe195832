//! The dashboard by keyboard, on a phone, in the dark, with a login, and without the right to change.

use std::path::Path;

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use asynq_dashboard::Dashboard;
use asynq_runtime::{
    Client,
    task::{QueueWeight, ServerInfo, WorkerInfo},
};
use asynq_tests::{Build as _, Fixture, RedisServer, SqliteFixture, SqliteStore, Store as _, queue, retry, task};
use serde_json::json;

use crate::{browser::Browser, shop, wait, world::World};

/// The Enter key in WebDriver's encoding.
const ENTER: &str = "\u{e007}";

#[test]
fn the_keyboard_reaches_everything() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        world.open("/").await;
        browser.press("?").await;
        browser.until("document.querySelector('#keys').open").await;
        assert!(browser.count("#keys kbd").await > 8);
        browser.press("\u{e00c}").await;
        browser.until("!document.querySelector('#keys').open").await;
        // The first stop is the link past the navigation, and can be seen.
        browser.press("\u{e004}").await;
        assert_eq!(browser.js("return document.activeElement.className").await, "skip");
        assert!(browser.js("return document.activeElement.getBoundingClientRect().top >= 0").await.as_bool().unwrap());
        for (keys, path) in [("gs", "/search"), ("gv", "/servers"), ("gp", "/periodic"), ("gb", "/broker"), ("gq", "/")]
        {
            browser.js("document.activeElement.blur()").await;
            browser.press(keys).await;
            browser
                .until(&format!("location.pathname === {} && document.readyState === 'complete'", json!(path)))
                .await;
        }
        browser.press("/").await;
        assert_eq!(browser.js("return document.activeElement.type").await, "search");
        browser.press("mail").await;
        assert_eq!(browser.js("return document.activeElement.value").await, "mail", "letters are letters in a field");
        browser.press("\u{e00c}").await;
        assert_eq!(browser.js("return document.querySelector('main input[type=search]').value").await, "mail");
        browser.press("jj").await;
        let outline = "return getComputedStyle(document.activeElement).outlineStyle";
        assert_eq!(browser.js(outline).await, "solid", "the focus can be seen");
        assert_eq!(browser.js("return document.activeElement.textContent").await, "images");
        browser.press(ENTER).await;
        browser.until("location.pathname === '/queues/images'").await;
        browser.press("4").await;
        browser.until("location.search === '?state=retry' && document.readyState === 'complete'").await;
        browser.press("jx").await;
        assert_eq!(browser.text("#picked output").await, "1 picked");
        browser.press("a").await;
        assert_eq!(browser.text("#picked output").await, "3 picked");

        // Every button can be reached with Tab, also those of a question: three tasks are run, one is deleted, the queue
        // is paused.
        let stats = || async { world.fixture.broker().queue_stats(&queue("images")).await.unwrap() };
        let before = stats().await;
        press_by_tab(browser, "[data-bulk=run]").await;
        press_by_tab(browser, "#ask[open] [value=ok]").await;
        browser.until("document.querySelector('#said').textContent.includes('3 tasks were made pending')").await;
        assert_eq!((stats().await.pending, stats().await.retry), (before.pending + 3, 0));
        world.open("/queues/images?state=pending").await;
        browser.press("jx").await;
        press_by_tab(browser, "[data-bulk=delete]").await;
        press_by_tab(browser, "#ask[open] [value=ok]").await;
        browser.until("document.querySelector('#said').textContent.includes('1 task was deleted')").await;
        assert_eq!(stats().await.pending, before.pending + 2);
        browser.until("document.activeElement.matches('[data-all]')").await;
        press_by_tab(browser, "[data-post$='/pause']").await;
        browser.until("document.querySelector('#said').textContent.includes('is paused')").await;
        assert!(stats().await.paused);
        browser.until("document.activeElement.matches(\"[data-post$='/resume']\")").await;
        // The key is still held: nothing is undone.
        let held = "const button = document.activeElement;
            return button.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true }))";
        assert_eq!(browser.js(held).await, false);
        world.end().await;
    });
}

#[test]
fn enter_goes_on_only_with_the_right_word_and_goes_back_where_none_is_asked_for() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        for name in ["old", "kept"] {
            world.fixture.enqueue(task("t1").in_queue(name)).await;
        }
        let is_there = async |name| world.fixture.broker().queue_stats(&queue(name)).await.unwrap().size > 0;
        let focus = "return document.activeElement.value";
        let (open, closed) = ("document.querySelector('#ask').open", "!document.querySelector('#ask').open");

        world.open("/queues/kept").await;
        browser.click("[data-post$='/delete']").await;
        browser.until(open).await;
        browser.press("kept").await;
        for value in ["no", "ok"] {
            browser.press("\u{e004}").await;
            assert_eq!(browser.js(focus).await, value, "Tab leads from the word to the buttons");
        }
        browser.press("\u{e00c}").await;
        browser.until(closed).await;
        browser.click("[data-post$='/delete']").await;
        browser.until(open).await;
        browser.press("kept").await;
        browser.click("#ask [value=no]").await;
        browser.until(closed).await;
        world.open("/queues/kept/tasks/t1").await;
        browser.click("[data-post$='/delete']").await;
        browser.until(open).await;
        assert_eq!(browser.js(focus).await, "no");
        browser.press(ENTER).await;
        browser.until(closed).await;
        assert!(is_there("kept").await);

        world.open("/queues/old").await;
        browser.click("[data-post$='/delete']").await;
        browser.until(open).await;
        browser.press("ol").await;
        browser.press(ENTER).await;
        assert_eq!(browser.js(&format!("return {open}")).await, true, "the word is not complete");
        browser.press("d").await;
        browser.press(ENTER).await;
        browser.until("location.pathname === '/' && document.querySelectorAll('tbody tr').length === 1").await;
        assert!(!is_there("old").await && is_there("kept").await);
        // The page of the queue may have been asked for once more before it was left.
        world.end_after("status of 404").await;
    });
}

/// Moves the focus to a button as a person without a mouse does, and presses the button.
async fn press_by_tab(browser: &Browser, button: &str) {
    browser.until(&format!("document.querySelector({})", json!(button))).await;
    for _ in 0..300 {
        if browser.js(&format!("return document.activeElement.matches({})", json!(button))).await == true {
            return browser.press(ENTER).await;
        }
        browser.press("\u{e004}").await;
    }
    panic!("Tab does not lead to {button}");
}

#[test]
fn picked_rows_typed_text_and_open_parts_survive_new_numbers() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        world.open("/queues/mail?state=retry").await;
        browser.click("tbody tr:nth-child(2) input").await;
        browser.js("document.querySelector('main input[type=search]').focus()").await;
        browser.press("half a w").await;
        browser.js("document.querySelector('details').open = false").await;
        // A screen reader hears what changes in the bar, and what is shown again.
        browser
            .js("window.heard = [];
                const bar = document.querySelector('#picked'), watch = new MutationObserver((records) => window.heard.push(...records));
                watch.observe(bar, { attributes: true, attributeFilter: ['hidden'] });
                watch.observe(bar.querySelector('output'), { childList: true, characterData: true, subtree: true });")
            .await;
        // One more task fails, and another one comes.
        let run = world.fixture.start_run(task("another")).await;
        world.fixture.settle(&run, retry(std::time::Duration::from_secs(1), "boom")).await;
        world.fixture.enqueue(task("news").in_queue("mail")).await;
        browser.until_refreshed("document.querySelectorAll('.tabs b')[1].textContent === '16'").await;
        let script = "const box = document.querySelectorAll('input[name=id]')[1], field = document.querySelector('main input[type=search]');
            return [box.checked, field.value, document.activeElement === field, document.querySelector('details').open, document.querySelector('#picked output').textContent, window.heard.length]";
        assert_eq!(browser.js(script).await, json!([true, "half a w", true, false, "1 picked", 0]));
        world.end().await;
    });
}

#[test]
fn no_long_text_makes_a_page_wider_than_its_screen() {
    wait(async {
        let fixture = SqliteFixture::start().await;
        fixture.seed_active("t1").await;
        let (name, stuck_since) = (fixture.member().name.clone(), fixture.now() - chrono::TimeDelta::minutes(1));
        let pid = i32::try_from(name.pid).unwrap();
        let worker = WorkerInfo {
            task_id: "t1".into(),
            queue: "default".into(),
            deadline: Some(stuck_since.into()),
            host: name.host.clone(),
            server_id: name.server_id.clone(),
            pid,
            ..WorkerInfo::default()
        };
        let long = "customer-mails-transactional-high-priority-eu-west-1-of-tenant-acme-corporation";
        let info = ServerInfo {
            host: name.host,
            server_id: name.server_id,
            pid,
            queues: vec![QueueWeight { queue: Some(long.into()), weight: Some(6) }],
            ..ServerInfo::default()
        };
        fixture.broker().beat(fixture.member(), &info, &[worker]).await.unwrap();
        let dashboard = Dashboard::new(&Client::new(fixture.shared())).password_hash(cheap_hash()).read_only(true);
        let world = World::serving(fixture, Vec::new(), dashboard).await;
        let browser = &world.browser;
        let path = "/queues/default/tasks/t1";
        world.open(path).await;
        browser.fill("input[type=password]", "open sesame").await;
        browser.press(ENTER).await;
        browser.until("document.querySelector('.title .tag.bad')?.textContent.startsWith('stuck')").await;
        for width in [390, 768] {
            browser.screen(Some((width, 844))).await;
            world.open(path).await;
            assert_eq!(browser.js("return document.documentElement.scrollWidth").await, width);
        }
        browser.screen(Some((390, 844))).await;
        world.open("/servers").await;
        let is_whole = "return document.querySelector('a.tag').getBoundingClientRect().right <= 390";
        assert_eq!(browser.js(is_whole).await, true, "the end of a queue's name and its weight can be read");
        world.leave().await;
    });
}

/// The lowest contrast of a text with its background, where that is one colour, with its element.
const CONTRAST: &str = "
    const parse = (c) => c.match(/[\\d.]+/g).map(Number);
    const lum = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
    let worst = [99, ''];
    for (const e of document.querySelectorAll('body *')) {
        if (!e.offsetParent || e.closest('.sr, canvas') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim())) continue;
        let back = e, colour = [0, 0, 0, 0];
        while (back && (colour = parse(getComputedStyle(back).backgroundColor), colour.length === 4 && colour[3] < 1)) back = back.parentElement;
        const [a, b] = [lum(parse(getComputedStyle(e).color)), lum(colour)].sort((x, y) => y - x);
        const ratio = (a + .05) / (b + .05);
        if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 200)];
    }
    return worst";

#[test]
fn every_page_fits_a_phone_and_can_be_read_and_heard_in_light_and_dark() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        let task = format!("/queues/mail/tasks/{}", shop::uuid("mail", 0));
        for path in [
            "/",
            "/queues/mail?state=archived",
            &task,
            "/queues/mail/groups",
            "/search?q=boom",
            "/servers",
            "/periodic",
            "/broker",
            "/nothing",
        ] {
            browser.screen(Some((390, 844))).await;
            world.open(path).await;
            let wide = browser.js("return document.documentElement.scrollWidth").await;
            assert_eq!(wide, 390, "{path}");
            let small = "return [...document.querySelectorAll('main button, main select, main input:not([type=checkbox]):not([type=hidden])')]\
                .filter((e) => e.offsetParent && e.getBoundingClientRect().height < 28).map((e) => e.outerHTML)";
            assert_eq!(browser.js(small).await, json!([]), "{path}: big enough for a thumb");
            // The same page on a desktop, which shows more of it.
            browser.screen(None).await;
            browser.until("innerWidth > 1000").await;
            for scheme in ["light", "dark"] {
                browser.prefer(scheme).await;
                let worst = browser.js(CONTRAST).await;
                assert!(worst[0].as_f64().unwrap() >= 4.5, "{scheme} {path}: {worst}");
            }
            let nameless = "return [...document.querySelectorAll('button, a, input:not([type=hidden]), select, textarea, [role=img]')]\
                .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)";
            assert_eq!(browser.js(nameless).await, json!([]), "{path}");
            let marks = "return ['header', 'nav', 'main', 'h1'].map((tag) => document.querySelectorAll(tag).length > 0).concat(document.querySelectorAll('main, h1').length)";
            assert_eq!(browser.js(marks).await, json!([true, true, true, true, 2]), "{path}");
            let skips = "const levels = [...document.querySelectorAll('main :is(h1, h2, h3)')].map((e) => Number(e.tagName[1]));
                return levels.filter((level, at) => level > (levels[at - 1] ?? 0) + 1)";
            assert_eq!(browser.js(skips).await, json!([]), "{path}: no level of headings is left out");
        }
        browser.screen(Some((390, 844))).await;
        world.open("/queues/mail?state=completed").await;
        let tab = "const { left, right } = document.querySelector('.tabs [aria-current]').getBoundingClientRect();
            return left >= 0 && right <= 390";
        assert_eq!(browser.js(tab).await, true, "the tab of the shown state is on the screen");
        browser.screen(None).await;
        // A screen reader hears a message only in a place that was there before it.
        world.open("/").await;
        let tree = browser.chromium("Accessibility.getFullAXTree", json!({})).await;
        let is_heard = |node: &&serde_json::Value| node["role"]["value"] == "status" && node["ignored"] == false;
        assert_eq!(tree["nodes"].as_array().unwrap().iter().filter(is_heard).count(), 2);
        // The switch overrides the system's scheme, and is remembered.
        let back = "return getComputedStyle(document.body).backgroundColor";
        let dark = browser.js(back).await;
        browser.click("[data-theme-switch]").await;
        assert_ne!(browser.js(back).await, dark);
        world.open("/servers").await;
        assert_ne!(browser.js(back).await, dark);
        world.end_after("status of 404").await;
    });
}

/// The hash of the password `open sesame`, with little memory: its cost is not tested here.
pub(crate) fn cheap_hash() -> String {
    let cheap = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(16, 1, 1, None).unwrap());
    cheap.hash_password_with_salt(b"open sesame", b"some salt 16 byt").unwrap().to_string()
}

#[test]
fn a_login_leads_to_the_requested_page() {
    wait(async {
        let world = World::<SqliteStore>::shop_with(|dashboard| dashboard.password_hash(cheap_hash())).await;
        let browser = &world.browser;
        world.open("/queues/mail?state=retry").await;
        assert!(browser.path().await.starts_with("/login"));
        assert_eq!(browser.count("header.top, [data-go]").await, 0, "a client without a login reads nothing");
        browser.press("wrong\u{e007}").await;
        browser.until("document.querySelector('#said').textContent.includes('wrong')").await;
        browser.fill("input[type=password]", "open sesame").await;
        browser.press("\u{e007}").await;
        browser.until("location.pathname + location.search === '/queues/mail?state=retry' && document.querySelector('h1').textContent === 'mail'").await;
        browser.click(".tools [data-post]").await;
        browser.until("location.pathname === '/login'").await;
        world.end_after("status of 40").await;
    });
}

#[test]
fn a_read_only_dashboard_has_no_buttons_to_change_anything() {
    wait(async {
        let world = World::<SqliteStore>::shop_with(|dashboard| dashboard.read_only(true)).await;
        let task = format!("/queues/mail/tasks/{}", shop::uuid("mail", 0));
        for path in ["/", "/queues/mail?state=archived", &task, "/periodic", "/servers"] {
            world.open(path).await;
            assert_eq!(
                world.browser.count("[data-post], [data-edit], [data-bulk], main input[type=checkbox]").await,
                0,
                "{path}"
            );
            assert!(world.browser.text(".tools").await.contains("read-only"));
        }
        world.end().await;
    });
}

#[test]
fn a_page_reports_that_the_broker_is_away_and_goes_on_when_it_is_back() {
    wait(async {
        let mut server = RedisServer::start(asynq_tests::Persistence::Always);
        let client = Client::connect(&server.url()).await.unwrap();
        for n in 0..3 {
            let mut new = task(&format!("t{n}"));
            new.message.r#type = "email:send".into();
            client.broker().enqueue(vec![new]).await.pop().unwrap().unwrap();
        }
        // The fixture's store stays unused, because this test kills its own.
        let idle: Fixture<SqliteStore> = Fixture::real_time().await;
        let world = World::serving(idle, Vec::new(), Dashboard::new(&client)).await;
        let browser = &world.browser;
        world.open("/queues/default?state=pending").await;
        assert_eq!(browser.count("tbody tr").await, 3);
        browser.click("tbody tr:nth-child(2) input").await;
        server.kill();
        browser.until("document.querySelector('#down').textContent").await;
        assert!(browser.text("#down").await.contains("The broker does not answer"));
        assert_eq!(browser.count("tbody tr").await, 3, "the known numbers stay");
        // An action is refused now, with a message.
        browser.click("[data-post$='/pause']").await;
        browser.until("document.querySelector('#said.bad')").await;
        // A page opened now shows the outage, and shows the tasks by itself when it is over.
        let window = browser.js("return location.href").await;
        server.restart();
        browser.until("document.querySelector('#down').textContent === ''").await;
        assert_eq!(
            browser.js("return document.querySelectorAll('input[name=id]')[1].checked").await,
            true,
            "and so do the picked rows"
        );
        server.kill();
        browser.open(window.as_str().unwrap()).await;
        assert_eq!(browser.text("h1").await, "The broker does not answer");
        server.restart();
        browser.until("document.querySelector('h1')?.textContent === 'default' && document.querySelectorAll('tbody tr').length === 3").await;
        world.leave().await;
    });
}

#[test]
fn a_page_reports_that_the_file_is_gone_and_goes_on_when_a_program_has_it_again() {
    wait(async {
        let store = SqliteStore::start().await;
        let client = Client::new(store.connect(None).await);
        for n in 0..3 {
            client.broker().enqueue(vec![task(&format!("t{n}"))]).await.pop().unwrap().unwrap();
        }
        let idle: Fixture<SqliteStore> = Fixture::real_time().await;
        let mut world = World::serving(idle, Vec::new(), Dashboard::new(&client)).await;
        world.open("/queues/default?state=pending").await;
        assert_eq!(world.browser.count("tbody tr").await, 3);
        let window = world.browser.js("return location.href").await;
        // No SQLite broker survives the move of its file: the broker would go on with a file that other programs do not see.
        let elsewhere = tempfile::tempdir_in(store.path().parent().unwrap()).unwrap();
        let carry = |from: &Path, to: &Path| {
            for file in ["jobs.db", "jobs.db-wal", "jobs.db-shm"] {
                let (from, to) = (from.join(file), to.join(file));
                assert!(!from.exists() || std::fs::rename(&from, &to).is_ok(), "{}", from.display());
            }
        };
        carry(store.path().parent().unwrap(), elsewhere.path());
        world.browser.until("document.querySelector('#down').textContent").await;
        assert!(world.browser.text("#down").await.contains("deleted or moved away"));
        assert_eq!(world.browser.count("tbody tr").await, 3, "the known numbers stay");
        // A page opened now says how to end the outage.
        world.browser.open(window.as_str().unwrap()).await;
        let text = world.browser.text("main").await;
        assert!(text.contains("was deleted or moved away") && text.contains("restart this program"), "{text}");
        // The file is back, and the program is started again: the page shows the tasks by itself.
        client.broker().close().await;
        carry(elsewhere.path(), store.path().parent().unwrap());
        let client = Client::new(store.connect(None).await);
        world.serve_again(Dashboard::new(&client)).await;
        world
            .browser
            .until("document.querySelector('h1')?.textContent === 'default' && document.querySelectorAll('tbody tr').length === 3")
            .await;
        world.leave().await;
    });
}

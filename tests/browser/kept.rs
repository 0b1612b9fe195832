//! Picked rows, typed text and the shown state are kept: after Back, at a refresh, at the end of a session, by a link of another site.

use std::time::Duration;

use asynq_runtime::{Client, broker::BulkAction, inspector::Force, task::Progress};
use asynq_tests::{Build as _, Fixture, SqliteStore, queue, retry, task, task_id};
use serde_json::json;

use crate::{hands::cheap_hash, shop, wait, world::World};

/// The ids of the boxes that are ticked, and whether the bar of the picked tasks is hidden.
const PICKED: &str = "return [[...document.querySelectorAll('input[name=id]:checked')].map((box) => box.value), document.querySelector('#picked').hidden]";

/// A shop behind a password, in a browser that has logged in.
async fn logged_in() -> World<SqliteStore> {
    let world = World::<SqliteStore>::shop_with(|dashboard| dashboard.password_hash(cheap_hash())).await;
    world.open("/login").await;
    assert_eq!(world.browser.js(&post("/login", r#"{"password":"open sesame"}"#)).await, 204);
    world
}

/// A script that sends a change and returns the status of the answer.
fn post(path: &str, body: &str) -> String {
    let (path, body) = (json!(path), json!(body));
    format!(
        "return fetch({path}, {{ method: 'POST', body: {body}, headers: {{ 'content-type': 'application/json', 'x-asynq-dashboard': '1' }} }})
            .then((answer) => answer.status)"
    )
}

#[test]
fn back_picks_no_task_and_chooses_nothing_that_the_page_does_not_show() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        // A browser that keeps the page itself brings it back as it was; one that does not, loads it anew.
        let not_kept = "addEventListener('unload', () => {})";
        world.open("/queues/mail?state=archived").await;
        browser.js(not_kept).await;
        browser.click("tbody tr:nth-child(3) input").await;
        browser.click("tbody tr:nth-child(4) input").await;
        let ids = browser.js("return [...document.querySelectorAll('input[name=id]')].map((box) => box.value)").await;
        browser.click("tbody tr:nth-child(1) a").await;
        browser.until("location.pathname.includes('/tasks/') && document.readyState === 'complete'").await;
        for id in &ids.as_array().unwrap()[1..3] {
            world
                .fixture
                .broker()
                .change_task(&queue("mail"), &task_id(id.as_str().unwrap()), None, BulkAction::Delete)
                .await
                .unwrap();
        }
        browser.js("history.back()").await;
        browser.until("location.pathname === '/queues/mail' && document.readyState === 'complete'").await;
        assert_eq!(browser.js(PICKED).await, json!([[], true]));

        for (path, select, value) in [("/", "sort", "size"), ("/queues/mail?state=archived", "per", "10")] {
            world.open(path).await;
            browser.js(not_kept).await;
            let select = format!("document.querySelector('select[name={select}]')");
            let shown = browser.js(&format!("return {select}.value")).await;
            browser
                .js(&format!(
                    "{select}.value = '{value}'; {select}.dispatchEvent(new Event('change', {{ bubbles: true }}))"
                ))
                .await;
            browser.until(&format!("location.search.includes('={value}') && document.readyState === 'complete'")).await;
            browser.js("history.back()").await;
            browser
                .until(&format!("!location.search.includes('={value}') && document.readyState === 'complete'"))
                .await;
            assert_eq!(browser.js(&format!("return {select}.value")).await, shown, "{path}");
        }
        world.end().await;
    });
}

#[test]
fn a_queue_stays_at_the_state_that_is_shown() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let later = |id| task(id).after(Duration::from_secs(3600));
        world.fixture.enqueue(later("a")).await;
        world.fixture.enqueue(later("b")).await;
        let browser = &world.browser;
        world.open("/queues/default").await;
        browser.click("tbody tr:nth-child(2) input").await;
        // The page of a queue begins with the first state that has tasks.
        world.fixture.enqueue(task("c")).await;
        browser.until_refreshed("[...document.querySelectorAll('.tabs a')].find((tab) => tab.href.endsWith('=pending')).querySelector('b').textContent === '1'").await;
        assert_eq!(
            browser.js("return document.querySelector('.tabs [aria-current]').search").await,
            "?state=scheduled"
        );
        assert_eq!(browser.js(PICKED).await, json!([["b"], false]));
        world.end().await;
    });
}

#[test]
fn a_page_whose_queue_went_shows_it_when_it_is_there_again() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let h1 = |text: &str| format!("document.querySelector('h1').textContent === '{text}'");
        world.fixture.enqueue(task("t1")).await;
        world.open("/queues/default").await;
        Client::new(world.fixture.shared()).inspector().delete_queue("default", Force::Yes).await.unwrap();
        world.browser.until_refreshed(&h1("Not here")).await;
        world.fixture.enqueue(task("t2")).await;
        world.browser.until_refreshed(&h1("default")).await;
        world.leave().await;
    });
}

#[test]
fn typed_arguments_outlive_the_login() {
    wait(async {
        let world = logged_in().await;
        let browser = &world.browser;
        let id = shop::uuid("mail", 0);
        world.open(&format!("/queues/mail/tasks/{id}")).await;
        browser.js("document.querySelector('details:has(textarea)').open = true").await;
        browser.fill("textarea", r#"{"to":"a long text"}"#).await;
        assert_eq!(browser.js(&post("/logout", "{}")).await, 204);
        browser.until("document.querySelector('#down').textContent.includes('og in again')").await;
        // An action is refused, and leads nowhere either.
        browser.js("document.querySelector('form[data-edit] button[value=\"\"]').click()").await;
        browser.until("!document.querySelector('[aria-busy]')").await;
        let typed = "return document.querySelector('textarea').value";
        assert_eq!(browser.js(typed).await, r#"{"to":"a long text"}"#);
        assert_eq!(browser.js("return document.querySelector('#down').textContent === ''").await, false);

        assert_eq!(browser.js(&post("/login", r#"{"password":"open sesame"}"#)).await, 204);
        browser.until("document.querySelector('#down').textContent === ''").await;
        assert_eq!(browser.js(typed).await, r#"{"to":"a long text"}"#);
        browser.click("form[data-edit] button[value='']").await;
        browser.until("document.querySelector('#said').textContent && !document.querySelector('#said.bad')").await;
        let saved = world.fixture.broker().task(&queue("mail"), &task_id(&id)).await.unwrap().unwrap();
        assert_eq!(&saved.payload[..], br#"{"to":"a long text"}"#);
        // Nothing typed is left that is not saved: the next end of the login leads to it.
        browser
            .until("document.querySelector('textarea').value === document.querySelector('textarea').defaultValue")
            .await;
        assert_eq!(browser.js(&post("/logout", "{}")).await, 204);
        browser.until("location.pathname === '/login'").await;
        world.leave().await;
    });
}

#[test]
fn typed_arguments_outlive_the_editor() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let (browser, t) = (&world.browser, &world.fixture);
        let inspector = Client::new(t.shared()).inspector();
        t.enqueue(task("t1").with_payload(r#"{"to":"ann"}"#)).await;
        let run = t.take_one().await;
        t.settle(&run, retry(Duration::from_secs(3600), "boom")).await;
        world.open("/queues/default/tasks/t1").await;
        browser.click("details:has(textarea) summary").await;
        browser.fill("textarea", r#"{"to":"a long text"}"#).await;
        let typed = "return document.querySelector('textarea')?.value";
        let asks = "return !dispatchEvent(new Event('beforeunload', { cancelable: true }))";
        assert_eq!(browser.js(asks).await, true);
        let stays = "document.querySelector('#down').textContent.includes('what you typed stays here')";

        // A worker takes the task: there is nothing to edit for a while.
        inspector.run("default", "t1").await.unwrap();
        browser.until_refreshed("document.querySelector('.title .s-pending')").await;
        let run = t.take_one().await;
        browser.until_refreshed(stays).await;
        assert_eq!(browser.js(typed).await, r#"{"to":"a long text"}"#);
        let half = Progress::new(0.5, "half");
        t.broker().write_progress(&run.key, &half).await.unwrap();
        t.settle(&run, retry(Duration::from_secs(3600), "boom")).await;
        browser
            .until("document.querySelector('.title .s-retry') && document.querySelector('#down').textContent === ''")
            .await;
        assert_eq!(browser.js(typed).await, r#"{"to":"a long text"}"#);

        // The task is gone, until nothing is left that could be lost.
        t.broker().change_task(&queue("default"), &task_id("t1"), None, BulkAction::Delete).await.unwrap();
        browser.until_refreshed(stays).await;
        assert_eq!(browser.js(typed).await, r#"{"to":"a long text"}"#);
        browser.fill("textarea", "").await;
        browser.until("document.querySelector('main').textContent.includes('Not here')").await;
        assert_eq!(browser.js(asks).await, false);
        assert_eq!(browser.js("return document.querySelector('#down').textContent === ''").await, true);
        world.leave().await;
    });
}

#[test]
fn the_focus_and_a_selection_stay_in_their_rows_when_a_row_above_goes() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        world.open("/queues/mail?state=retry").await;
        let rows = "const rows = [...document.querySelectorAll('tbody tr')];";
        let first = browser
            .js(&format!(
                "{rows} rows[2].querySelector('a').focus(); getSelection().selectAllChildren(rows[4].cells[1]);
                 window.chosen = [rows[2], rows[4]]; return rows[0].querySelector('input').value"
            ))
            .await;
        world
            .fixture
            .broker()
            .change_task(&queue("mail"), &task_id(first.as_str().unwrap()), None, BulkAction::Delete)
            .await
            .unwrap();
        browser.until_refreshed("document.querySelectorAll('tbody tr').length === 5").await;
        let stayed = "const [focused, selected] = window.chosen;
            return [focused.contains(document.activeElement), selected.contains(getSelection().anchorNode), !getSelection().isCollapsed]";
        assert_eq!(browser.js(stayed).await, json!([true, true, true]));

        // Of rows in a new order the fewest are moved.
        for (before, after, moved) in [
            ("abcdef", "bcef", "ad"),
            ("abcdef", "bcdeaf", "a"),
            ("abcdef", "afbcde", "f"),
            ("abcd", "xaybzcd", ""),
            ("abc", "cba", "bc"),
        ] {
            let script = format!(
                "const list = (ids) => {{
                     const list = document.createElement('ul');
                     for (const id of ids) list.append(Object.assign(document.createElement('li'), {{ id }}));
                     return list;
                 }};
                 const app = document.querySelector('script[type=module]').src;
                 return import(app.replace('app.js', 'morph.js')).then(({{ morph }}) => {{
                     const old = list('{before}'), watch = new MutationObserver(() => {{}});
                     watch.observe(old, {{ childList: true }});
                     morph(old, list('{after}'));
                     const moved = watch.takeRecords().flatMap((record) => [...record.removedNodes]);
                     const ids = (nodes) => [...nodes].map((node) => node.id).join('');
                     return [ids(old.children), [...ids(moved)].sort().join('')];
                 }})"
            );
            assert_eq!(browser.js(&script).await, json!([after, moved]), "{before}");
        }
        world.end().await;
    });
}

#[test]
fn a_row_that_overtakes_another_keeps_the_focus() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        for (name, id) in [("big", "t1"), ("big", "t2"), ("small", "t1")] {
            world.fixture.enqueue(task(id).in_queue(name)).await;
        }
        world.open("/?sort=size").await;
        // The page may show a snapshot that was taken between two of the tasks.
        browser.until_refreshed("document.querySelectorAll('tbody tr').length === 2").await;
        assert_eq!(browser.js("return document.querySelector('tbody tr').id").await, "q-big");
        browser.js("document.querySelector('#q-small a').focus()").await;
        for id in ["t2", "t3"] {
            world.fixture.enqueue(task(id).in_queue("small")).await;
        }
        browser.until_refreshed("document.querySelector('tbody tr').id === 'q-small'").await;
        assert_eq!(browser.js("return document.activeElement.closest('tr')?.id ?? null").await, "q-small");
        world.end().await;
    });
}

#[test]
fn a_link_of_another_site_leads_to_the_page_if_one_is_logged_in() {
    wait(async {
        let world = logged_in().await;
        let browser = &world.browser;
        // A page of another origin; browsers send no strict cookie where it leads.
        let elsewhere = format!("data:text/html,<a href='{}/queues/mail?state=retry'>look</a>", world.url);
        browser.open(&elsewhere).await;
        browser.click("a").await;
        browser.until("location.pathname + location.search === '/queues/mail?state=retry'").await;
        assert_eq!(browser.text("h1").await, "mail");
        assert_eq!(browser.js(&post("/logout", "{}")).await, 204);
        browser.open(&elsewhere).await;
        browser.click("a").await;
        browser.until("location.pathname === '/login' && document.readyState === 'complete'").await;
        world.leave().await;
    });
}

#[test]
fn more_windows_than_a_browser_has_connections_show_and_change_what_is_there() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        for n in 0..7 {
            if n > 0 {
                browser.another_window().await;
            }
            world.open("/queues/mail?state=retry").await;
            assert_eq!(browser.js("return document.hidden").await, false, "window {n} is seen");
        }
        world.act("[data-post$='/pause']", "is paused").await;
        let pending = "Number(document.querySelectorAll('.tabs b')[1].textContent)";
        let before = browser.js(&format!("return {pending}")).await;
        // A window without a stream asks by itself.
        world.fixture.enqueue(task("news").in_queue("mail")).await;
        browser.until(&format!("{pending} > {before}")).await;
        world.end().await;
    });
}

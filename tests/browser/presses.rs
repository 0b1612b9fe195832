//! Presses that come twice, or to a page that has changed meanwhile.

use asynq_runtime::{Client, broker::BulkAction, task::TaskState};
use asynq_tests::{Build as _, Fixture, SqliteStore, queue, task, task_id};
use serde_json::json;

use crate::{shop, wait, world::World};

/// A script that counts in `window.posts` what the page posts from now on.
const COUNT_POSTS: &str = "
    window.posts = 0;
    const fetched = window.fetch;
    window.fetch = (url, options) => { window.posts += options?.method === 'POST'; return fetched(url, options); };";

#[test]
fn a_double_click_does_a_thing_once_and_undoes_nothing() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let (browser, broker) = (&world.browser, world.fixture.broker());
        let said = |text: &str| format!("document.querySelector('#said').textContent.includes('{text}')");

        world.open("/").await;
        browser.js(COUNT_POSTS).await;
        browser.click_again("#q-mail button", 0).await;
        browser.until(&said("is paused")).await;
        browser.until("document.querySelector('#q-mail button').textContent === 'Resume'").await;
        browser.click_again("#q-mail button", 1).await;
        assert_eq!(browser.js("return window.posts").await, 1);
        assert!(broker.queue_stats(&queue("mail")).await.unwrap().paused);

        let before = broker.queue_stats(&queue("reports")).await.unwrap().count(TaskState::Pending);
        world.open("/periodic").await;
        browser.js(COUNT_POSTS).await;
        let run = format!("[id='e-reports/{}'] [data-post$='/run']", shop::entry_id("report:nightly"));
        browser.click_again(&run, 0).await;
        browser
            .until(&format!(
                "document.querySelector('#said').textContent && !document.querySelector(\"{run}\").disabled"
            ))
            .await;
        browser.click_again(&run, 1).await;
        assert_eq!(browser.js("return window.posts").await, 1);
        assert_eq!(broker.queue_stats(&queue("reports")).await.unwrap().count(TaskState::Pending), before + 1);
        world.end().await;
    });
}

#[test]
fn a_button_that_has_the_focus_never_becomes_another_one() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        world.fixture.enqueue(task("t1").with_payload(r#"{"to":"ann"}"#)).await;
        world.open("/queues/default/tasks/t1").await;
        browser.js("document.querySelector(\"[data-post$='/archive']\").focus()").await;
        Client::new(world.fixture.shared()).inspector().archive("default", "t1").await.unwrap();
        browser.until_refreshed("document.querySelector('.title .s-archived')").await;
        assert_eq!(browser.count("[data-post$='/run']").await, 1);
        assert_eq!(browser.js("return document.activeElement.localName").await, "body");

        // The button that saves stays what it is where the task can also be run.
        Client::new(world.fixture.shared()).inspector().run("default", "t1").await.unwrap();
        browser.until_refreshed("document.querySelector('.title .s-pending')").await;
        browser.click("details:has(textarea) summary").await;
        browser.js("document.querySelector('form[data-edit] button').focus()").await;
        Client::new(world.fixture.shared()).inspector().archive("default", "t1").await.unwrap();
        browser.until_refreshed("document.querySelector('.title .s-archived')").await;
        assert_eq!(browser.js("return document.activeElement.textContent").await, "Save");
        world.end().await;
    });
}

#[test]
fn a_button_gets_the_focus_back_without_scrolling() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        browser.screen(Some((1360, 480))).await;
        world.open("/queues/mail?state=completed").await;
        browser
            .js("const fetched = window.fetch;
                window.fetch = (url, options) => options?.method !== 'POST' ? fetched(url, options)
                    : new Promise((done) => { window.answer = () => done(fetched(url, options)); });
                document.querySelector(\"[data-post$='/pause']\").focus();")
            .await;
        browser.press("\u{e007}").await;
        browser.until("window.answer && document.activeElement === document.body").await;
        browser.js("window.scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })").await;
        let button = "document.querySelector(\"[data-post$='/pause'], [data-post$='/resume']\")";
        let is_above = format!("return {button}.getBoundingClientRect().bottom < 0");
        assert_eq!(browser.js(&is_above).await, true);
        browser.js("window.answer()").await;
        browser.until(&format!("document.activeElement === {button}")).await;
        assert_eq!(browser.js(&is_above).await, true);
        world.end().await;
    });
}

#[test]
fn a_row_that_is_reached_by_keyboard_is_not_covered() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        browser.screen(Some((1360, 480))).await;
        world.open("/queues/mail?state=completed").await;
        browser.press(&"j".repeat(24)).await;
        let is_seen = "const link = document.activeElement, { left, top, bottom } = link.getBoundingClientRect();
            return [top + 1, bottom - 1].every((y) => link.contains(document.elementFromPoint(left + 2, y)))";
        for n in 0..23 {
            browser.press("k").await;
            assert_eq!(browser.js(is_seen).await, true, "after {n} rows");
        }
        world.end().await;
    });
}

#[test]
fn arguments_that_are_saved_unchanged_keep_their_bytes() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let (browser, broker) = (&world.browser, world.fixture.broker());
        let payload = async || broker.task(&queue("default"), &task_id("t1")).await.unwrap().unwrap().payload;
        world.fixture.enqueue(task("t1").with_payload(r#"{"n":1}"#)).await;
        broker.change_task(&queue("default"), &task_id("t1"), None, BulkAction::Archive).await.unwrap();
        world.open("/queues/default/tasks/t1").await;
        browser.click("details:has(textarea) summary").await;
        world.act("#save", "Nothing was changed").await;
        world.act("#save-and-run", "is pending").await;
        assert_eq!(&payload().await[..], br#"{"n":1}"#);
        world.end().await;
    });
}

#[test]
fn a_browser_does_not_ask_about_typed_arguments_that_cannot_be_lost() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let (browser, t) = (&world.browser, &world.fixture);
        t.enqueue(task("t1").with_payload("first")).await;
        world.open("/queues/default/tasks/t1").await;
        browser.click("details:has(textarea) summary").await;
        let asks = "return !dispatchEvent(new Event('beforeunload', { cancelable: true }))";
        browser.fill("textarea", "mine").await;
        assert_eq!(browser.js(asks).await, true);
        // The text is as it was when typing began, and another user saves a new one.
        browser.fill("textarea", "first").await;
        Client::new(t.shared()).inspector().edit_raw("default", "t1", "theirs").await.unwrap();
        browser.until_refreshed("document.querySelector('pre').textContent === 'theirs'").await;
        assert_eq!(browser.js(asks).await, false);

        browser.fill("textarea", "mine").await;
        // The listener of the page comes first.
        browser
            .js("addEventListener('beforeunload', (event) => { sessionStorage.asks = event.defaultPrevented; })")
            .await;
        browser.click("[data-post$='/delete']").await;
        browser.click("#ask [value=ok]").await;
        browser.until("location.pathname === '/queues/default' && sessionStorage.asks === 'false'").await;
        world.leave().await;
    });
}

#[test]
fn arguments_that_another_user_has_changed_are_replaced_only_after_they_were_shown() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let (browser, broker) = (&world.browser, world.fixture.broker());
        let inspector = Client::new(world.fixture.shared()).inspector();
        let payload = async |id: &str| broker.task(&queue("default"), &task_id(id)).await.unwrap().unwrap().payload;
        // Above the editor the page shows these arguments in one, no and two blocks, and the new ones in one.
        for (id, first) in [("t1", "first".to_owned()), ("t2", String::new()), ("t3", "x".repeat(5000))] {
            world.fixture.enqueue(task(id).with_payload(first)).await;
            world.open(&format!("/queues/default/tasks/{id}")).await;
            browser.click("details:has(textarea) summary").await;
            browser.fill("textarea", "mine").await;
            inspector.edit_raw("default", id, "theirs").await.unwrap();
            browser.until_refreshed("document.querySelector('pre').textContent === 'theirs'").await;
            let editor = "const text = document.querySelector('textarea');
                return [text.value, text.closest('details').open, document.activeElement === text]";
            assert_eq!(browser.js(editor).await, json!(["mine", true, true]), "{id}");
            // A save that gets no answer shows nothing of the other user's.
            browser
                .js("const fetched = window.fetch;
                    window.fetch = (url, options) => {
                        if (options?.method !== 'POST') return fetched(url, options);
                        window.fetch = fetched;
                        return Promise.reject(new TypeError('no answer'));
                    };")
                .await;
            world.act("#save", "does not answer").await;
            world.act("#save", "have changed meanwhile").await;
            assert_eq!(&payload(id).await[..], b"theirs");
            world.act("#save", "has its new arguments").await;
            assert_eq!(&payload(id).await[..], b"mine");
        }
        world.leave().await;
    });
}

#[test]
fn letters_that_are_typed_while_a_save_is_on_its_way_stay() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let (browser, broker) = (&world.browser, world.fixture.broker());
        world.fixture.enqueue(task("t1").with_payload("first")).await;
        world.open("/queues/default/tasks/t1").await;
        browser.click("details:has(textarea) summary").await;
        browser.fill("textarea", "mine").await;
        browser
            .js("const fetched = window.fetch;
                window.fetch = (url, options) => {
                    if (options?.method !== 'POST') return fetched(url, options);
                    window.fetch = fetched;
                    return new Promise((done) => { window.answer = () => done(fetched(url, options)); });
                };")
            .await;
        browser.click("#save").await;
        browser.until("window.answer").await;
        browser.js("const text = document.querySelector('textarea'); text.focus(); text.setSelectionRange(4, 4)").await;
        browser.press(" and more").await;
        browser.js("window.answer()").await;
        browser.until("document.querySelector('#said').textContent.includes('has its new arguments')").await;
        browser.until("document.querySelector('pre').textContent === 'mine'").await;
        assert_eq!(browser.js("return document.querySelector('textarea').value").await, "mine and more");
        world.act("#save", "has its new arguments").await;
        let saved = broker.task(&queue("default"), &task_id("t1")).await.unwrap().unwrap();
        assert_eq!(&saved.payload[..], b"mine and more");
        world.leave().await;
    });
}

#[test]
fn a_question_shows_the_word_to_type_with_all_its_spaces() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.fixture.enqueue(task("t1").in_queue("a  b")).await;
        world.open("/queues/a%20%20b").await;
        world.browser.click("[data-post$='/delete']").await;
        assert_eq!(world.browser.js("return document.querySelector('#ask code').innerText").await, "a  b");
        world.end().await;
    });
}

#[test]
fn a_name_turns_no_text_around_in_a_question_or_a_message() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.fixture.enqueue(task("t1").in_queue("a\u{202e}b")).await;
        world.open("/queues/a%E2%80%AEb").await;
        world.act("[data-post$='/pause']", "Queue a\u{fffd}b is paused").await;
        world.browser.click("[data-post$='/delete']").await;
        assert!(world.browser.text("#ask p").await.starts_with("Delete queue a\u{fffd}b with its 1 task?"));
        world.end().await;
    });
}

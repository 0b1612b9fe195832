//! Every button has its effect. On SQLite: the requests behind the buttons call the inspector, whose effects are tested on each broker
//! in `tests/conformance`.

use std::time::Duration;

use asynq_runtime::{
    broker::{BulkAction, Page},
    task::TaskState,
};
use asynq_tests::{Build as _, SqliteStore, Store, queue, task, task_id};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::{shop, wait, world::World};

async fn state<S: Store>(world: &World<S>, name: &str, id: &str) -> Option<TaskState> {
    world.fixture.broker().task(&queue(name), &task_id(id)).await.unwrap().map(|task| task.state)
}

async fn size<S: Store>(world: &World<S>, name: &str, state: TaskState) -> usize {
    world.fixture.broker().tasks(&queue(name), state, Page { number: 1, size: 500 }).await.unwrap().len()
}

#[test]
fn every_button_performs_its_action() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        let paused = |name: &'static str| {
            let broker = world.fixture.shared();
            async move { broker.queue_stats(&queue(name)).await.unwrap().paused }
        };

        // Queues.
        world.open("/").await;
        world.act("#q-mail button", "Queue mail is paused").await;
        browser.until("document.querySelector('#q-mail').textContent.includes('Resume')").await;
        assert!(paused("mail").await);
        world.act("#q-mail button", "Queue mail runs again").await;
        assert!(!paused("mail").await);
        world.open("/queues/webhooks").await;
        world.act("[data-post$='/pause']", "is paused").await;
        browser.until("document.querySelector('.title .tag')").await;
        world.act("[data-post$='/resume']", "runs again").await;
        assert!(!paused("webhooks").await);

        // Some tasks, then all of a state.
        world.open("/queues/mail?state=retry").await;
        assert_eq!(browser.js("return document.querySelector('#picked').hidden").await, true);
        browser.click("tbody tr:nth-child(1) input").await;
        browser.click("tbody tr:nth-child(3) input").await;
        assert_eq!(browser.text("#picked output").await, "2 picked");
        let pending = size(&world, "mail", TaskState::Pending).await;
        world.act("[data-bulk=run]", "2 tasks were made pending").await;
        browser.until("document.querySelectorAll('tbody tr').length === 4").await;
        assert_eq!(size(&world, "mail", TaskState::Pending).await, pending + 2);
        browser.click("[data-all]").await;
        browser.click("[data-every]").await;
        assert_eq!(browser.text("#picked output").await, "All 4 retry");
        world.act("[data-bulk=archive]", "4 tasks were archived").await;
        assert_eq!(
            (size(&world, "mail", TaskState::Retry).await, size(&world, "mail", TaskState::Archived).await),
            (0, 10)
        );
        world.open("/queues/mail?state=aggregating&group=newsletter").await;
        browser.click("[data-all]").await;
        browser.click("[data-every]").await;
        world.act("[data-bulk=delete]", "4 tasks were deleted").await;
        assert_eq!(size(&world, "mail", TaskState::Aggregating).await, 8);
        // An action without confirmation has no effect.
        world.open("/queues/mail?state=completed").await;
        browser.click("tbody tr:nth-child(1) input").await;
        browser.click("[data-bulk=delete]").await;
        browser.until("document.querySelector('#ask').open").await;
        browser.click("#ask [value=no]").await;
        assert_eq!(size(&world, "mail", TaskState::Completed).await, 24);

        // A single task.
        let one = |name: &str, n| format!("/queues/{name}/tasks/{}", shop::uuid(name, n));
        world.open(&one("images", 0)).await;
        world.act("[data-post$='/run']", "is pending").await;
        browser.until("document.querySelector('.title .s-pending')").await;
        assert_eq!(state(&world, "images", &shop::uuid("images", 0)).await, Some(TaskState::Pending));
        world.act("[data-post$='/archive']", "is archived").await;
        browser.until("document.querySelector('.title .s-archived')").await;
        browser.click("details summary").await;
        browser.js("document.querySelector('textarea').value = '{\"path\":\"new.jpg\"}'").await;
        world.act("button[value='']", "has its new arguments").await;
        let edited =
            world.fixture.broker().task(&queue("images"), &task_id(&shop::uuid("images", 0))).await.unwrap().unwrap();
        assert_eq!((&edited.payload[..], edited.state), (&b"{\"path\":\"new.jpg\"}"[..], TaskState::Archived));
        browser.until("document.querySelector('pre').textContent.includes('new.jpg')").await;
        // Arguments reach the server as they were typed, whatever a number of JavaScript holds.
        browser
            .js("const fetched = window.fetch;
                window.fetch = (url, options) => { window.sent = options?.body ?? window.sent; return fetched(url, options); };
                // Also in a form that a notification makes anew before the button is pressed.
                const changed = () => {
                    const form = document.querySelector('form[data-edit]');
                    if (form && form.dataset.as !== 'arguments') form.dataset.as = 'arguments';
                };
                changed();
                new MutationObserver(changed).observe(document, { subtree: true, childList: true, attributes: true });
                document.querySelector('textarea').value = '{\"n\":9007199254740993}';")
            .await;
        world.act("button[value='']", "does not know the job").await;
        browser.until("window.sent.endsWith(',\"arguments\":{\"n\":9007199254740993}}')").await;
        // A button that waits for its answer stays disabled when the page is made anew meanwhile. The run that follows the new
        // arguments is asked for in the state that the page shows.
        world.open(&one("images", 0)).await;
        browser.click("details summary").await;
        let disabled = "const button = document.querySelector('button[value=run]'); button.disabled = true;
            const app = document.querySelector('script[type=module]').src;
            return import(app.replace('app.js', 'live.js')).then((live) => live.refresh(true)).then(() => button.disabled)";
        assert_eq!(browser.js(disabled).await, true);
        browser.js("document.querySelector('button[value=run]').disabled = false").await;
        browser
            .js("const fetched = window.fetch;
                window.fetch = (url, options) => { window.sent = options?.body ?? window.sent; return fetched(url, options); }")
            .await;
        world.act("button[value=run]", "is pending").await;
        browser.until("window.sent === '{\"state\":\"archived\"}'").await;
        // The buttons of the old page send the state that the task had there, and are refused.
        browser.until("document.querySelector('.title .s-pending')").await;
        assert_eq!(state(&world, "images", &shop::uuid("images", 0)).await, Some(TaskState::Pending));
        world.act("[data-post$='/delete']", "is deleted").await;
        browser.until("location.pathname === '/queues/images'").await;
        assert_eq!(state(&world, "images", &shop::uuid("images", 0)).await, None);

        // Running tasks: the request reaches the listener.
        let mut cancellations = world.fixture.broker().cancellations().await.unwrap();
        let runs: Vec<_> = world.active.iter().filter(|run| run.key.queue.as_str() == "webhooks").collect();
        world.open(&format!("/queues/webhooks/tasks/{}", runs[0].key.id)).await;
        world.act("[data-post$='/cancel']", "asked to cancel").await;
        assert_eq!(cancellations.next().await.unwrap(), runs[0].key.id);
        // The question is about what was pressed, though its button stands for something else meanwhile.
        browser.click("[data-post$='/cancel']").await;
        browser.js("document.querySelector('[data-post$=\"/cancel\"]').dataset.post = '/nowhere'").await;
        browser.click("#ask [value=ok]").await;
        assert_eq!(cancellations.next().await.unwrap(), runs[0].key.id);
        // A run that has ended since it was picked does not keep the others from being cancelled.
        world.open("/queues/webhooks?state=active").await;
        browser.js("document.querySelector('main').dataset.live = 'off'").await;
        browser.click("[data-all]").await;
        let first = browser.js("return document.querySelector('input[name=id]').value").await;
        for run in runs.iter().filter(|run| run.key.id.as_str() == first) {
            world.fixture.settle(run, asynq_tests::done()).await;
        }
        let said = format!("{} runs asked to cancel; 1 run had ended before.", runs.len() - 1);
        world.act("[data-bulk=cancel]", &said).await;
        for _ in 1..runs.len() {
            assert_ne!(cancellations.next().await.unwrap().as_str(), first);
        }

        // Periodic entries.
        world.open("/periodic").await;
        let entry = shop::entry_id("report:nightly");
        let row = format!("[id='e-reports/{entry}']");
        world.act(&format!("{row} [data-post$='/pause']"), "is paused").await;
        browser.until(&format!("document.querySelector(\"{row} .tag\")?.textContent === 'paused'")).await;
        assert!(world.fixture.broker().entry(&queue("reports"), &entry).await.unwrap().unwrap().paused);
        world.open(&format!("/periodic/reports/{entry}")).await;
        assert!(browser.text("main").await.contains("None while it is paused"));
        world.act("[data-post$='/resume']", "goes on").await;
        let before = size(&world, "reports", TaskState::Pending).await;
        world.act("[data-post$='/run']", "").await;
        browser.until("document.querySelectorAll('tbody tr').length === 6").await;
        assert_eq!(size(&world, "reports", TaskState::Pending).await, before + 1);

        // A refusal is shown with its reason.
        world.fixture.enqueue(task("soon").in_queue("reports").after(Duration::from_secs(60))).await;
        world.open("/queues/reports/tasks/soon").await;
        // The page must not receive the change before the button is pressed.
        browser.js("document.querySelector('main').dataset.live = 'off'").await;
        world
            .fixture
            .broker()
            .change_task(&queue("reports"), &task_id("soon"), None, BulkAction::Delete)
            .await
            .unwrap();
        world.act("[data-post$='/run']", "soon").await;
        assert_eq!(browser.js("return document.querySelector('#said').className").await, "bad");
        browser.until("document.querySelector('main').textContent.includes('Not here')").await;

        // A queue, by its name.
        world.open("/queues/search-index").await;
        for run in world.active.iter().filter(|run| run.key.queue.as_str() == "search-index") {
            world.fixture.settle(run, asynq_tests::done()).await;
        }
        browser.click("[data-post$='/delete']").await;
        assert_eq!(browser.js("return document.querySelector('#ask [value=ok]').disabled").await, true);
        browser.click("#ask [value=no]").await;
        world.act("[data-post$='/delete']", "").await;
        browser.until("location.pathname === '/' && document.querySelectorAll('tbody tr').length === 5").await;
        world.end_after("status of 40").await;
    });
}

/// The page asks again as long as an answer says that more is left. The first answers here are made up: a server works for 15 s
/// before it gives one of these.
#[test]
fn an_action_in_several_requests_tells_what_all_of_them_changed() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        let answer_first = async |answers: serde_json::Value| {
            let script = format!(
                "const fetched = window.fetch, answers = {answers};
                 window.sent = [];
                 window.fetch = (url, options) => {{
                     if (options?.method !== 'POST') return fetched(url, options);
                     window.sent.push(JSON.parse(options.body));
                     const [status, body] = answers.shift() ?? [];
                     return status ? Promise.resolve(new Response(JSON.stringify(body), {{ status }})) : fetched(url, options);
                 }}"
            );
            browser.js(&script).await;
        };
        let part = |n: u64| json!([200, { "message": format!("{n} tasks were deleted."), "changed": n, "treated": n, "more": true }]);
        let pick_every = async |state: &str| {
            world.open(&format!("/queues/mail?state={state}")).await;
            browser.click("[data-all]").await;
            browser.click("[data-every]").await;
        };

        pick_every("retry").await;
        answer_first(json!([part(1), part(3)])).await;
        world.act("[data-bulk=delete]", "6 tasks were deleted.").await;
        assert_eq!(size(&world, "mail", TaskState::Retry).await, 4, "the last request was for the last two");
        let sent = "return window.sent.map(({ most, before }) => [most, before ?? null])";
        assert_eq!(browser.js(sent).await, json!([[6, null], [5, 1], [2, 4]]));

        pick_every("archived").await;
        answer_first(json!([part(2), [503, { "error": { "message": "the broker is away" } }]])).await;
        world.act("[data-bulk=delete]", "the broker is away (before that: 2 tasks were deleted.)").await;
        assert_eq!(browser.js("return document.querySelector('#said').className").await, "bad");

        // Picked tasks that were not reached in time can be asked for again.
        world.open("/queues/mail?state=completed").await;
        browser.click("tbody tr:nth-child(2) input").await;
        answer_first(
            json!([[200, { "message": "Not reached: 1; ask again.", "changed": 0, "treated": 0, "left": 1 }]]),
        )
        .await;
        world.act("[data-bulk=delete]", "Not reached: 1").await;
        browser.until("!document.querySelector('#picked [aria-busy]')").await;
        assert_eq!(browser.text("#picked output").await, "1 picked");
        world.act("[data-bulk=delete]", "1 task was deleted.").await;
        browser.until("document.querySelector('#picked').hidden").await;

        world.fixture.enqueue(task("t1").in_queue("old")).await;
        world.open("/queues/old").await;
        answer_first(json!([[200, { "message": "7 tasks are deleted", "tasks": 7, "more": true }]])).await;
        world.act("[data-post$='/delete']", "").await;
        browser
            .until(
                "location.pathname === '/' && document.querySelector('#said').textContent.includes('8 tasks with it')",
            )
            .await;
        // The page of the queue may have been asked for once more before it was left.
        world.end_after("status of 404").await;
    });
}

/// The archive's limit is less than the number of tasks: the question names the tasks to be deleted, and asks for a typed word.
#[test]
fn archiving_beyond_the_archive_needs_a_confirmation_with_the_numbers() {
    use asynq_runtime::{
        broker::ServerName,
        task::{ArchiveLimit, QueueWeight, ServerInfo},
    };

    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        let info = ServerInfo {
            rust_version: "0.1.0".into(),
            queues: vec![QueueWeight { queue: Some("mail".into()), weight: Some(1) }],
            archives: vec![ArchiveLimit { queue: "mail".into(), tasks: 7 }],
            ..ServerInfo::default()
        };
        let name = ServerName { host: "small".into(), pid: 1, server_id: "small".into() };
        let member = world.fixture.broker().join(&name, &info).await.unwrap();
        // A server without heartbeats soon disappears, and its archive limits with it.
        let broker = world.fixture.shared();
        let _lives = AbortOnDropHandle::new(tokio::spawn(async move {
            while broker.beat(&member, &info, &[]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }));
        let (retry, archived) =
            (size(&world, "mail", TaskState::Retry).await, size(&world, "mail", TaskState::Archived).await);
        world.open("/queues/mail?state=retry").await;
        browser.click("[data-all]").await;
        browser.click("[data-every]").await;
        browser.click("[data-bulk=archive]").await;
        browser.until("document.querySelector('#ask').open").await;
        let question = browser.text("#ask p").await;
        let lost = retry + archived - 7;
        let expected = format!("The archive keeps 7 tasks and holds {archived}: the {lost} oldest will be DELETED.");
        assert!(question.ends_with(&expected), "{question}");
        assert_eq!(browser.js("return document.querySelector('#ask [value=ok]').disabled").await, true);
        browser.click("#ask [value=no]").await;
        assert_eq!(size(&world, "mail", TaskState::Retry).await, retry, "nothing is done without the word");
        browser.click("[data-bulk=archive]").await;
        browser.until("document.querySelector('#ask').open").await;
        browser.js("const word = document.querySelector('#ask input'); word.value = 'delete'; word.oninput()").await;
        browser.click("#ask [value=ok]").await;
        browser.until("document.querySelector('#said').textContent.includes('were archived')").await;
        assert_eq!(size(&world, "mail", TaskState::Retry).await, 0);
        world.end().await;
    });
}

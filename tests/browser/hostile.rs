//! Hostile text wherever text is shown: the page shows the text, and no part of it runs.

use std::time::Duration;

use asynq_runtime::{
    broker::ServerName,
    task::{QueueWeight, SchedulerEnqueueEvent, SchedulerEntry, ServerInfo, Timestamp, WorkerInfo},
};
use asynq_tests::{Build as _, Fixture, SqliteStore, Store, archive, complete, retry, task};
use serde_json::{Value, json};

use crate::{wait, world::World};

/// Texts that would leave a mark on the window if they ran, and texts that break pages in other ways.
pub(crate) fn texts() -> Vec<String> {
    const MARK: &str = "window.ran=1";
    let mut texts: Vec<String> = [
        "<script>MARK</script>",
        "</script><script>MARK</script>",
        "<ScRiPt>MARK</sCrIpT>",
        "<script src=//evil.example/x.js></script>",
        "<img src=x onerror=MARK>",
        "<img src=\"x\" onerror=\"MARK\">",
        "<svg onload=MARK>",
        "<svg><script>MARK</script></svg>",
        "<svg><animate onbegin=MARK attributeName=x dur=1s>",
        "<body onload=MARK>",
        "<iframe src=\"javascript:parent.ran=1\"></iframe>",
        "<iframe srcdoc=\"<script>parent.ran=1</script>\"></iframe>",
        "<details open ontoggle=MARK>",
        "<input autofocus onfocus=MARK>",
        "<video><source onerror=MARK></video>",
        "<marquee onstart=MARK>",
        "<object data=\"javascript:MARK\">",
        "<embed src=\"javascript:MARK\">",
        "<math><mtext><script>MARK</script></mtext></math>",
        "<style>@import '//evil.example/x.css';</style>",
        "<link rel=stylesheet href=//evil.example/x.css>",
        "<base href=//evil.example/>",
        "<meta http-equiv=refresh content=\"0;url=//evil.example\">",
        "<form action=//evil.example><button>",
        "<template><script>MARK</script></template>",
        "<noscript><p title=\"</noscript><img src=x onerror=MARK>\">",
        "<!--><script>MARK</script>-->",
        "<![CDATA[<script>MARK</script>]]>",
        "<plaintext>",
        "<xmp><script>MARK</script></xmp>",
        "\"><script>MARK</script>",
        "'><script>MARK</script>",
        "\" onmouseover=\"MARK",
        "' onmouseover='MARK",
        "\" autofocus onfocus=\"MARK",
        "\" style=\"background:url(//evil.example)",
        "` onmouseover=`MARK",
        "x\" onfocus=MARK tabindex=1 autofocus x=\"",
        "javascript:MARK",
        "JaVaScRiPt:MARK",
        "\u{1}javascript:MARK",
        "data:text/html,<script>MARK</script>",
        "//evil.example/",
        "../../../../etc/passwd",
        "..",
        ".",
        "~",
        "%2e%2e%2f%00",
        "&lt;script&gt;MARK&lt;/script&gt;",
        "&#60;script&#62;MARK&#60;/script&#62;",
        "\\u003cscript\\u003eMARK\\u003c/script\\u003e",
        "{{constructor.constructor('MARK')()}}",
        "${MARK}",
        "</textarea><script>MARK</script>",
        "</title><script>MARK</script>",
        "</pre></td></table></main><script>MARK</script>",
        "\u{202e}txet desrever\u{202c}\u{200b}",
        "\u{1b}[31mred\u{1b}[0m\u{7}",
        "line\r\nbreak\ttab",
        "__proto__",
    ]
    .map(|text| text.replace("MARK", MARK))
    .into();
    texts.push(format!("<b>{}", "x".repeat(300)));
    texts
}

/// Puts hostile text into every field that a store can hold.
async fn fill<S: Store>(fixture: &Fixture<S>, texts: &[String]) {
    for (n, text) in texts.iter().enumerate() {
        let mut hostile =
            task(text).with_payload(json!({ text: text }).to_string()).with_header(text, text).with_retention(3600);
        hostile.message.r#type = text.clone();
        hostile.message.unique_key = text.clone();
        let mut raw = hostile.clone().with_payload(text.clone());
        (raw.id, raw.message.id) = (asynq_tests::task_id(&format!("{text}2")), format!("{text}2"));
        let mut result = hostile.clone();
        (result.id, result.message.id) = (asynq_tests::task_id(&format!("{text}3")), format!("{text}3"));
        for (task, end) in [
            (hostile, retry(Duration::from_secs(3600 + n as u64), text)),
            (raw, archive(text)),
            (result, complete(text)),
        ] {
            let run = fixture.start_run(task).await;
            fixture.settle(&run, end).await;
        }
        fixture.enqueue(task(&format!("queued-{n}")).in_queue(text)).await;
        fixture.enqueue(task(&format!("grouped-{n}")).grouped(text)).await;
    }
    let broker = fixture.broker();
    let now = broker.now();
    let mut shown = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        let name = ServerName { host: text.clone(), pid: n as u32, server_id: text.clone() };
        let info = ServerInfo {
            host: text.clone(),
            pid: n as i32,
            server_id: text.clone(),
            status: text.clone(),
            rust_version: text.clone(),
            queues: vec![QueueWeight { queue: Some(text.clone()), weight: Some(1) }],
            ..ServerInfo::default()
        };
        let member = broker.join(&name, &info).await.unwrap();
        let worker = WorkerInfo {
            server_id: text.clone(),
            host: text.clone(),
            pid: n as i32,
            task_id: text.clone(),
            task_type: text.clone(),
            queue: text.clone(),
            ..WorkerInfo::default()
        };
        broker.beat(&member, &info, &[worker]).await.unwrap();
        shown.push(SchedulerEntry {
            id: text.clone(),
            spec: text.clone(),
            task_type: text.clone(),
            task_payload: text.clone().into(),
            enqueue_options: vec![format!("Queue(\"default\")"), format!("Custom({text})")],
            next_enqueue_time: Some(now.into()),
            prev_enqueue_time: Some(Timestamp::NEVER),
            ..SchedulerEntry::default()
        });
        let event = SchedulerEnqueueEvent { task_id: text.clone(), enqueue_time: Some(now.into()) };
        broker.record_enqueue(text, &event).await.unwrap();
    }
    broker.show_entries("evil", &shown, Duration::from_secs(3600)).await.unwrap();
}

/// Looks for foreign content in the window: `null` if no script ran and every element and handler is the dashboard's own; else
/// the foreign content, as a string for the failure.
const LOOK: &str = "
    const made = (e) => e.closest('head') || e.closest('.u-wrap') || e.matches('[style]') && e.closest('.plot, .spark, #picked');
    const tags = 'script,iframe,object,embed,base,img,video,link,meta,style,plaintext,marquee,math,xmp,[style]';
    const strange = [...document.querySelectorAll(tags)].find((e) => !made(e));
    const address = (a) => ['href', 'src', 'action'].includes(a.name) && /^\\s*javascript:/i.test(a.value);
    const handler = [...document.querySelectorAll('*')].find((e) => [...e.attributes].some((a) => a.name.startsWith('on') || address(a)));
    const shown = [document.querySelector('h1')?.textContent ?? '', document.querySelector('main').textContent];
    return [window.ran ?? strange?.outerHTML ?? handler?.outerHTML ?? null, document.querySelector('#down').textContent === '', ...shown]";

/// The title and the text of the page, which must have no foreign content.
async fn clean<S: Store>(world: &World<S>, path: &str) -> (String, String) {
    checked(&world.browser.js(LOOK).await, path)
}

fn checked(seen: &Value, path: &str) -> (String, String) {
    assert!(seen[0].is_null(), "{path}: {}", seen[0]);
    assert_eq!(seen[1], true, "{path} was made");
    let text = |n: usize| seen[n].as_str().unwrap_or_default().to_owned();
    (text(2), text(3))
}

/// Looks at pages that the window does not show, and returns their titles and texts. The scripts would treat them like the shown
/// ones, and take most of the time.
async fn parsed<S: Store>(world: &World<S>, paths: &[String]) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    // A script may run for half a minute.
    for paths in paths.chunks(10) {
        let script = format!(
            "const look = (document) => {{ {LOOK} }};
             return Promise.all({}.map(async (path) => {{
                 const answer = await fetch(path);
                 if (answer.status >= 500) throw new Error(`${{path}}: ${{answer.status}}`);
                 return look(new DOMParser().parseFromString(await answer.text(), 'text/html'));
             }}))",
            json!(paths)
        );
        let seen = world.browser.js(&script).await;
        pages.extend(paths.iter().enumerate().map(|(n, path)| checked(&seen[n], path)));
    }
    pages
}

/// On one broker: the HTML is the same on every broker, and the brokers' own cases test the stored text.
#[test]
fn hostile_text_is_only_text() {
    wait(async {
        let fixture = Fixture::<SqliteStore>::real_time().await;
        let texts = texts();
        fill(&fixture, &texts).await;
        let world = World::of(fixture, Vec::new()).await;
        let segment = |text: &str| {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            if text == "." || text == ".." || text.starts_with('~') { format!("~{encoded}") } else { encoded }
        };
        let mut paths: Vec<String> =
            ["/", "/?page=2", "/?page=3", "/servers", "/periodic", "/broker", "/queues/default/groups"]
                .map(str::to_owned)
                .into();
        for state in ["retry", "archived", "completed", "aggregating"] {
            paths.push(format!("/queues/default?state={state}&per=100"));
        }
        paths.push("/search?state=retry".into());
        let mut unshown = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            let text = segment(text);
            let list = if n % 4 == 0 { &mut paths } else { &mut unshown };
            list.extend([
                format!("/queues/default/tasks/{text}"),
                format!("/queues/{text}?q={text}"),
                format!("/periodic/default/{text}"),
            ]);
        }
        let first = segment(&texts[0]);
        paths.extend([
            format!("/queues/default/tasks/{first}2"),
            format!("/queues/default/tasks/{first}3"),
            format!("/search?q={first}"),
        ]);
        // The page of a task shows its text unchanged.
        let shows_text = |path: &str, (title, main): (String, String)| {
            let of = texts.iter().find(|text| path == format!("/queues/default/tasks/{}", segment(text)));
            if let Some(text) = of.filter(|text| text.chars().count() < 100 && text.chars().all(|c| !c.is_control())) {
                assert_eq!(title, *text);
                assert!(main.matches(text.as_str()).count() >= 5, "{text}: {main}");
            }
        };
        for (n, path) in paths.iter().enumerate() {
            // Both ways in which a page comes into the window: as a new document, and into the existing one.
            let page = if n < 14 || n % 10 == 0 {
                world.open(path).await;
                clean(&world, path).await
            } else {
                checked(&world.browser.turn_to(path, LOOK).await, path)
            };
            shows_text(path, page);
        }
        for (path, page) in unshown.iter().zip(parsed(&world, &unshown).await) {
            shows_text(path, page);
        }
        // A question and the message after it are safe, too.
        let text = "<img src=x onerror=window.ran=1>";
        world.open(&format!("/queues/default/tasks/{}", segment(text))).await;
        world.act("[data-post$='/run']", text).await;
        clean(&world, "what is said").await;
        world.open(&format!("/queues/{}", segment(text))).await;
        world.act("[data-post$='/delete']", text).await;
        clean(&world, "the question").await;
        let complaints = world.browser.complaints().await;
        let refused: Vec<_> = complaints.iter().filter(|message| !message.contains("status of 40")).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        world.end().await;
    });
}

#[test]
fn there_are_at_least_sixty_texts() {
    let texts = texts();
    assert!(texts.len() >= 60, "{}", texts.len());
    assert!(texts.iter().all(|text| texts.iter().filter(|other| *other == text).count() == 1));
}

//! A page behind a proxy that asks for a login, refuses the fetches of the page, or leads to another version of the dashboard.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use asynq_dashboard::Dashboard;
use asynq_runtime::Client;
use asynq_tests::{Build as _, Fixture, SqliteStore, task};
use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{Html, IntoResponse as _, Redirect},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{wait, world::World};

#[test]
fn a_page_leaves_for_the_login_of_a_proxy_at_another_origin_or_in_its_place() {
    wait(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let elsewhere = format!("http://{}/", listener.local_addr().unwrap());
        let login = Html("<h1>Who are you?</h1>");
        let page = Router::new().fallback(move || ready(login));
        let serving = tokio::spawn(async move { axum::serve(listener, page).await.unwrap() });
        for router in [
            Router::new().fallback(move || ready(Redirect::to(&elsewhere))),
            Router::new().fallback(move || ready((StatusCode::FORBIDDEN, login))),
        ] {
            let mut world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
            world.open("/").await;
            world.serve_instead(router).await;
            world.browser.until("document.querySelector('h1').textContent === 'Who are you?'").await;
            world.leave().await;
        }
        serving.abort();
    });
}

#[test]
fn a_page_whose_fetches_a_proxy_refuses_loads_itself_again_once() {
    wait(async {
        let world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        let browser = &world.browser;
        // A blank page has no storage.
        let source = "{
            const passed = window.fetch;
            try { sessionStorage.loads = Number(sessionStorage.loads ?? 0) + 1; } catch { /* not ours */ }
            window.fetch = (address, options) => options?.headers?.['x-asynq-live'] && !sessionStorage.passes
                ? Promise.resolve(new Response('', { status: 401 })) : passed(address, options);
        }";
        browser.chromium("Page.addScriptToEvaluateOnNewDocument", json!({ "source": source })).await;
        // The listener of this event fetches the page anew.
        let fetches = "document.dispatchEvent(new Event('visibilitychange'))";
        world.open("/").await;
        browser.until(fetches).await;
        browser.until("sessionStorage.loads === '2' && document.readyState === 'complete'").await;
        browser.js(fetches).await;
        browser.until("document.querySelector('#down').textContent.includes('refuses')").await;
        // The page goes on by itself once a fetch passes, and the next refusal loads it again.
        browser.js("sessionStorage.passes = 'yes'").await;
        browser.until("document.querySelector('#down').textContent === ''").await;
        assert_eq!(browser.js("return sessionStorage.loads").await, "2");
        browser.js(&format!("delete sessionStorage.passes; {fetches}")).await;
        browser.until("sessionStorage.loads === '3'").await;
        world.leave().await;
    });
}

#[test]
fn a_page_that_is_refused_for_a_while_tries_until_it_is_there() {
    wait(async {
        let mut world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.open("/").await;
        // The dashboard refuses a client that may not be logged in with a page that says nothing else.
        let refusal = "return fetch(location.href).then((page) => page.text()).then((text) => {
                const page = new DOMParser().parseFromString(text, 'text/html'), main = page.querySelector('main');
                page.documentElement.removeAttribute('data-events');
                page.querySelector('.top').remove();
                Object.assign(main.dataset, { live: 'off', failed: '' });
                main.innerHTML = '<div class=title><h1>This did not work</h1></div><p class=notice>too many wrong logins</p>';
                return '<!doctype html>' + page.documentElement.outerHTML;
            })";
        let refusal = world.browser.js(refusal).await.as_str().unwrap().to_owned();
        let asked = Arc::new(AtomicUsize::new(0));
        let refuse = move |request: Request, next: Next| {
            let is_refused = request.uri().path() == "/" && asked.fetch_add(1, Ordering::Relaxed) < 2;
            let refusal = is_refused.then(|| (StatusCode::TOO_MANY_REQUESTS, Html(refusal.clone())));
            async move {
                match refusal {
                    Some(refusal) => refusal.into_response(),
                    None => next.run(request).await,
                }
            }
        };
        let dashboard = Dashboard::new(&Client::new(world.fixture.shared())).without_login();
        world.browser.open("about:blank").await;
        world.serve_instead(dashboard.router().unwrap().layer(middleware::from_fn(refuse))).await;
        world.open("/").await;
        assert_eq!(world.browser.text("h1").await, "This did not work");
        world
            .browser
            .until("document.querySelector('h1').textContent === 'Queues' && document.querySelector('.top') && !document.querySelector('#down').textContent")
            .await;
        world.leave().await;
    });
}

#[test]
fn an_open_page_loads_the_scripts_of_a_new_version_once_nothing_typed_is_lost() {
    wait(async {
        let mut world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.fixture.enqueue(task("t1").with_payload(r#"{"to":"ann"}"#)).await;
        world.open("/queues/default/tasks/t1").await;
        let page = world.browser.js("return fetch(location.href).then((page) => page.text())").await;
        let script = "return document.querySelector('script[type=module]').getAttribute('src')";
        let script = world.browser.js(script).await;
        let version = script.as_str().unwrap().split('/').nth(2).unwrap();
        let newer = page.as_str().unwrap().replace(version, "0123456789abcdef").replace("<title>", "<title>Newer ");
        world.browser.js("window.isOld = true; performance.now = () => 3_600_000").await;
        world.browser.click("details:has(textarea) summary").await;
        world.browser.fill("textarea", r#"{"to":"a long text"}"#).await;
        world.browser.js("document.activeElement.blur()").await;
        world.serve_instead(Router::new().fallback(move || ready(Html(newer.clone())))).await;
        world.browser.until("document.title.startsWith('Newer')").await;
        assert_eq!(world.browser.js("return window.isOld").await, true);
        assert_eq!(
            world.browser.js("return document.querySelector('textarea').value").await,
            r#"{"to":"a long text"}"#
        );
        world.browser.js("document.querySelector('textarea').form.reset()").await;
        world.browser.until_refreshed("!window.isOld").await;
        world.leave().await;
    });
}

#[test]
fn a_change_that_a_proxy_answers_in_place_of_the_dashboard_is_not_called_done() {
    wait(async {
        let mut world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.fixture.seed_pending(&["t1"]).await;
        world.open("/queues/default").await;
        world.serve_instead(Router::new().fallback(|| ready(Html("<h1>Who are you?</h1>")))).await;
        world.browser.click("[data-post$='/pause']").await;
        world.browser.until("document.querySelector('#said.bad').textContent.includes('the status 200')").await;
        world.leave().await;
    });
}

#[test]
fn a_page_whose_dashboard_is_away_behind_its_proxy_does_not_blame_the_broker() {
    wait(async {
        let mut world = World::of(Fixture::<SqliteStore>::real_time().await, Vec::new()).await;
        world.open("/").await;
        let answer = (StatusCode::BAD_GATEWAY, Html("<h1>Bad Gateway</h1>"));
        world.serve_instead(Router::new().fallback(move || ready(answer))).await;
        world.browser.until("document.querySelector('#down').textContent.includes('502')").await;
        assert!(!world.browser.text("#down").await.contains("broker"));
        world.leave().await;
    });
}

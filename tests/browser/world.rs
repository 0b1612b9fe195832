//! A store with the shop in it, a dashboard over the store, and a browser on the dashboard.

use asynq_dashboard::Dashboard;
use asynq_runtime::{Client, broker::Run};
use asynq_tests::{Fixture, Store};
use axum::Router;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{browser::Browser, shop};

/// The parts of a test's world.
pub(crate) struct World<S> {
    pub(crate) fixture: Fixture<S>,
    pub(crate) browser: Browser,
    pub(crate) url: String,
    pub(crate) active: Vec<Run>,
    serving: JoinHandle<()>,
    background: Option<JoinHandle<()>>,
}

impl<S: Store> World<S> {
    /// A world with the shop's tasks.
    pub(crate) async fn shop() -> Self {
        let fixture = Fixture::<S>::real_time().await;
        let active = shop::open(&fixture).await;
        let background = shop::keep_working(&fixture, &active);
        Self { background: Some(background), ..Self::of(fixture, active).await }
    }

    /// A world with the shop's tasks, which are not worked on, and a dashboard that `set` changes.
    pub(crate) async fn shop_with(set: impl FnOnce(Dashboard) -> Dashboard) -> Self {
        let fixture = Fixture::<S>::real_time().await;
        let active = shop::open(&fixture).await;
        let dashboard = set(Dashboard::new(&Client::new(fixture.shared())));
        Self::serving(fixture, active, dashboard).await
    }

    /// A world on a fixture with its tasks.
    pub(crate) async fn of(fixture: Fixture<S>, active: Vec<Run>) -> Self {
        let dashboard = Dashboard::new(&Client::new(fixture.shared()));
        Self::serving(fixture, active, dashboard).await
    }

    /// A world with this dashboard.
    pub(crate) async fn serving(fixture: Fixture<S>, active: Vec<Run>, dashboard: Dashboard) -> Self {
        let bound = dashboard.bind("127.0.0.1:0").await.unwrap();
        let url = bound.url().trim_end_matches('/').to_owned();
        let serving = tokio::spawn(bound.serve_until(std::future::pending()));
        Self { fixture, browser: Browser::start().await, url, active, serving, background: None }
    }

    /// Ends the server, as if its program had ended, and serves another dashboard at the same address.
    pub(crate) async fn serve_again(&mut self, dashboard: Dashboard) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
        let bound = dashboard.bind(self.url.trim_start_matches("http://")).await.unwrap();
        self.serving = tokio::spawn(bound.serve_until(std::future::pending()));
    }

    /// Ends the server, as if its program had ended, and serves `router` at the same address.
    pub(crate) async fn serve_instead(&mut self, router: Router) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
        let listener = TcpListener::bind(self.url.trim_start_matches("http://")).await.unwrap();
        self.serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    }

    /// Opens a page by its path.
    pub(crate) async fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.url)).await;
    }

    /// Presses a button, agrees if a question is asked, and waits for the message.
    pub(crate) async fn act(&self, button: &str, says: &str) {
        // The page shows a message for six seconds, within which a busy machine may not ask once.
        self.browser
            .js("const said = document.querySelector('#said'); said.textContent = ''; window.heard = []; \
                 new MutationObserver(() => window.heard.push(said.textContent)).observe(said, {childList: true})")
            .await;
        self.browser.click(button).await;
        if self.browser.js("return document.querySelector('#ask').open").await == true {
            let word = self.browser.text("#ask code").await;
            if !word.is_empty() {
                self.browser.fill("#ask input", &word).await;
            }
            self.browser.click("#ask [value=ok]").await;
        }
        let says = serde_json::json!(says);
        // A page that was left for another has no `heard`, and the next one shows the message.
        self.browser
            .until(&format!(
                "[...(window.heard ?? []), document.querySelector('#said').textContent].some(text => text.includes({says}))"
            ))
            .await;
    }

    /// Ends the browser and the server; fails if a page complained, or sent a request to another host.
    pub(crate) async fn end(self) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.leave().await;
    }

    /// [`end`](Self::end), where the browser may have complained of answers with this status.
    pub(crate) async fn end_after(self, status: &str) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.iter().all(|message| message.contains(status)), "{complaints:#?}");
        self.end().await;
    }

    /// Ends the browser and the server.
    pub(crate) async fn leave(self) {
        self.browser.close().await;
        self.serving.abort();
        if let Some(background) = self.background {
            background.abort();
        }
    }
}

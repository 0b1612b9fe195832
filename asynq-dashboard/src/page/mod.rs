//! The pages: one file each, and the frame around them.

use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::{failure::Failure, route::Route, state::AppState};

/// A page without its frame. As a response it is framed by the outermost layer with [`layout`].
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// What stands in the browser's tab, before the dashboard's own title.
    pub(crate) title: String,
    /// Which entry of the navigation it belongs to.
    pub(crate) active: Tab,
    /// What goes into `<main>`.
    pub(crate) body: Markup,
}

/// The entries of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    /// No entry: login, failures.
    None,
    /// `/` and everything below `/queues`.
    Queues,
    /// `/search`.
    Search,
    /// `/servers`.
    Servers,
    /// `/periodic`.
    Periodic,
    /// `/broker`.
    Broker,
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = ().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The pages' routes; all of them [`Route::read`] but the login form, which is [`Route::public`].
pub(crate) fn routes() -> Vec<Route> {
    Vec::new()
}

/// The whole document around a page.
pub(crate) fn layout(app: &AppState, page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (page.title) " · " (app.config().title) }
            }
            body { main { (page.body) } }
        }
    }
}

/// The page that says what went wrong.
pub(crate) fn failure(_app: &AppState, failure: &Failure) -> Page {
    let title = failure.kind.status().to_string();
    Page { body: html! { h1 { (title) } p { (failure.message) } }, title, active: Tab::None }
}

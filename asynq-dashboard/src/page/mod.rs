//! The pages: one file each, and the frame around them.

mod broker;
mod curves;
mod entry;
mod format;
mod frame;
mod groups;
mod login;
mod node;
mod overview;
mod part;
mod periodic;
mod pick;
mod queue;
mod search;
mod servers;
mod task;

use axum::{
    response::{IntoResponse, Response},
    routing::get,
};
use maud::{Markup, html};

pub(crate) use self::{
    format::{count, counted},
    frame::layout,
};
use crate::{
    failure::{Failure, Kind},
    route::Route,
    state::AppState,
};

/// A page without its frame. As a response it is framed by the outermost layer with [`layout`].
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// The text in the browser's tab, before the dashboard's own title.
    pub(crate) title: String,
    /// The entry of the navigation that the page belongs to.
    pub(crate) active: Tab,
    /// The content of `<main>`.
    pub(crate) body: Markup,
    kind: PageKind,
}

/// The properties of a page that the frame depends on.
#[derive(Debug, Clone, Copy, Default)]
struct PageKind {
    charts: bool,
    still: bool,
    bare: bool,
    /// The page says that the real page cannot be had now, and another try may work.
    failed: bool,
    waits: bool,
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

impl Page {
    /// Creates a page that is kept up to date by itself.
    pub(crate) fn new(title: impl Into<String>, active: Tab, body: Markup) -> Self {
        Self { title: title.into(), active, body, kind: PageKind::default() }
    }

    /// Adds the library that draws charts.
    fn with_charts(mut self) -> Self {
        self.kind.charts = true;
        self
    }

    /// Stops the page from updating itself: its content was expensive to find.
    fn still(mut self) -> Self {
        self.kind.still = true;
        self
    }

    /// Says whether a part of the page is still on its way: the page is fetched again soon.
    fn waiting(mut self, waits: bool) -> Self {
        self.kind.waits = waits;
        self
    }

    /// Leaves out the navigation, for a visitor that is not logged in.
    pub(crate) fn bare(mut self) -> Self {
        (self.kind.bare, self.kind.still) = (true, true);
        self
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = ().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the pages' routes, all of them [`Route::read`] but the form of the login.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::read("/", get(overview::get)),
        Route::read("/queues/{queue}", get(queue::get)),
        Route::read("/queues/{queue}/groups", get(groups::get)),
        Route::read("/queues/{queue}/tasks/{id}", get(task::get)),
        Route::read("/search", get(search::get)),
        Route::read("/servers", get(servers::get)),
        Route::read("/periodic", get(periodic::get)),
        Route::read("/periodic/{queue}/{entry}", get(entry::get)),
        Route::read("/broker", get(broker::get)),
        Route::public("/login", get(login::get)),
    ]
}

/// Returns the page that shows a failure.
pub(crate) fn failure(app: &AppState, failure: &Failure) -> Page {
    let title = match failure.kind {
        Kind::NotFound => "Not here",
        Kind::Away => "The broker does not answer",
        Kind::NoLogin | Kind::WrongLogin => "No entry",
        Kind::ReadOnly => "Read-only",
        _ => "This did not work",
    };
    // An error of the broker may end, too, as that of a file that was moved away does once its program is started again.
    let tries_again = failure.kind.retry_after().is_some() || failure.kind == Kind::Internal;
    let body = html! {
        div.title { h1 { (title) } span.tag { (failure.kind.status().as_u16()) } }
        p.notice.bad role="alert" { (part::text::cut(&failure.message, part::text::BLOCK).0) }
        // Without scripts a browser asks again only if the broker is away, by the header of the answer.
        @if failure.kind == Kind::Away { p.soft { "This page tries again by itself." } }
        @else if tries_again { p.soft { "With JavaScript this page tries again by itself." } }
        p { a.button href=(app.href(&[])) { "All queues" } }
    };
    let mut page = Page::new(title, Tab::None, body);
    page.kind.failed = tries_again;
    // A queue that is not here may be here again, like the page whose place this one takes.
    page.kind.still = !page.kind.failed && failure.kind != Kind::NotFound;
    // The page that follows may have charts.
    if page.kind.still { page } else { page.with_charts() }
}

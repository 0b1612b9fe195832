//! The one table of routes: what is not in it is not served, and what is in it says who may call it.

use axum::{http::Method, routing::MethodRouter};

use crate::{action, api, asset, health, live, login, metrics, page, state::AppState};

/// One path and method.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// GET (HEAD comes with it) or POST.
    pub(crate) method: Method,
    /// As axum writes it, below the mount path: `/queues/{queue}`.
    pub(crate) path: &'static str,
    /// Who may call it.
    pub(crate) access: Access,
    /// What it does.
    pub(crate) call: MethodRouter<AppState>,
}

/// Who may call a route. Whatever is not GET needs a same-origin request besides, whoever calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody that reaches the port: style sheets, the login itself, health checks.
    Public,
    /// Who is logged in, where a login is configured.
    Read,
    /// The same, unless the dashboard is read-only.
    Write,
}

impl Route {
    /// A GET that needs a login.
    pub(crate) fn read(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self { method: Method::GET, path, access: Access::Read, call }
    }

    /// A POST that changes something.
    pub(crate) fn write(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self { method: Method::POST, path, access: Access::Write, call }
    }

    /// A GET for everybody.
    pub(crate) fn public(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self { method: Method::GET, path, access: Access::Public, call }
    }
}

/// Every route of the dashboard.
pub(crate) fn table() -> Vec<Route> {
    let mut routes = page::routes();
    routes.extend(action::routes());
    routes.extend(api::routes());
    routes.extend(live::routes());
    routes.extend(asset::routes());
    routes.extend(login::routes());
    routes.extend(observed());
    routes
}

/// Metrics and health: all that `--metrics` serves.
pub(crate) fn observed() -> Vec<Route> {
    let mut routes = health::routes();
    routes.extend(metrics::routes());
    routes
}

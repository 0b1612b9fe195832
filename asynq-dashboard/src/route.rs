//! One row of the table of routes: a path, a method, and the callers that may use it.

use axum::{http::Method, routing::MethodRouter};

use crate::state::AppState;

/// One path and method.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The method, the path and the callers.
    pub(crate) info: RouteInfo,
    /// The handler.
    pub(crate) call: MethodRouter<AppState>,
}

/// The callers that may use a route. Every method but GET needs a same-origin request besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Every client that reaches the port, whatever host it names: health checks, whose probes name the address of a pod.
    Probe,
    /// Every client that reaches the port: style sheets, the login itself.
    Public,
    /// Callers that are logged in, where a login is configured.
    Read,
    /// Callers as for [`Read`](Self::Read), unless the dashboard is read-only.
    Write,
}

impl Access {
    /// Returns whether no login is needed.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Probe | Self::Public)
    }
}

impl Route {
    /// Creates a route.
    pub(crate) fn new(method: Method, path: &'static str, access: Access, call: MethodRouter<AppState>) -> Self {
        Self { info: RouteInfo { method, path, access }, call }
    }

    /// Creates a GET for health checks.
    pub(crate) fn probe(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self::new(Method::GET, path, Access::Probe, call)
    }

    /// Creates a GET that needs a login.
    pub(crate) fn read(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self::new(Method::GET, path, Access::Read, call)
    }

    /// Creates a POST that changes something.
    pub(crate) fn write(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self::new(Method::POST, path, Access::Write, call)
    }

    /// Creates a GET for every client.
    pub(crate) fn public(path: &'static str, call: MethodRouter<AppState>) -> Self {
        Self::new(Method::GET, path, Access::Public, call)
    }
}

/// One route, for tests of the routes that a dashboard offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteInfo {
    /// `GET`, with which `HEAD` comes, or `POST`.
    pub method: Method,
    /// The path below the mount path, as axum writes it: `/queues/{queue}`.
    pub path: &'static str,
    /// The callers that may use it.
    pub access: Access,
}

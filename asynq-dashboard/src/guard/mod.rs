//! Checks that every request passes before its handler: sizes, host, origin, login, body, in this order, all within a
//! time-out; a change leaves a line in the log.

mod audit;
mod body;
mod limits;
mod origin;

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};

use self::audit::AuditLine;
pub(crate) use self::body::MOST as LARGEST_BODY;
use crate::{
    failure::{Failure, Kind},
    host, live,
    login::Caller,
    route::Access,
    state::AppState,
};

/// How long a request may take from its head on. An event stream begins in this time and then goes on.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Lets a request through to its handler, or answers it.
pub(crate) async fn guard(State((app, access)): State<(AppState, Access)>, request: Request, next: Next) -> Response {
    let mut line = AuditLine::of(&request);
    let slow = if is_reader(request.method()) {
        "this took longer than 30 s; ask for less"
    } else {
        "this took longer than 30 s, and may have been done all the same: look, and ask again"
    };
    let whole = async {
        match pass(&app, access, request, &mut line.who).await {
            Ok(request) => next.run(request).await,
            Err(failure) => failure.into_response(),
        }
    };
    let response = tokio::time::timeout(TIMEOUT, whole).await;
    let mut response = response.unwrap_or_else(|_| Failure::new(Kind::Slow, slow).into_response());
    line.status = Some(response.status());
    if line.who.is_in() {
        response.extensions_mut().insert(KnownCaller);
    }
    response
}

/// The mark of an answer to a caller who may see what the dashboard shows on every page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownCaller;

async fn pass(app: &AppState, access: Access, mut request: Request, who: &mut Caller) -> Result<Request, Failure> {
    limits::check(request.uri(), request.headers())?;
    let host = host::of(&request);
    if access != Access::Probe {
        app.hosts.check(host.as_deref())?;
    }
    origin::check_reader(request.headers())?;
    // Public routes authenticate too: a wrong token counts everywhere, and a page shows the user's name.
    match app.login.caller(&request, renews(&request, &app.config.mount)) {
        Ok(caller) => *who = caller,
        Err(failure) if !access.is_open() => return Err(failure),
        Err(_) => {}
    }
    if !access.is_open() && !who.is_in() {
        return Err(Failure::new(Kind::NoLogin, "log in first"));
    }
    request.extensions_mut().insert(who.clone());
    if is_reader(request.method()) {
        return Ok(request);
    }
    origin::check(request.headers(), host.as_deref())?;
    if access == Access::Write && app.config.read_only {
        return Err(Failure::new(Kind::ReadOnly, "this dashboard is read-only"));
    }
    body::read(request, if access.is_open() { body::MOST_OPEN } else { body::MOST }).await
}

/// Returns whether a request keeps its session alive. An open tab alone does not: neither its events nor the page that it fetches
/// anew by itself.
fn renews(request: &Request, mount: &str) -> bool {
    let is_stream = request.uri().path().strip_prefix(mount) == Some(live::PATH);
    !is_stream && !request.headers().contains_key("x-asynq-live")
}

fn is_reader(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn what_a_page_asks_by_itself_keeps_no_session_alive() {
        let request = |path: &str| Request::builder().uri(path).body(Body::empty()).expect("a request");
        for (path, expected) in [("/jobs/", true), ("/jobs/queues/events", true), ("/jobs/events", false)] {
            assert_eq!(renews(&request(path), "/jobs"), expected, "{path}");
        }
        let mut fetched = request("/jobs/");
        fetched.headers_mut().insert("x-asynq-live", "1".parse().expect("a value"));
        assert!(!renews(&fetched, "/jobs"));
    }
}

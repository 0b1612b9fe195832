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
    let line = AuditLine::of(&request);
    let mut who = None;
    let whole = async {
        match pass(&app, access, request, &mut who).await {
            Ok(request) => next.run(request).await,
            Err(failure) => failure.into_response(),
        }
    };
    let response = tokio::time::timeout(TIMEOUT, whole).await;
    let response = response
        .unwrap_or_else(|_| Failure::new(Kind::Slow, "this took longer than 30 s; ask for less").into_response());
    if let Some(line) = line {
        line.write(who.as_ref(), response.status());
    }
    response
}

async fn pass(
    app: &AppState,
    access: Access,
    mut request: Request,
    who: &mut Option<Caller>,
) -> Result<Request, Failure> {
    limits::check(request.uri(), request.headers())?;
    let rules = &app.rules;
    let host = host::of(&request);
    rules.hosts.check(host.as_deref())?;
    origin::check_reader(request.headers())?;
    // An open tab alone does not keep a session alive.
    let renews = request.uri().path().strip_prefix(&*app.config.mount) != Some(live::PATH);
    // Public routes authenticate too: a wrong token counts everywhere, and a page shows the user's name.
    let caller = rules.login.caller(&request, renews);
    *who = caller.as_ref().ok().cloned();
    match caller {
        Ok(caller) if access == Access::Public || caller.is_in() => {
            request.extensions_mut().insert::<Caller>(caller);
        }
        Err(_) if access == Access::Public => {}
        Ok(_) => return Err(Failure::new(Kind::NoLogin, "log in first")),
        Err(failure) => return Err(failure),
    }
    if is_reader(request.method()) {
        return Ok(request);
    }
    origin::check(request.headers(), host.as_deref())?;
    if access == Access::Write && app.config.read_only {
        return Err(Failure::new(Kind::ReadOnly, "this dashboard is read-only"));
    }
    body::read(request).await
}

fn is_reader(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

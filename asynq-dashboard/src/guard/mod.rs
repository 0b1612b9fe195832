//! What every request passes before its handler: sizes, host, login, origin, body, in this order, and a time-out.

mod body;
mod host;
mod limits;
mod origin;

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};

pub(crate) use self::{body::MOST as LARGEST_BODY, host::Hosts, host::name_of};
use crate::{
    failure::{Failure, Kind},
    login::Caller,
    route::Access,
    state::AppState,
};

/// How long a handler may take. Event streams begin in this time and then go on.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Lets a request through to its handler, or answers it.
pub(crate) async fn guard(State((app, access)): State<(AppState, Access)>, request: Request, next: Next) -> Response {
    match pass(&app, access, request).await {
        Ok(request) => match tokio::time::timeout(TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Failure::new(Kind::Slow, "this took longer than 30 s; ask for less").into_response(),
        },
        Err(failure) => failure.into_response(),
    }
}

async fn pass(app: &AppState, access: Access, mut request: Request) -> Result<Request, Failure> {
    limits::check(request.uri(), request.headers())?;
    let rules = app.rules();
    let host = host::of(&request);
    rules.hosts.check(host.as_deref())?;
    // Asked of public routes too: a wrong token is wrong everywhere, and a page wants to know whom it greets.
    let caller = rules.login.caller(&request);
    match caller {
        Ok(caller) if access == Access::Public || caller.is_in() => {
            request.extensions_mut().insert::<Caller>(caller);
        }
        Err(_) if access == Access::Public => {}
        Ok(_) => return Err(Failure::new(Kind::NoLogin, "log in first")),
        Err(failure) => return Err(failure),
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(request);
    }
    origin::check(request.headers(), host.as_deref())?;
    if access == Access::Write && app.config().read_only {
        return Err(Failure::new(Kind::ReadOnly, "this dashboard is read-only"));
    }
    body::read(request).await
}

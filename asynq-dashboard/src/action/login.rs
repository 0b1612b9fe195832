//! Log-in and log-out; the form itself is a page.

use std::net::SocketAddr;

use axum::{
    Extension,
    extract::{ConnectInfo, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;

use crate::{
    failure::{Failure, Kind},
    input::Input,
    login::Caller,
    route::{Access, Route},
    state::AppState,
};

/// Returns the routes of log-in and log-out.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route { method: Method::POST, path: "/login", access: Access::Public, call: post(log_in) },
        // A read-only dashboard has this route as well: a logout changes only the login.
        Route { method: Method::POST, path: "/logout", access: Access::Read, call: post(log_out) },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginRequest {
    password: String,
}

async fn log_in(
    State(app): State<AppState>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
    Input(given): Input<LoginRequest>,
) -> Result<Response, Failure> {
    let peer = peer.map(|Extension(ConnectInfo(address))| address.ip());
    let key = app.rules.login.log_in(peer, given.password).await?;
    with_cookie(app.rules.login.cookie.keep(&key, &headers))
}

async fn log_out(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    app.rules.login.log_out(&caller);
    with_cookie(app.rules.login.cookie.end(&headers))
}

fn with_cookie(cookie: String) -> Result<Response, Failure> {
    let value = HeaderValue::try_from(cookie)
        .map_err(|_| Failure::new(Kind::Internal, "the mount path is not valid in a cookie"))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, value)]).into_response())
}

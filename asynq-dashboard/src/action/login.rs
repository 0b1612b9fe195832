//! Log-in and log-out; the form itself is a page.

use std::net::SocketAddr;

use axum::{
    Extension,
    extract::{ConnectInfo, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    failure::{Failure, Kind},
    input::Input,
    login::Caller,
    state::AppState,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginRequest {
    password: String,
}

pub(super) async fn log_in(
    State(app): State<AppState>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
    Input(given): Input<LoginRequest>,
) -> Result<Response, Failure> {
    let peer = peer.map(|Extension(ConnectInfo(address))| address.ip());
    let key = app.login.log_in(peer, given.password).await?;
    with_cookie(app.login.cookie.keep(&key, &headers))
}

pub(super) async fn log_out(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    app.login.log_out(&caller);
    with_cookie(app.login.cookie.end(&headers))
}

fn with_cookie(cookie: String) -> Result<Response, Failure> {
    let value = HeaderValue::try_from(cookie)
        .map_err(|_| Failure::new(Kind::Internal, "the mount path is not valid in a cookie"))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, value)]).into_response())
}

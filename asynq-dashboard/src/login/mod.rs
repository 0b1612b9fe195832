//! Who calls: by password and session, by bearer token, or by what a proxy says.

mod back_off;
mod password;
mod session;
mod token;

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use axum::{
    Extension,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;

pub use self::password::hash_password;
use self::{back_off::BackOff, session::Sessions};
pub(crate) use self::{password::Password, token::Token};
use crate::{
    failure::{Failure, Kind},
    input::Input,
    route::{Access, Route},
    state::AppState,
};

/// How people and programs log in; all of them off lets everybody in.
#[derive(Debug, Default)]
pub(crate) struct Login {
    password: Option<Password>,
    token: Option<Token>,
    header: Option<HeaderName>,
    sessions: Sessions,
    back_off: BackOff,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Nobody said; a login is needed.
    Nobody,
    /// No login is configured: whoever reaches the port.
    Anybody,
    /// Who gave the password; the session's key.
    Person(String),
    /// Who has the token.
    Program,
    /// Whom a proxy has let in, by its word.
    Proxied(String),
}

impl Caller {
    /// Whether it may see what needs a login.
    pub(crate) fn is_in(&self) -> bool {
        *self != Self::Nobody
    }
}

impl Login {
    /// Any of these ways.
    pub(crate) fn new(password: Option<Password>, token: Option<Token>, header: Option<HeaderName>) -> Self {
        Self { password, token, header, ..Self::default() }
    }

    /// Whether people can give a password.
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether any way to log in is configured.
    pub(crate) fn is_needed(&self) -> bool {
        self.password.is_some() || self.token.is_some() || self.header.is_some()
    }

    /// Who calls.
    ///
    /// # Errors
    ///
    /// A wrong token, or too many wrong ones.
    pub(crate) fn caller(&self, request: &Request) -> Result<Caller, Failure> {
        if !self.is_needed() {
            return Ok(Caller::Anybody);
        }
        let headers = request.headers();
        if let Some(user) = self.header.as_ref().and_then(|name| headers.get(name)).filter(|user| !user.is_empty()) {
            return Ok(Caller::Proxied(String::from_utf8_lossy(user.as_bytes()).into_owned()));
        }
        if let (Some(token), Some(given)) = (&self.token, bearer(headers)) {
            let peer = peer(request);
            if token.is(given) {
                return Ok(Caller::Program);
            }
            self.back_off.attempt(peer, Instant::now())?;
            return Err(Failure::new(Kind::WrongLogin, "the bearer token is wrong"));
        }
        if self.password.is_some()
            && let Some(key) = session::key_of(headers)
            && self.sessions.know(key, Instant::now())
        {
            return Ok(Caller::Person(key.to_owned()));
        }
        Ok(Caller::Nobody)
    }
}

/// Its routes; the form itself is a page.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route { method: Method::POST, path: "/login", access: Access::Public, call: post(log_in) },
        // Also for a read-only dashboard: it changes nothing but who is logged in.
        Route { method: Method::POST, path: "/logout", access: Access::Read, call: post(log_out) },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    password: String,
}

async fn log_in(
    State(app): State<AppState>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
    Input(given): Input<Given>,
) -> Result<Response, Failure> {
    let login = &app.rules().login;
    let Some(password) = &login.password else {
        return Err(Failure::not_found("no password is configured: there is nothing to log in to"));
    };
    let peer = peer.map(|Extension(ConnectInfo(address))| address.ip());
    login.back_off.attempt(peer, Instant::now())?;
    if !password.is(given.password).await? {
        return Err(Failure::new(Kind::WrongLogin, "the password is wrong"));
    }
    login.back_off.forgive(peer);
    let key = login.sessions.open(Instant::now());
    let cookie = session::cookie(&key, &app.config().mount, session::is_over_tls(&headers));
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_value(cookie)?)]).into_response())
}

async fn log_out(State(app): State<AppState>, Extension(caller): Extension<Caller>) -> Result<Response, Failure> {
    if let Caller::Person(key) = caller {
        app.rules().login.sessions.close(&key);
    }
    let cookie = session::no_cookie(&app.config().mount);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_value(cookie)?)]).into_response())
}

fn cookie_value(cookie: String) -> Result<HeaderValue, Failure> {
    HeaderValue::try_from(cookie).map_err(|_| Failure::new(Kind::Internal, "the mount path is none of a cookie"))
}

/// What follows `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, given) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| given.trim_ascii())
}

/// Where the connection comes from; `None` where the server that it is mounted in does not tell.
fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

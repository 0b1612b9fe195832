//! Authenticates requests: by password and session, by bearer token, or by the header of a proxy.

mod back_off;
mod password;
mod session;
mod token;

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use axum::{
    extract::{ConnectInfo, Request},
    http::{HeaderMap, HeaderName, header},
};

pub use self::password::{MAX_PASSWORD_BYTES, hash_password};
use self::{back_off::BackOff, session::Sessions};
pub(crate) use self::{back_off::network, password::Password, session::Cookie, token::Token};
use crate::failure::{Failure, Kind};

/// The ways for people and programs to log in; without any way every client is let in.
#[derive(Debug)]
pub(crate) struct Login {
    password: Option<Password>,
    token: Option<Token>,
    header: Option<Trusted>,
    /// The cookie of a session.
    pub(crate) cookie: Cookie,
    sessions: Sessions,
    /// The two kinds are throttled separately: guesses of one kind do not lock out the other.
    passwords: BackOff,
    tokens: BackOff,
    /// Throttles the lines about trusted headers alone: a proxy that is not named sends one with each request, and each answer says
    /// what is wrong.
    refused_headers: BackOff,
}

/// A header that authenticates requests.
#[derive(Debug)]
pub(crate) struct Trusted {
    /// The name of the header.
    pub(crate) name: HeaderName,
    /// The addresses that may send it, besides this machine.
    pub(crate) proxies: Vec<IpAddr>,
}

/// The longest wait after wrong passwords.
const FOR_PASSWORDS: Duration = Duration::from_secs(300);
/// The longest wait after wrong tokens. A token cannot be guessed even so, and programs that know it and come from the
/// guesser's address, such as that of a proxy, have to wait as well.
const FOR_TOKENS: Duration = Duration::from_secs(10);
/// The longest time between two lines about the trusted headers of one peer.
const FOR_HEADERS: Duration = Duration::from_secs(300);

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Not authenticated; a login is needed.
    Unauthenticated,
    /// No login is configured: every client that reaches the port.
    Anonymous,
    /// A person with the password; the session's key.
    Person(String),
    /// A program with the token.
    Program,
    /// A user that a trusted proxy has named.
    Proxied(String),
}

impl Caller {
    /// Returns whether the caller may use routes that need a login.
    pub(crate) fn is_in(&self) -> bool {
        *self != Self::Unauthenticated
    }

    /// Returns the caller's name for a log, without key or token.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Unauthenticated => "nobody".into(),
            Self::Anonymous => "anybody".into(),
            Self::Person(_) => "person".into(),
            Self::Program => "program".into(),
            Self::Proxied(user) => format!("user {user}").into(),
        }
    }
}

impl Login {
    /// Accepts any of these ways to log in.
    pub(crate) fn new(
        password: Option<Password>,
        token: Option<Token>,
        header: Option<Trusted>,
        cookie: Cookie,
    ) -> Self {
        Self {
            password,
            token,
            header,
            cookie,
            sessions: Sessions::default(),
            passwords: BackOff::new(FOR_PASSWORDS),
            tokens: BackOff::new(FOR_TOKENS),
            refused_headers: BackOff::new(FOR_HEADERS),
        }
    }

    /// Returns whether people can log in with a password.
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Authenticates the request; if it `renews`, its session counts as used now.
    ///
    /// # Errors
    ///
    /// The token is wrong, too many were wrong, or a trusted header is repeated or comes from an address that is not trusted.
    pub(crate) fn caller(&self, request: &Request, renews: bool) -> Result<Caller, Failure> {
        if self.password.is_none() && self.token.is_none() && self.header.is_none() {
            return Ok(Caller::Anonymous);
        }
        let (headers, peer) = (request.headers(), peer(request));
        if let Some(trusted) = &self.header {
            match trusted.user(headers, peer) {
                Ok(Some(user)) => return Ok(Caller::Proxied(user)),
                Ok(None) => {}
                Err(why) if self.refused_headers.attempt(peer, Instant::now()).is_ok() => return Err(wrong(peer, why)),
                Err(why) => return Err(Failure::new(Kind::WrongLogin, why)),
            }
        }
        if let (Some(token), Some(given)) = (&self.token, bearer(headers)) {
            if self.tokens.check(peer, Instant::now(), || token.is(given))? {
                return Ok(Caller::Program);
            }
            return Err(wrong(peer, "the bearer token is wrong"));
        }
        if self.password.is_some()
            && let Some(key) = self.cookie.key_of(headers)
            && self.sessions.know(key, Instant::now(), renews)
        {
            return Ok(Caller::Person(key.to_owned()));
        }
        Ok(Caller::Unauthenticated)
    }

    /// Opens a session for a person with the password, and returns its key.
    ///
    /// # Errors
    ///
    /// No password is configured, the password is wrong, too many were wrong, or all permits are taken.
    pub(crate) async fn log_in(&self, peer: Option<IpAddr>, password: String) -> Result<String, Failure> {
        let Some(expected) = &self.password else {
            return Err(Failure::not_found("no password is configured: there is nothing to log in to"));
        };
        // Take a permit first; a request without one must not count as an attempt.
        let permit = expected.permit()?;
        self.passwords.attempt(peer, Instant::now())?;
        if !expected.is(password, permit).await? {
            return Err(wrong(peer, "the password is wrong"));
        }
        self.passwords.forgive(peer);
        Ok(self.sessions.open(Instant::now()))
    }

    /// Ends the caller's session, if there is one.
    pub(crate) fn log_out(&self, caller: &Caller) {
        if let Caller::Person(key) = caller {
            self.sessions.close(key);
        }
    }

    /// Waits until the caller is no longer logged in; for ever if the caller has no session, because each request authenticates
    /// anew.
    pub(crate) async fn ended(&self, caller: &Caller) {
        match caller {
            Caller::Person(key) => self.sessions.ended(key).await,
            _ => std::future::pending().await,
        }
    }
}

impl Trusted {
    /// Returns the user that the header names, if the header is there, or why it is not believed.
    fn user(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Option<String>, &'static str> {
        let mut users = headers.get_all(&self.name).iter();
        let Some(user) = users.next() else { return Ok(None) };
        if users.next().is_some() {
            return Err("the trusted header is there more than once");
        }
        if user.is_empty() {
            return Ok(None);
        }
        let is_trusted = |peer: IpAddr| {
            let peer = peer.to_canonical();
            peer.is_loopback() || self.proxies.iter().any(|proxy| proxy.to_canonical() == peer)
        };
        match peer {
            Some(peer) if is_trusted(peer) => Ok(Some(String::from_utf8_lossy(user.as_bytes()).into_owned())),
            Some(_) => Err(
                "the trusted header came from an address that is not a trusted proxy: name it with `.trust_proxy(..)` or \
                 ASYNQ_DASHBOARD_TRUSTED_PROXIES",
            ),
            None => Err("the address that the trusted header came from is not known: serve the application with \
                 `into_make_service_with_connect_info::<SocketAddr>()`"),
        }
    }
}

/// Returns the answer to a wrong login, and logs it.
fn wrong(peer: Option<IpAddr>, why: &'static str) -> Failure {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
    log!(warn, peer, why, "a wrong login to the dashboard");
    Failure::new(Kind::WrongLogin, why)
}

/// Returns the token that follows `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, given) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| given.trim_ascii())
}

/// Returns the address of the peer; `None` if the server of the application does not provide it.
pub(crate) fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_trusted_header_is_believed_once_and_from_a_proxy() {
        let trusted = Trusted { name: HeaderName::from_static("x-user"), proxies: vec![IpAddr::from([10, 0, 0, 1])] };
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        for (peer, users, expected) in [
            (ip("127.0.0.1"), &["ann"][..], Ok(Some("ann"))),
            (ip("::1"), &["ann"], Ok(Some("ann"))),
            (ip("10.0.0.1"), &["ann"], Ok(Some("ann"))),
            (ip("::ffff:10.0.0.1"), &["ann"], Ok(Some("ann"))),
            (ip("10.0.0.2"), &["ann"], Err(())),
            (None, &["ann"], Err(())),
            (ip("127.0.0.1"), &["ann", "bob"], Err(())),
            (ip("127.0.0.1"), &["", "bob"], Err(())),
            (ip("127.0.0.1"), &[""], Ok(None)),
            (ip("10.0.0.2"), &[], Ok(None)),
        ] {
            let mut headers = HeaderMap::new();
            for user in users {
                headers.append("x-user", HeaderValue::from_static(user));
            }
            let found = trusted.user(&headers, peer).map_err(drop);
            assert_eq!(found.as_ref().map(Option::as_deref), expected.as_ref().copied(), "{peer:?} {users:?}");
        }
    }

    #[test]
    fn a_peer_whose_header_is_refused_again_and_again_is_in_the_log_a_few_times() {
        let log = asynq_test_support::Log::keep();
        let trusted = Trusted { name: HeaderName::from_static("x-user"), proxies: Vec::new() };
        let login = Login::new(None, None, Some(trusted), Cookie::new(None, ""));
        for _ in 0..20 {
            let mut request = Request::new(axum::body::Body::empty());
            request.headers_mut().insert("x-user", HeaderValue::from_static("ann"));
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 2], 4000))));
            assert_eq!(login.caller(&request, true).map_err(|failure| failure.kind), Err(Kind::WrongLogin));
        }
        let lines = log.with("a wrong login to the dashboard");
        assert!((5..10).contains(&lines.len()) && lines[0].contains("is not a trusted proxy"), "{lines:?}");
    }
}

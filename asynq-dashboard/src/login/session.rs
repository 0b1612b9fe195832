//! Sessions of people, in this process: a restart ends them.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// How long a session lasts without a request.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Most sessions; one more ends the one that was idle for longest.
const MOST: usize = 1000;
/// The cookie.
const COOKIE: &str = "asynq_session";

/// The sessions that are open.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

#[derive(Debug)]
struct Session {
    key: String,
    used: Instant,
}

impl Sessions {
    /// Opens one; returns its key of 244 random bits.
    pub(super) fn open(&self, now: Instant) -> String {
        let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| now.saturating_duration_since(session.used) < IDLE);
        if sessions.len() >= MOST {
            let idle = sessions.iter().enumerate().min_by_key(|(_, session)| session.used).map(|(at, _)| at);
            idle.map(|at| sessions.swap_remove(at));
        }
        sessions.push(Session { key: key.clone(), used: now });
        key
    }

    /// Whether it is open; it stays open from now on.
    pub(super) fn know(&self, key: &str, now: Instant) -> bool {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = false;
        for session in sessions.iter_mut() {
            let is_it: bool = session.key.as_bytes().ct_eq(key.as_bytes()).into();
            if is_it && now.saturating_duration_since(session.used) < IDLE {
                session.used = now;
                known = true;
            }
        }
        known
    }

    /// Ends it.
    pub(super) fn close(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|session| session.key != key);
    }
}

/// The key that the request's cookie holds.
pub(super) fn key_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    cookies.flat_map(|cookies| cookies.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Whether the browser says that it came over TLS, itself or by its proxy.
pub(super) fn is_over_tls(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text("origin").starts_with("https://") || text("x-forwarded-proto").eq_ignore_ascii_case("https")
}

/// The cookie that keeps a session.
pub(super) fn cookie(key: &str, mount: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE}={key}; Path={}; HttpOnly; SameSite=Strict{secure}", path(mount))
}

/// The cookie that ends one.
pub(super) fn no_cookie(mount: &str) -> String {
    format!("{COOKIE}=; Path={}; HttpOnly; SameSite=Strict; Max-Age=0", path(mount))
}

fn path(mount: &str) -> &str {
    if mount.is_empty() { "/" } else { mount }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_session_lasts_until_it_is_closed_or_idle() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (ann, bob) = (sessions.open(now), sessions.open(now));
        assert!(ann != bob && ann.len() == 64);
        assert!(sessions.know(&ann, now + IDLE / 2));
        assert!(sessions.know(&ann, now + IDLE), "a request keeps it open");
        assert!(!sessions.know(&bob, now + IDLE));
        sessions.close(&ann);
        assert!(!sessions.know(&ann, now) && !sessions.know("", now));
    }

    #[test]
    fn there_are_never_more_than_a_thousand() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.open(now);
        for n in 1..=MOST as u64 {
            sessions.open(now + Duration::from_millis(n));
        }
        assert!(!sessions.know(&first, now));
        assert_eq!(sessions.0.lock().expect("a lock").len(), MOST);
    }

    #[test]
    fn the_cookie_is_strict_and_secure_behind_tls() {
        assert_eq!(cookie("k", "", false), "asynq_session=k; Path=/; HttpOnly; SameSite=Strict");
        assert_eq!(cookie("k", "/jobs", true), "asynq_session=k; Path=/jobs; HttpOnly; SameSite=Strict; Secure");
        for (name, value, expected) in [
            ("origin", "https://x", true),
            ("origin", "http://x", false),
            ("x-forwarded-proto", "https", true),
            ("x-other", "https", false),
        ] {
            let headers =
                HeaderMap::from_iter([(axum::http::HeaderName::from_static(name), HeaderValue::from_static(value))]);
            assert_eq!(is_over_tls(&headers), expected, "{name}");
        }
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("a=b; asynq_session=k2; c"))]);
        assert_eq!(key_of(&headers), Some("k2"));
    }
}

//! Sessions of people, in this process: a restart ends them.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header, uri::Authority};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use uuid::Uuid;

/// How long a session lasts without a request.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// How long a session lasts at most.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most sessions; a further one ends the session that was idle for longest.
const MOST: usize = 1000;

/// The sessions that are open.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<Vec<Session>>,
    /// Notifies waiters that a session has ended.
    ends: watch::Sender<()>,
}

#[derive(Debug)]
struct Session {
    key: String,
    opened: Instant,
    used: Instant,
}

impl Session {
    /// Returns how long the session lasts if it is not used; zero when it is over.
    fn left(&self, now: Instant) -> Duration {
        let end = (self.used + IDLE).min(self.opened + LONGEST);
        end.saturating_duration_since(now)
    }
}

impl Sessions {
    /// Opens a session, and returns its key of 244 random bits.
    pub(super) fn open(&self, now: Instant) -> String {
        let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut sessions = self.open.lock();
        sessions.retain(|session| !session.left(now).is_zero());
        if sessions.len() >= MOST {
            let idle = sessions.iter().enumerate().min_by_key(|(_, session)| session.used).map(|(at, _)| at);
            idle.map(|at| sessions.swap_remove(at));
            self.ends.send_replace(());
        }
        sessions.push(Session { key: key.clone(), opened: now, used: now });
        key
    }

    /// Returns whether a session is open; if the request `renews`, the session counts as used now.
    pub(super) fn know(&self, key: &str, now: Instant, renews: bool) -> bool {
        let mut sessions = self.open.lock();
        let mut known = false;
        for session in sessions.iter_mut() {
            let is_it: bool = session.key.as_bytes().ct_eq(key.as_bytes()).into();
            if is_it && !session.left(now).is_zero() {
                if renews {
                    session.used = now;
                }
                known = true;
            }
        }
        known
    }

    /// Ends a session.
    pub(super) fn close(&self, key: &str) {
        self.open.lock().retain(|session| session.key != key);
        self.ends.send_replace(());
    }

    /// Waits until a session is over: closed, unused for too long, or too old.
    pub(super) async fn ended(&self, key: &str) {
        let mut ends = self.ends.subscribe();
        loop {
            let left = {
                let sessions = self.open.lock();
                sessions.iter().find(|session| session.key == key).map(|session| session.left(Instant::now()))
            };
            match left {
                None | Some(Duration::ZERO) => return,
                // The session may have been used meanwhile, or another session ended.
                Some(left) => drop(tokio::time::timeout(left, ends.changed()).await),
            }
        }
    }
}

/// Returns whether the headers say that the request came over TLS: to this server, or to its proxy.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text("origin").starts_with("https://") || text("x-forwarded-proto").eq_ignore_ascii_case("https")
}

/// The cookie of a session.
#[derive(Debug)]
pub(crate) struct Cookie {
    port: Option<u16>,
    mount: String,
}

impl Cookie {
    /// Creates the cookie of a dashboard at this mount path, and at this port if the dashboard has a port to itself.
    pub(crate) fn new(port: Option<u16>, mount: &str) -> Self {
        Self { port, mount: mount.to_owned() }
    }

    /// Returns the name. Browsers send the cookies of a host to all of its ports, so it has the port that the browser asks, or where a
    /// proxy hides that, the port of the dashboard.
    fn name(&self, headers: &HeaderMap) -> String {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let port = host.and_then(|host| host.parse::<Authority>().ok()?.port_u16()).or(self.port);
        let port = port.map(|port| format!("_{port}")).unwrap_or_default();
        // A name has no slash.
        format!("asynq_session{port}{}", self.mount.replace('/', "."))
    }

    fn path(&self) -> &str {
        if self.mount.is_empty() { "/" } else { &self.mount }
    }

    /// Returns the key in the request's cookie.
    pub(super) fn key_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let own = self.name(headers);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        cookies.flat_map(|cookies| cookies.split(';')).find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == own).then_some(value)
        })
    }

    /// Returns the header that keeps a session, for a request with these headers.
    pub(crate) fn keep(&self, key: &str, headers: &HeaderMap) -> String {
        let secure = if is_over_tls(headers) { "; Secure" } else { "" };
        format!("{}={key}; Path={}; HttpOnly; SameSite=Strict{secure}", self.name(headers), self.path())
    }

    /// Returns the header that ends a session, for a request with these headers.
    pub(crate) fn end(&self, headers: &HeaderMap) -> String {
        format!("{}=; Path={}; HttpOnly; SameSite=Strict; Max-Age=0", self.name(headers), self.path())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_session_lasts_until_it_is_closed_or_idle() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (ann, bob) = (sessions.open(now), sessions.open(now));
        assert!(ann != bob && ann.len() == 64);
        assert!(sessions.know(&ann, now + IDLE / 2, true));
        assert!(sessions.know(&ann, now + IDLE, true), "a request keeps it open");
        assert!(!sessions.know(&bob, now + IDLE, true));
        sessions.close(&ann);
        assert!(!sessions.know(&ann, now, true) && !sessions.know("", now, true));
    }

    #[test]
    fn a_tab_that_only_listens_keeps_no_session_and_nothing_keeps_it_for_more_than_a_week() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (ann, bob) = (sessions.open(now), sessions.open(now));
        assert!(sessions.know(&ann, now + IDLE / 2, false));
        assert!(!sessions.know(&ann, now + IDLE, false), "to listen is not to use");
        let (mut at, step) = (now, IDLE / 2);
        while at + step < now + LONGEST {
            at += step;
            assert!(sessions.know(&bob, at, true));
        }
        assert!(!sessions.know(&bob, now + LONGEST, true));
    }

    #[tokio::test]
    async fn a_waiter_for_the_end_of_a_session_is_notified_of_its_logout_and_of_no_other() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (ann, bob) = (sessions.open(now), sessions.open(now));
        let mut ended = std::pin::pin!(sessions.ended(&ann));
        assert!(ended.as_mut().now_or_never().is_none());
        sessions.close(&bob);
        assert!(ended.as_mut().now_or_never().is_none());
        sessions.close(&ann);
        ended.await;
        sessions.ended("nobody's").await;
    }

    #[test]
    fn there_are_never_more_than_a_thousand() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.open(now);
        for n in 1..=MOST as u64 {
            sessions.open(now + Duration::from_millis(n));
        }
        assert!(!sessions.know(&first, now, true));
        assert_eq!(sessions.open.lock().len(), MOST);
    }

    #[test]
    fn the_cookie_is_strict_and_secure_behind_tls() {
        let cookie = Cookie::new(None, "");
        assert_eq!(cookie.keep("k", &HeaderMap::new()), "asynq_session=k; Path=/; HttpOnly; SameSite=Strict");
        let asked = HeaderMap::from_iter([
            (header::HOST, HeaderValue::from_static("[::1]:8080")),
            (header::ORIGIN, HeaderValue::from_static("https://[::1]:8080")),
        ]);
        let mounted = Cookie::new(Some(80), "/our/jobs").keep("k", &asked);
        let expected = "asynq_session_8080.our.jobs=k; Path=/our/jobs; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(mounted, expected);
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
        assert_eq!(cookie.key_of(&headers), Some("k2"));
    }
}

//! Servers that take a second to start, lent to one test after another, each time empty.

use std::{
    ops::Deref,
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::Servers;

/// Servers that one test has for itself until it drops them.
///
/// Each test logs in as a user of its own, which is deleted afterwards, so that tasks that outlive their test are locked
/// out. The servers of a test that panics end with it.
#[derive(Debug)]
pub struct Lent<S: Servers> {
    servers: Option<S>,
    user: String,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The most servers that wait in a pool. Test threads take from the pool as often as they give back, so a few suffice, and a
/// suite that has gone on to another topology keeps no more idle processes, whose timers take time from its tests.
const MOST_IDLE: usize = 4;

impl<S: Servers> Lent<S> {
    /// Takes servers from the pool, or starts new ones.
    pub fn take() -> Self {
        let idle = S::pool().lock().unwrap_or_else(PoisonError::into_inner).pop();
        let servers = idle.unwrap_or_else(Self::start_calm);
        let user = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        for mut connection in servers.all() {
            let command = |words: &[&str]| ::redis::cmd(words[0]).arg(&words[1..]).to_owned();
            command(&["ACL", "SETUSER", &user, "on", ">once", "~*", "&*", "+@all"]).exec(&mut connection).unwrap();
            let emptied = command(&["FLUSHALL"]).exec(&mut connection);
            // A replica is emptied with its primary, and refuses the command itself.
            let is_replica = emptied.as_ref().is_err_and(|error| error.code() == Some("READONLY"));
            assert!(emptied.is_ok() || is_replica, "FLUSHALL: {emptied:?}");
        }
        Self { servers: Some(servers), user }
    }

    /// Starts servers whose own timers run once a second instead of ten times: the timers of an idle one take two milliseconds of a
    /// processor each second.
    fn start_calm() -> S {
        let servers = S::start();
        for mut connection in servers.all() {
            ::redis::cmd("CONFIG").arg("SET").arg("hz").arg("1").exec(&mut connection).unwrap();
        }
        servers
    }

    /// The login of this test's user, for a URL.
    pub fn login(&self) -> String {
        format!("{}:once", self.user)
    }
}

impl<S: Servers> Deref for Lent<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.servers.as_ref().expect("they are given back only when dropped")
    }
}

impl<S: Servers> Drop for Lent<S> {
    fn drop(&mut self) {
        let Some(servers) = self.servers.take() else { return };
        // The servers may be the failure: a second panic would abort the test program, and without the text of the first one.
        if thread::panicking() {
            return;
        }
        for mut connection in servers.all() {
            // Deleting the user also closes its connections.
            let _ = ::redis::cmd("ACL").arg("DELUSER").arg(&self.user).exec(&mut connection);
        }
        // This guard is dropped before servers that find no place, so no other test waits for their end.
        let mut idle = S::pool().lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(servers);
        }
    }
}

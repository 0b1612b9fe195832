//! Watches where the name in the URL of a single server leads. After a failover, new connections reach another server, while those
//! to the server before live on and read old data there.

use std::{future::pending, time::Duration};

use redis::Pipeline;
use tokio::{sync::watch, time::sleep};

use super::{
    identity::{Identity, info_field},
    reply,
    socket::OpenConnection,
};

/// Shortest and longest time until the next question whether the server has become a replica, which Redis tells by itself only to a
/// program that writes.
const EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// The knowledge of the connections of one role; all connections of the broker share the channel.
#[derive(Clone)]
pub(super) struct NameWatch {
    /// The run id of the last process to which a new connection led in place of another process.
    moved_to: watch::Sender<Option<String>>,
    known: watch::Receiver<Option<String>>,
    /// How often the server is asked; never on further connections, which follow the first one.
    every: Option<Duration>,
    /// Whether the name has led this role to a master: a program may read a replica on purpose.
    was_master: bool,
    /// Whether the connection leads to a master, as far as the greeting tells.
    is_master: bool,
}

impl NameWatch {
    pub(super) fn new() -> Self {
        let (moved_to, known) = watch::channel(None);
        Self { moved_to, known, every: Some(EVERY.0), was_master: false, is_master: false }
    }

    /// Makes this the watch of further connections, which ask nothing.
    pub(super) fn follow(&mut self) {
        self.every = None;
    }

    /// Begins a connection: moves until now count as known.
    pub(super) fn begin(&mut self) {
        self.known.mark_unchanged();
    }

    /// Notes that the connection which replaced one to `before` leads to `process`. A failover ends at a master: a name that leads to one
    /// of several replicas moves nothing.
    pub(super) fn led_to(&self, before: &Identity, process: &Identity) {
        if before.run_id == process.run_id || !self.is_master {
            return;
        }
        self.moved_to.send_if_modified(|moved_to| {
            let is_new = moved_to.as_ref() != Some(&process.run_id);
            *moved_to = Some(process.run_id.clone());
            is_new
        });
    }

    /// Takes the answer to [`ask_role`] in the greeting.
    pub(super) fn greeted(&mut self, info: &str) {
        self.is_master = !is_replica(info);
        self.was_master |= self.is_master;
        // A name that leads to the same replica again is asked less and less often: it may do so on purpose.
        if let Some(every) = &mut self.every {
            *every = if self.is_master || !self.was_master { EVERY.0 } else { (*every * 2).min(EVERY.1) };
        }
    }

    /// Waits until another connection has moved to a process other than `own`, or the server says that it is a replica where the name
    /// has led to a master. A connection that the name leads to the old server again is not ended for the same move, and not at once.
    pub(super) async fn replaced(&mut self, connection: &OpenConnection, own: Option<&Identity>) {
        tokio::select! {
            () = moved_elsewhere(&mut self.known, own) => {}
            () = demoted(self.every, &mut self.was_master, connection) => {}
        }
    }
}

/// Adds the question for the role of the server.
pub(super) fn ask_role(pipeline: &mut Pipeline) {
    pipeline.cmd("INFO").arg("replication");
}

/// Waits until a connection moves to a process other than `own`; for ever if Redis hides which process this is.
async fn moved_elsewhere(moved_to: &mut watch::Receiver<Option<String>>, own: Option<&Identity>) {
    let Some(own) = own else { return pending().await };
    while moved_to.changed().await.is_ok() {
        if moved_to.borrow_and_update().as_ref().is_some_and(|moved_to| *moved_to != own.run_id) {
            return;
        }
    }
    pending::<()>().await;
}

/// Asks the server for its role until it is a replica, if it was a master; for ever if this connection does not ask.
async fn demoted(every: Option<Duration>, was_master: &mut bool, connection: &OpenConnection) {
    let Some(every) = every else { return pending().await };
    let mut question = Pipeline::new();
    ask_role(&mut question);
    loop {
        sleep(every).await;
        // Whether the connection is lost is noticed by its calls and its driver.
        let Ok(answers) = connection.exchange(&question).await else { continue };
        let is_replica = is_replica(&answers.into_iter().next().and_then(reply::text).unwrap_or_default());
        if is_replica && *was_master {
            return;
        }
        *was_master |= !is_replica;
    }
}

/// Returns whether the server says that it is a replica. One that hides its role, or is busy, does not.
fn is_replica(info: &str) -> bool {
    info_field(info, "role") == Some("slave")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn process(run_id: &str) -> Identity {
        Identity { run_id: run_id.to_owned(), client: 1 }
    }

    #[test]
    fn a_connection_is_left_once_where_another_one_has_moved() {
        let mut mover = NameWatch::new();
        let mut stayed = mover.clone();
        let [old, new] = ["old", "new"].map(process);
        stayed.begin();
        mover.greeted("role:slave\r\n");
        mover.led_to(&old, &new);
        assert!(!stayed.known.has_changed().unwrap(), "a name may lead to one of several replicas");
        mover.greeted("role:master\r\n");
        let mut is_left = |own: Option<&Identity>| moved_elsewhere(&mut stayed.known, own).now_or_never().is_some();
        mover.led_to(&old, &old);
        assert!(!is_left(Some(&old)), "another connection to the same process");
        mover.led_to(&old, &new);
        assert!(!is_left(None), "Redis does not say which process this is");
        assert!(is_left(Some(&old)));
        mover.led_to(&old, &new);
        assert!(!is_left(Some(&old)), "the name led this connection to the old process again");
        mover.led_to(&new, &old);
        mover.led_to(&old, &new);
        assert!(!is_left(Some(&new)), "this connection has moved before");
    }

    #[test]
    fn a_name_that_goes_on_leading_to_a_demoted_master_is_asked_less_and_less_often() {
        let (mut first, mut further) = (NameWatch::new(), NameWatch::new());
        further.follow();
        let [master, replica, hidden] = ["role:master\r\n", "role:slave\r\n", ""];
        for (greeting, expected) in [(replica, 10), (master, 10), (replica, 20), (replica, 40), (hidden, 10)] {
            first.greeted(greeting);
            further.greeted(greeting);
            let asked = [&first, &further].map(|name| name.every.map(|every| every.as_secs()));
            assert_eq!(asked, [Some(expected), None], "{greeting}");
        }
        (0..9).for_each(|_| first.greeted(replica));
        assert_eq!(first.every, Some(EVERY.1));
    }
}

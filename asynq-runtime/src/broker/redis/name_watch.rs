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

/// Interval of the questions whether the server has become a replica, which Redis tells by itself only to a program that writes.
const EVERY: Duration = Duration::from_secs(10);

/// The knowledge of the connections of one role; all connections of the broker share the channel.
#[derive(Clone)]
pub(super) struct NameWatch {
    /// The run id of the last process to which a new connection led in place of another process.
    moved_to: watch::Sender<Option<String>>,
    known: watch::Receiver<Option<String>>,
    /// Whether the name has led this role to a master: a program may read a replica on purpose.
    was_master: bool,
}

impl NameWatch {
    pub(super) fn new() -> Self {
        let (moved_to, known) = watch::channel(None);
        Self { moved_to, known, was_master: false }
    }

    /// Begins a connection: moves until now count as known.
    pub(super) fn begin(&mut self) {
        self.known.mark_unchanged();
    }

    /// Notes that the connection which replaced one to `before` leads to `process`.
    pub(super) fn led_to(&self, before: &Identity, process: &Identity) {
        if before.run_id == process.run_id {
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
        is_demoted(&mut self.was_master, info);
    }

    /// Waits until another connection has moved to a process other than `own`, or the server says that it is a replica where the name
    /// has led to a master. A connection that the name leads to the old server again is not ended for the same move, and not at once.
    pub(super) async fn replaced(&mut self, connection: &OpenConnection, own: Option<&Identity>) {
        tokio::select! {
            () = moved_elsewhere(&mut self.known, own) => {}
            () = demoted(&mut self.was_master, connection) => {}
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

/// Asks the server for its role until it [`is_demoted`]; for ever if it hides its role.
async fn demoted(was_master: &mut bool, connection: &OpenConnection) {
    let mut question = Pipeline::new();
    ask_role(&mut question);
    loop {
        sleep(EVERY).await;
        // A call on the connection notices that it is lost.
        let Ok(answers) = connection.exchange(&question).await else { continue };
        let info = answers.into_iter().next().and_then(reply::text).unwrap_or_default();
        match is_demoted(was_master, &info) {
            Some(true) => return,
            Some(false) => {}
            None => return pending().await,
        }
    }
}

/// Returns whether the server is a replica where the name has led to a master; `None` if it hides its role.
fn is_demoted(was_master: &mut bool, info: &str) -> Option<bool> {
    let role = info_field(info, "role")?;
    *was_master |= role == "master";
    Some(*was_master && role == "slave")
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
        let mover = NameWatch::new();
        let mut stayed = mover.clone();
        let [old, new] = ["old", "new"].map(process);
        stayed.begin();
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
    fn a_replica_is_left_only_where_the_name_has_led_to_a_master() {
        let mut was_master = false;
        let answers = ["role:slave\r\n", "", "role:master\r\n", "role:slave\r\n", "role:slave\r\n"];
        let are_left = answers.map(|info| is_demoted(&mut was_master, info));
        assert_eq!(are_left, [Some(false), None, Some(false), Some(true), Some(true)]);
    }
}

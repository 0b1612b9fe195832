//! Identifies a connection, and the Redis process at its other end.

use redis::{Cmd, Value};

use super::reply;

/// A connection, and the Redis process at its other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) run_id: String,
    pub(super) client: i64,
}

impl Identity {
    /// Reads the answers to `CLIENT ID` and `INFO server`; `None` where a proxy or the ACL hides them.
    pub(super) fn read(client: &Value, info: &str) -> Option<Self> {
        Some(Self { client: reply::number(client)?, run_id: info_field(info, "run_id")?.to_owned() })
    }

    /// Returns the command that ends this connection. Calls on it that Redis has not read by then are never run.
    pub(super) fn kill(&self) -> Cmd {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(self.client);
        kill
    }
}

/// Returns a field of the answer to `INFO`.
pub(super) fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

//! Which connection of which Redis process answers.

use redis::{Cmd, Value};

use super::reply;

/// Which connection of which Redis process this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) run_id: String,
    pub(super) client: i64,
}

impl Identity {
    /// From the answers to `CLIENT ID` and `INFO server`; none where something in between keeps them from us.
    pub(super) fn read(client: &Value, info: &str) -> Option<Self> {
        Some(Self { client: reply::number(client)?, run_id: info_field(info, "run_id")?.to_owned() })
    }

    /// Has Redis end this connection: what was sent on it and not read yet is never run.
    pub(super) fn kill(&self) -> Cmd {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(self.client);
        kill
    }
}

/// A line of the answer to `INFO`.
pub(super) fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

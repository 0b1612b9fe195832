//! The name of a server, and the facts that it shows to other programs when it joins.

use chrono::{DateTime, Utc};

use super::{aggregate::Aggregations, config::Config, queues::to_wire};
use crate::{broker::ServerName, task::ServerInfo};

/// Returns the facts that the server shows when it joins.
pub(crate) fn introduction(
    name: &ServerName,
    config: &Config,
    aggregations: &Aggregations,
    started: DateTime<Utc>,
) -> ServerInfo {
    ServerInfo {
        host: name.host.clone(),
        pid: i32::try_from(name.pid).unwrap_or(0),
        server_id: name.server_id.clone(),
        concurrency: i32::try_from(config.concurrency).unwrap_or(i32::MAX),
        queues: to_wire(&config.queues),
        strict_priority: config.strict,
        status: "active".to_owned(),
        start_time: Some(started.into()),
        active_worker_count: 0,
        rust_version: env!("CARGO_PKG_VERSION").to_owned(),
        // The broker sets it.
        clock_ahead_ms: None,
        archives: config.archives.to_wire(),
        aggregated_types: aggregations.types(),
        aggregated_groups: aggregations.patterns(),
    }
}

/// Returns the name of a new server: this host, this process, a fresh UUID.
pub(crate) fn new_name() -> ServerName {
    ServerName { host: host_name(), pid: std::process::id(), server_id: uuid::Uuid::new_v4().to_string() }
}

/// Returns the host name of this machine. A dash replaces each colon, because colons separate the parts of a server's name.
fn host_name() -> String {
    let name = gethostname::gethostname().to_string_lossy().trim().replace(':', "-");
    if name.is_empty() { "unknown-host".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_host_process_and_a_uuid_of_its_own() {
        let (a, b) = (new_name(), new_name());
        assert_eq!((a.host.as_str(), a.pid), (b.host.as_str(), std::process::id()));
        assert_ne!(a.server_id, b.server_id);
        assert!(!a.host.is_empty() && !a.host.contains(char::is_whitespace), "{a}");
        assert_eq!(uuid::Uuid::parse_str(&a.server_id).map(|id| id.get_version_num()), Ok(4));
    }
}

//! The clocks of the hosts on which Go servers run, as their beats tell them.

use std::time::Duration;

use asynq_runtime::{Inspector, broker::ServerState};
use chrono::TimeDelta;

/// Clocks that differ by less count as equal; workers of Go use their own clock for decisions.
pub(super) const MOST_SKEW: TimeDelta = TimeDelta::seconds(1);
/// The uncertainty of the clock of a Go server.
pub(super) const GOS_PRECISION: TimeDelta = TimeDelta::milliseconds(500);
/// The seconds within which a Go server sends another beat; it sends one every 5 s.
const NEXT_BEAT: usize = 6;

/// Looks at the servers again while the clock of a Go server seems to be behind, until it has sent another beat. A beat that waited
/// for Redis makes a right clock look so, and no beat makes one look ahead: the greatest value of a server is nearest to the truth.
pub(super) async fn after_late_beats(inspector: &Inspector, mut servers: Vec<ServerState>) -> Vec<ServerState> {
    for _ in 0..NEXT_BEAT {
        if !servers.iter().any(seems_behind) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The servers of before tell more than an error here, and the checks that follow report a broker that is away.
        let Ok(mut again) = inspector.servers().await else { break };
        for server in again.iter_mut().filter(|server| server.info.is_gos()) {
            let before = servers.iter().find(|before| before.info.server_id == server.info.server_id);
            server.clock_ahead = server.clock_ahead.max(before.and_then(|before| before.clock_ahead));
        }
        servers = again;
    }
    servers
}

fn seems_behind(server: &ServerState) -> bool {
    let least = -(MOST_SKEW + GOS_PRECISION);
    server.info.is_gos() && server.clock_ahead.is_some_and(|ahead| ahead < least)
}

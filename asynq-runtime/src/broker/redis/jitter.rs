//! Spreads the reactions of many servers to one notification over some milliseconds.

use std::time::Duration;

/// Number of servers, all of which receive the same notification, for each millisecond of the longest delay.
const SERVERS_PER_MS: usize = 8;
/// Longest delay, in milliseconds, of any number of servers.
const LATEST: u64 = 10;

/// Returns a random delay for one of so many servers, in whole milliseconds, the resolution of timers.
pub(super) fn jitter(servers: usize) -> Duration {
    Duration::from_millis(fastrand::u64(..=longest(servers)))
}

/// Returns the longest delay, in milliseconds: it grows with the number of servers, and is zero for fewer than 8.
fn longest(servers: usize) -> u64 {
    u64::try_from(servers / SERVERS_PER_MS).unwrap_or(LATEST).min(LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_delay_grows_with_the_number_of_servers_up_to_a_limit() {
        let cases = [(0, 0), (1, 0), (7, 0), (8, 1), (15, 1), (16, 2), (79, 9), (80, 10), (88, 10), (usize::MAX, 10)];
        for (servers, expected) in cases {
            assert_eq!(longest(servers), expected, "{servers} servers");
            assert!(jitter(servers) <= Duration::from_millis(expected), "{servers} servers");
        }
    }
}

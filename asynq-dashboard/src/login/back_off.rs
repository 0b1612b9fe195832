//! Throttles wrong logins: after 5, each further one doubles the wait, up to a limit.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::failure::{Failure, Kind};

/// A peer with this many wrong logins has to wait.
const FREE: u32 = 5;
/// After this time without an attempt all wrong logins of an address are forgiven.
const MEMORY: Duration = Duration::from_secs(900);
/// Most addresses that are remembered; a further one replaces the one with the fewest wrong attempts.
const MOST: usize = 1024;

/// The wrong attempts by address; for IPv6 by the network of 64 bits, which one person has as a whole.
#[derive(Debug)]
pub(super) struct BackOff {
    longest: Duration,
    tries: Mutex<HashMap<Option<IpAddr>, Tries>>,
}

#[derive(Debug, Clone, Copy)]
struct Tries {
    wrong: u32,
    last: Instant,
    until: Instant,
}

impl BackOff {
    /// Creates a back-off whose longest wait is `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, tries: Mutex::default() }
    }

    /// Counts an attempt as wrong before its result is known, so that each of many concurrent attempts counts.
    ///
    /// # Errors
    ///
    /// The peer has to wait; the caller must not check the attempt.
    pub(super) fn attempt(&self, peer: Option<IpAddr>, now: Instant) -> Result<(), Failure> {
        self.check(peer, now, || false).map(drop)
    }

    /// Returns whether `is_right`, which is not called while the peer has to wait. A wrong attempt counts; a right one
    /// forgives nothing, as programs authenticate often and would give a guesser at the same address ever new attempts.
    ///
    /// # Errors
    ///
    /// The peer has to wait.
    pub(super) fn check(
        &self,
        peer: Option<IpAddr>,
        now: Instant,
        is_right: impl FnOnce() -> bool,
    ) -> Result<bool, Failure> {
        let peer = peer.map(network);
        let mut tries = self.tries.lock();
        if let Some(until) = tries.get(&peer).map(|tries| tries.until).filter(|until| *until > now) {
            let seconds = (until - now).as_secs_f64().ceil() as u32;
            let message = format!("too many wrong logins; try again in {seconds} s");
            return Err(Failure::new(Kind::BackOff(seconds), message));
        }
        if is_right() {
            return Ok(true);
        }
        tries.retain(|_, tries| now.saturating_duration_since(tries.last) < MEMORY);
        if tries.len() >= MOST && !tries.contains_key(&peer) {
            // Evicts the peer with the fewest failures, so that an attacker who rotates networks cannot evict a
            // throttled one.
            let least = tries.iter().min_by_key(|(_, tries)| (tries.wrong, tries.last)).map(|(peer, _)| *peer);
            least.map(|least| tries.remove(&least));
        }
        let tries = tries.entry(peer).or_insert(Tries { wrong: 0, last: now, until: now });
        tries.wrong = tries.wrong.saturating_add(1);
        (tries.last, tries.until) = (now, now + wait(tries.wrong).min(self.longest));
        Ok(false)
    }

    /// Forgets the wrong attempts of a peer that then knew the password.
    pub(super) fn forgive(&self, peer: Option<IpAddr>) {
        self.tries.lock().remove(&peer.map(network));
    }
}

/// Returns the wait after this many wrong logins, without the bound.
fn wait(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1 << doublings.min(20)),
    }
}

/// Returns the address, or for IPv6 the network of 64 bits, which one person has as a whole.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(300);

    #[test]
    fn the_sixth_wrong_login_waits_and_each_further_one_twice_as_long() {
        let (back_off, start, ann) = (BackOff::new(LONGEST), Instant::now(), Some(IpAddr::from([10, 0, 0, 1])));
        for _ in 0..5 {
            back_off.attempt(ann, start).expect("free");
        }
        let waits = |now| back_off.attempt(ann, now).err().map(|failure| failure.kind);
        assert_eq!(waits(start), Some(Kind::BackOff(1)));
        assert_eq!(waits(start + Duration::from_secs(1)), None);
        assert_eq!(waits(start + Duration::from_secs(1)), Some(Kind::BackOff(2)));
        assert!(back_off.attempt(Some(IpAddr::from([10, 0, 0, 2])), start).is_ok(), "others do not wait");
        assert_eq!(waits(start + MEMORY + Duration::from_secs(2)), None);
        back_off.forgive(ann);
        assert_eq!(waits(start), None);
        assert_eq!(
            (wait(4), wait(5), wait(13), wait(u32::MAX)),
            (Duration::ZERO, Duration::from_secs(1), Duration::from_secs(256), Duration::from_secs(1 << 20))
        );
    }

    #[test]
    fn a_secret_is_not_looked_at_while_its_giver_waits_and_no_wait_passes_the_bound() {
        let (back_off, start, bound) = (BackOff::new(Duration::from_secs(2)), Instant::now(), Duration::from_secs(2));
        let mut now = start;
        for _ in 0..20 {
            assert!(!back_off.check(None, now, || false).expect("it waited long enough"));
            now += bound;
        }
        let _ = back_off.attempt(None, now);
        let mut looked = false;
        let answer = back_off.check(None, now, || {
            looked = true;
            true
        });
        assert!(answer.is_err() && !looked);
        now += bound;
        assert!(back_off.check(None, now, || true).expect("it is time"));
        assert!(!back_off.check(None, now, || false).expect("a right one costs no try"));
        assert!(back_off.check(None, now, || false).is_err(), "a right one forgives nothing");
    }

    #[test]
    fn an_ipv6_network_is_one_peer_and_new_peers_evict_no_throttled_one() {
        let ip = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(ip("2001:db8:1:2::1"), ip("2001:db8:1:2:ffff::9"));
        assert_ne!(ip("2001:db8:1:2::1"), ip("2001:db8:1:3::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
        let (back_off, now, ann) = (BackOff::new(LONGEST), Instant::now(), Some(IpAddr::from([99, 0, 0, 1])));
        for _ in 0..5 {
            back_off.attempt(ann, now).expect("free");
        }
        for n in 0..5000_u32 {
            back_off.attempt(Some(IpAddr::from(n.to_be_bytes())), now).expect("nobody waits for others");
        }
        assert_eq!(back_off.tries.lock().len(), MOST);
        assert!(back_off.attempt(ann, now).is_err());
    }
}

//! Makes who guesses wait: after 5 wrong logins each further one costs twice the time, up to 5 minutes.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::failure::{Failure, Kind};

/// Wrong logins that cost nothing.
const FREE: u32 = 5;
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(300);
/// After this time without a try everything is forgiven.
const MEMORY: Duration = Duration::from_secs(900);
/// Most addresses that are remembered; all others share one.
const MOST: usize = 1024;

/// Who tried how often, by address: of IPv6 the network of 64 bits, which one person has as a whole.
#[derive(Debug, Default)]
pub(super) struct BackOff(Mutex<HashMap<Option<IpAddr>, Tries>>);

#[derive(Debug, Clone, Copy)]
struct Tries {
    wrong: u32,
    last: Instant,
    until: Instant,
}

impl BackOff {
    /// Counts a try as wrong, before it is known: many at once are as many.
    ///
    /// # Errors
    ///
    /// It is too early; nothing may be checked.
    pub(super) fn attempt(&self, peer: Option<IpAddr>, now: Instant) -> Result<(), Failure> {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tries.retain(|_, tries| now.saturating_duration_since(tries.last) < MEMORY);
        let mut peer = network(peer);
        if tries.len() >= MOST && !tries.contains_key(&peer) {
            peer = None;
        }
        let tries = tries.entry(peer).or_insert(Tries { wrong: 0, last: now, until: now });
        if tries.until > now {
            let seconds = (tries.until - now).as_secs_f64().ceil() as u32;
            let message = format!("too many wrong logins; try again in {seconds} s");
            return Err(Failure::new(Kind::BackOff(seconds), message));
        }
        tries.wrong = tries.wrong.saturating_add(1);
        (tries.last, tries.until) = (now, now + wait(tries.wrong));
        Ok(())
    }

    /// Forgets the tries of one who then knew the password.
    pub(super) fn forgive(&self, peer: Option<IpAddr>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&network(peer));
    }
}

/// How long after so many wrong logins.
fn wait(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1 << doublings.min(20)).min(LONGEST),
    }
}

fn network(peer: Option<IpAddr>) -> Option<IpAddr> {
    match peer?.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Some(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
        }
        v4 => Some(v4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_wrong_login_waits_and_each_further_one_twice_as_long() {
        let (back_off, start, ann) = (BackOff::default(), Instant::now(), Some(IpAddr::from([10, 0, 0, 1])));
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
            (Duration::ZERO, Duration::from_secs(1), Duration::from_secs(256), LONGEST)
        );
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_strangers_beyond_the_bound_share_one() {
        let ip = |text: &str| network(Some(text.parse().expect("an address")));
        assert_eq!(ip("2001:db8:1:2::1"), ip("2001:db8:1:2:ffff::9"));
        assert_ne!(ip("2001:db8:1:2::1"), ip("2001:db8:1:3::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
        let (back_off, now) = (BackOff::default(), Instant::now());
        for n in 0..5000_u32 {
            let _ = back_off.attempt(Some(IpAddr::from(n.to_be_bytes())), now);
        }
        assert!(back_off.0.lock().expect("a lock").len() <= MOST + 1);
        assert!(back_off.attempt(Some(IpAddr::from([99, 0, 0, 1])), now).is_err());
    }
}

//! Limits the connections from one address at a time, so that one client cannot take them all.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

use crate::login::network;

/// The number of connections of each address; for IPv6 of each network of 64 bits.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimit {
    most: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The permit of one connection; dropping the permit frees it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    of: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// Limits the connections of each address to `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a permit for this peer; `None` if the peer has all that it may have.
    pub(super) fn take(&self, peer: IpAddr) -> Option<ConnectionPermit> {
        let address = network(peer);
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { of: self.clone(), address })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_leaves_the_rest() {
        let (limit, ann, bob) = (ConnectionLimit::new(2), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let permits = (limit.take(ann), limit.take(ann));
        assert!(permits.0.is_some() && permits.1.is_some() && limit.take(ann).is_none());
        assert!(limit.take(bob).is_some());
        drop(permits);
        assert!(limit.taken.lock().is_empty());
        assert!(limit.take(ann).is_some());
    }
}

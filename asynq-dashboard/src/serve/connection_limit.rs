//! Limits the connections from one address at a time, so that one client cannot take them all.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

use super::MOST_CONNECTIONS;
use crate::login::network;

/// Most connections of one address while three quarters of all are taken. A browser opens six.
const CROWDED_LIMIT: usize = 8;

/// The number of connections of each address; for IPv6 of each network of 64 bits.
///
/// Each address may have half of all connections, so that other clients and probes of `/readyz` still come through. This is
/// more than the limit of 64 event streams, as behind a proxy every browser has the proxy's address. The last quarter is for
/// addresses with few connections, because one client may have two addresses, one of IPv4 and one of IPv6.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionLimit {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The permit of one connection; dropping the permit frees it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    of: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// Takes a permit for this peer; `None` if the peer has all that it may have now.
    pub(super) fn take(&self, peer: IpAddr) -> Option<ConnectionPermit> {
        let address = network(peer);
        let mut taken = self.taken.lock();
        let is_crowded = taken.values().sum::<usize>() >= MOST_CONNECTIONS / 4 * 3;
        let limit = if is_crowded { CROWDED_LIMIT } else { MOST_CONNECTIONS / 2 };
        let count = taken.entry(address).or_default();
        if *count >= limit {
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

    fn take(limit: &ConnectionLimit, peer: IpAddr) -> Vec<ConnectionPermit> {
        (0..MOST_CONNECTIONS).map_while(|_| limit.take(peer)).collect()
    }

    #[test]
    fn one_client_leaves_the_rest_also_if_it_has_two_addresses() {
        let limit = ConnectionLimit::default();
        let [ann, bob, eve] = [1_u8, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let also_ann = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        let half = take(&limit, ann);
        let quarter = take(&limit, also_ann);
        assert_eq!((half.len(), quarter.len()), (128, 64));
        let probe = take(&limit, bob);
        assert_eq!(probe.len(), 8);
        drop(quarter);
        let more = take(&limit, eve);
        assert_eq!(more.len(), 64 - 8);
        drop((half, probe, more));
        assert!(limit.taken.lock().is_empty());
        assert!(limit.take(ann).is_some());
    }
}

//! Which master owns which slot.

use redis::Value;

use super::{super::BrokerError, reply, url::Address};

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// In the table: a slot without an owner.
const NO_OWNER: u16 = u16::MAX;

/// Owners of all slots, as one node tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotMap {
    masters: Vec<Address>,
    /// Each with the place of its master.
    replicas: Vec<(u16, Address)>,
    /// Places in `masters`.
    owners: Vec<u16>,
}

impl SlotMap {
    /// Returns a map without owners.
    pub(super) fn empty() -> Self {
        Self { masters: Vec::new(), replicas: Vec::new(), owners: vec![NO_OWNER; SLOTS] }
    }

    /// Reads the answer of `from` to `CLUSTER SLOTS`.
    pub(super) fn read(value: Value, from: &Address) -> Result<Self, BrokerError> {
        let mut map = Self::empty();
        for range in reply::array(value)? {
            let mut parts = reply::array(range)?.into_iter();
            let mut slot = || parts.next().as_ref().and_then(reply::count::<usize>).filter(|slot| *slot < SLOTS);
            let (Some(first), Some(last)) = (slot(), slot()) else { return Err(reply::unexpected("no slots")) };
            let mut nodes = parts.filter_map(|node| read_node(node, from));
            let Some(master) = nodes.next() else { continue };
            let owner = map.place(&master);
            map.owners.iter_mut().take(last + 1).skip(first).for_each(|slot| *slot = owner);
            for replica in nodes.map(|replica| (owner, replica)) {
                if !map.replicas.contains(&replica) {
                    map.replicas.push(replica);
                }
            }
        }
        Ok(map)
    }

    /// Returns the master that owns the slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// Returns every owner of a slot.
    pub(super) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// Returns every node.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters.iter().chain(self.replicas.iter().map(|(_, replica)| replica))
    }

    /// Returns the nodes that have the slot, the master first.
    pub(super) fn nodes_of(&self, slot: u16) -> Vec<String> {
        let owner = self.owners.get(usize::from(slot));
        let replicas = self.replicas.iter().filter(|(master, _)| Some(master) == owner).map(|(_, replica)| replica);
        self.owner(slot).into_iter().chain(replicas).map(ToString::to_string).collect()
    }

    /// Gives a slot to another node; `false` if that node owns it already.
    pub(super) fn give(&mut self, slot: u16, to: &Address) -> bool {
        if self.owner(slot) == Some(to) {
            return false;
        }
        let owner = self.place(to);
        if let Some(slot) = self.owners.get_mut(usize::from(slot)) {
            *slot = owner;
        }
        true
    }

    fn place(&mut self, master: &Address) -> u16 {
        let place = self.masters.iter().position(|known| known == master).unwrap_or_else(|| {
            self.masters.push(master.clone());
            self.masters.len() - 1
        });
        u16::try_from(place).unwrap_or(NO_OWNER)
    }
}

/// Reads host and port of a node, and ignores its id and the fields behind it.
fn read_node(node: Value, from: &Address) -> Option<Address> {
    let mut parts = reply::array(node).ok()?.into_iter();
    let host = parts.next().and_then(reply::text).unwrap_or_default();
    address(&host, reply::count(&parts.next()?)?, from)
}

/// Returns the slot of a key: of the text between its first braces if there is some, or else of the whole key.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS as u16
}

/// Returns the address of a node as the node `from` tells it; without a host, the host is that of `from`.
pub(super) fn address(host: &str, port: u16, from: &Address) -> Option<Address> {
    let host = match (host.trim_matches(['[', ']']), from) {
        ("" | "?", Address::Tcp { host, .. }) => host.clone(),
        ("" | "?", Address::Unix(_)) => return None,
        (host, _) => host.to_owned(),
    };
    Some(Address::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        // The specification's own test value, and answers of `CLUSTER KEYSLOT`.
        for (key, expected) in [
            ("123456789", 0x31C3),
            ("asynq:{default}:pending", slot(b"default")),
            ("foo", 12_182),
            ("{}foo", slot(b"{}foo")),
            ("a{b", slot(b"a{b")),
            ("{foo}{bar}", 12_182),
            ("x{{foo}y", slot(b"{foo")),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_ne!(slot(b"{}foo"), slot(b"foo"));
    }

    #[test]
    fn a_map_is_read_and_a_slot_can_be_given_away() {
        let text = |text: &str| Value::BulkString(text.into());
        let node =
            |host: &str, port| Value::Array(vec![text(host), Value::Int(port), text("id"), Value::Array(vec![])]);
        let range =
            |first, last, nodes: Vec<Value>| Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat());
        let value = Value::Array(vec![
            range(0, 5460, vec![node("a", 1), node("c", 3)]),
            range(5461, 10_922, vec![node("", 2)]),
            range(16_000, 16_383, vec![node("a", 1)]),
        ]);
        let mut map = SlotMap::read(value, &at("here", 9)).unwrap();
        assert_eq!(map.masters(), [at("a", 1), at("here", 2)]);
        assert_eq!(map.nodes().count(), 3);
        assert_eq!(
            [0, 5461, 12_000, 16_383].map(|slot| map.nodes_of(slot).join(" ")),
            ["a:1 c:3", "here:2", "", "a:1 c:3"]
        );
        for (slot, owner) in
            [(0, Some(at("a", 1))), (5461, Some(at("here", 2))), (12_000, None), (16_383, Some(at("a", 1)))]
        {
            assert_eq!(map.owner(slot), owner.as_ref(), "{slot}");
        }
        assert!(map.give(0, &at("d", 4)) && !map.give(0, &at("d", 4)));
        assert_eq!(map.owner(0), Some(&at("d", 4)));
        assert_eq!(map.owner(1), Some(&at("a", 1)));

        assert!(SlotMap::read(Value::Array(vec![range(0, 99_999, vec![])]), &at("h", 1)).is_err());
        assert!(SlotMap::read(Value::Int(1), &at("h", 1)).is_err());
    }
}

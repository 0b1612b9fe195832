//! Looks through all keys for groups that have tasks and are missing from the set of groups, as some of Go's scripts leave
//! them, and for queues that have tasks and are missing from the set of queues: a producer that wrote the name of a queue
//! does not write it anew for a while (Go's: never), so its tasks come without a name after the queue was deleted.

mod names;

use std::collections::{BTreeMap, HashMap};

use self::names::queue_with_waiting;
use super::super::{
    RedisBroker,
    keys::{GROUPS_AND_WAITING, Keys, QUEUES},
    reply::{self, BEGIN},
    script::FIND_LOST,
};
use crate::{
    broker::{BrokerError, Presence as _},
    task::QueueName,
};

/// Keys that one command looks at.
const PER_SCAN: usize = 1000;
/// Commands of one search.
const SCANS: usize = 10;
/// Groups that one script looks at.
const PER_SCRIPT: usize = 100;

impl RedisBroker {
    /// Continues a search through all keys, adds the groups of `queues` that it finds to their sets of groups, and the queues
    /// with waiting tasks to the set of queues. On average one of all servers searches at a time. Returns the number of groups
    /// added.
    pub(crate) async fn find_lost(&self, queues: &[QueueName]) -> Result<usize, BrokerError> {
        // Each server has the same chance to be the one.
        if fastrand::usize(..self.servers_alive()) > 0 {
            return Ok(0);
        }
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        let served: HashMap<&str, &Keys> = keys.iter().map(|keys| (keys.prefix(), keys)).collect();
        // A server of patterns that serves no queue at the moment searches where the names of the queues are.
        let beside: Vec<String> = keys.iter().map(Keys::groups).chain([QUEUES.to_owned()]).collect();
        let owners = self.router.owners(&beside).await?;
        let mut servers: HashMap<String, &String> = HashMap::new();
        for (owner, beside) in owners.into_iter().zip(&beside) {
            servers.extend(owner.map(|owner| (owner, beside)));
        }
        let (mut restored, mut waiting, mut failed) = (0, BTreeMap::new(), Ok(()));
        for (server, beside) in servers {
            match self.search(server, beside, &served, &mut waiting).await {
                Ok(groups) => restored += groups,
                Err(error) => failed = Err(error),
            }
        }
        self.add_to_names(waiting).await.and(failed).map(|()| restored)
    }

    /// Searches the keys of one Redis server; each has a cursor of its own. Adds the queues with waiting tasks to `waiting`, each
    /// with one of its keys.
    async fn search(
        &self,
        server: String,
        beside: &str,
        served: &HashMap<&str, &Keys>,
        waiting: &mut BTreeMap<QueueName, String>,
    ) -> Result<usize, BrokerError> {
        let cursors = || self.searches.lock();
        let mut cursor = cursors().get(&server).cloned().flatten();
        let mut restored = 0;
        for _ in 0..SCANS {
            let at = cursor.as_deref().unwrap_or(BEGIN);
            let (keys, next) = self.router.scan(beside, at, GROUPS_AND_WAITING, PER_SCAN).await?;
            cursor = next;
            let mut found: HashMap<&str, Vec<String>> = HashMap::new();
            for key in keys {
                waiting.extend(queue_with_waiting(&key).map(|queue| (QueueName::from_wire(queue), key.clone())));
                let its_own = prefixes(&key).find_map(|prefix| served.get_key_value(prefix));
                if let Some((prefix, _)) = its_own {
                    found.entry(prefix).or_default().push(key);
                }
            }
            for (prefix, names) in found {
                for names in names.chunks(PER_SCRIPT) {
                    restored += self.make_known(served[prefix], names).await?;
                }
            }
            if cursor.is_none() {
                break;
            }
        }
        cursors().insert(server, cursor);
        Ok(restored)
    }

    async fn make_known(&self, keys: &Keys, found: &[String]) -> Result<usize, BrokerError> {
        let mut all = vec![keys.groups(), keys.sets(), keys.absent()];
        all.extend_from_slice(found);
        let call = self.timed(&FIND_LOST, &all).arg(keys.prefix());
        reply::count(&self.router.send_one(call).await?).ok_or_else(|| reply::unexpected("no number"))
    }
}

/// Returns each possible prefix of the queue that the group key belongs to: names of queues and of groups may have
/// braces.
fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices("}:g:").map(|(at, _)| &key[..at + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_group_is_found_whatever_their_names_are() {
        let found = |key| prefixes(key).collect::<Vec<_>>();
        assert_eq!(found("asynq:{q}:g:G"), ["asynq:{q}:"]);
        assert_eq!(found("asynq:{a}:g:{b}:g:c"), ["asynq:{a}:", "asynq:{a}:g:{b}:"]);
        assert_eq!(found("asynq:{q}:t:id"), [] as [&str; 0]);
    }
}

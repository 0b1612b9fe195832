//! Looks for groups that have tasks and are missing from the set of groups, as some of Go's scripts leave them.

use std::{collections::HashMap, sync::PoisonError};

use super::super::{
    RedisBroker,
    keys::{ANY_GROUP, Keys},
    reply,
    script::{Call, FIND_LOST},
};
use crate::{broker::BrokerError, task::QueueName};

/// Keys that one command looks at.
const PER_SCAN: usize = 1000;
/// Commands of one search.
const SCANS: usize = 10;
/// Groups that one script looks at.
const PER_SCRIPT: usize = 100;

impl RedisBroker {
    /// Continues a search through all keys, and adds the groups of `queues` that it finds to their sets of groups. On
    /// average one of all servers searches at a time. Returns the number of groups added.
    pub(crate) async fn find_lost_groups(&self, queues: &[QueueName]) -> Result<usize, BrokerError> {
        if !self.is_chosen() {
            return Ok(0);
        }
        let keys: Vec<Keys> = queues.iter().map(Keys::new).collect();
        let owners = self.router.owners(&keys.iter().map(Keys::groups).collect::<Vec<_>>()).await?;
        let mut of_server: HashMap<String, HashMap<&str, &Keys>> = HashMap::new();
        for (owner, keys) in owners.into_iter().zip(&keys) {
            if let Some(owner) = owner {
                of_server.entry(owner).or_default().insert(keys.prefix(), keys);
            }
        }
        let mut restored = 0;
        for (server, served) in of_server {
            restored += self.search(server, &served).await?;
        }
        Ok(restored)
    }

    /// Searches the keys of one Redis server; each has a cursor of its own.
    async fn search(&self, server: String, served: &HashMap<&str, &Keys>) -> Result<usize, BrokerError> {
        let Some(beside) = served.values().next().map(|keys| keys.groups()) else { return Ok(0) };
        let cursors = || self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = cursors().get(&server).cloned().unwrap_or_else(|| "0".to_owned());
        let mut restored = 0;
        for _ in 0..SCANS {
            let scan = Call::plain("SCAN").arg(&cursor).arg("MATCH").arg(ANY_GROUP).arg("COUNT").arg(PER_SCAN);
            let mut parts = reply::array(self.router.send_one(scan.beside(beside.clone())).await?)?.into_iter();
            cursor = parts.next().and_then(reply::text).ok_or_else(|| reply::unexpected("no cursor"))?;
            let mut found: HashMap<&str, Vec<String>> = HashMap::new();
            for key in
                parts.next().map(reply::array).transpose()?.unwrap_or_default().into_iter().filter_map(reply::text)
            {
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
            if cursor == "0" {
                break;
            }
        }
        cursors().insert(server, cursor);
        Ok(restored)
    }

    async fn make_known(&self, keys: &Keys, found: &[String]) -> Result<usize, BrokerError> {
        let mut all = vec![keys.groups(), keys.sets(), keys.absent()];
        all.extend_from_slice(found);
        let call = FIND_LOST.on(&all).arg(self.clock.argument()).arg(keys.prefix());
        let restored = reply::number(&self.router.send_one(call).await?);
        restored.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| reply::unexpected("no number"))
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

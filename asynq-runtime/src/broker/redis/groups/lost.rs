//! Looks for groups that have tasks and that nobody knows, as some of Go's scripts leave them.

use std::{collections::HashMap, sync::PoisonError};

use super::super::{
    RedisBroker,
    keys::{self, Keys},
    reply,
    router::Router,
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
    /// Goes on with a search through all keys, whichever queues they are of, and makes known what it finds of `queues`. Of many
    /// servers one does it at a time, on average.
    pub(crate) async fn find_lost_groups(&self, queues: &[QueueName]) -> Result<usize, BrokerError> {
        if !self.is_chosen() {
            return Ok(0);
        }
        let mut restored = 0;
        match &self.router {
            Router::One(_) => {
                let served: HashMap<String, Keys> =
                    queues.iter().map(Keys::new).map(|keys| (keys.prefix().to_owned(), keys)).collect();
                restored += self.search(None, keys::ANY_GROUP.to_owned(), &served).await?;
            }
            // Each node has its own keys, and the cursors of its own.
            #[cfg(feature = "cluster")]
            Router::Many(_) => {
                for queue in queues {
                    let keys = Keys::new(queue);
                    let pattern = keys.group_pattern();
                    let served = HashMap::from([(keys.prefix().to_owned(), keys)]);
                    restored += self.search(Some(queue), pattern, &served).await?;
                }
            }
        }
        Ok(restored)
    }

    async fn search(
        &self,
        queue: Option<&QueueName>,
        pattern: String,
        served: &HashMap<String, Keys>,
    ) -> Result<usize, BrokerError> {
        let cursors = || self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = cursors().get(&queue.cloned()).cloned().unwrap_or_else(|| "0".to_owned());
        let mut restored = 0;
        for _ in 0..SCANS {
            let scan = Call::plain("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(PER_SCAN);
            let scan = served.values().next().map_or(scan.clone(), |keys| scan.beside(keys.groups()));
            let mut parts = reply::array(self.router.send_one(scan).await?)?.into_iter();
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
                    restored += self.make_known(&served[prefix], names).await?;
                }
            }
            if cursor == "0" {
                break;
            }
        }
        cursors().insert(queue.cloned(), cursor);
        Ok(restored)
    }

    async fn make_known(&self, keys: &Keys, found: &[String]) -> Result<usize, BrokerError> {
        let mut all = vec![keys.groups(), keys.sets()];
        all.extend_from_slice(found);
        let call = FIND_LOST.on(&all).arg(self.clock.argument()).arg(keys.prefix());
        let restored = reply::number(&self.router.send_one(call).await?);
        restored.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| reply::unexpected("no number"))
    }
}

/// What may be the prefix of the queue whose group this key is: names of queues and of groups may have braces.
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

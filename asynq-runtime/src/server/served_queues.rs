//! The queues that the server serves at the moment.

use std::{collections::HashSet, sync::Arc};

use tokio::sync::watch;

use super::queues::{Entry, Queues};
use crate::task::QueueName;

/// The queues to serve. Each component takes [`now`](Self::now) for one pass.
#[derive(Debug)]
pub(crate) struct ServedQueues {
    entries: Vec<Entry>,
    now: watch::Sender<Arc<Queues>>,
}

impl ServedQueues {
    /// Starts with the queues that are named. Queues of patterns come with the first [`learn`](Self::learn).
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let now = watch::Sender::new(Arc::new(Queues::new(&entries, [])));
        Self { entries, now }
    }

    pub(crate) fn now(&self) -> Arc<Queues> {
        Arc::clone(&self.now.borrow())
    }

    /// Waits until the queues to serve are not `these` any more.
    pub(crate) async fn changed(&self, these: &Arc<Queues>) {
        let mut now = self.now.subscribe();
        // The sender is `self`, so this cannot end with an error.
        let _ = now.wait_for(|now| !Arc::ptr_eq(now, these)).await;
    }

    /// Returns whether queues may come and go.
    pub(crate) fn has_patterns(&self) -> bool {
        self.entries.iter().any(|entry| !entry.pattern.is_exact())
    }

    /// Takes `known` as the queues that exist. Returns how many served queues came and how many went, if any did.
    pub(crate) fn learn(&self, known: &[QueueName]) -> Option<(usize, usize)> {
        // Other programs have other rules for names.
        let known = known.iter().filter(|name| QueueName::new(name.as_str()).is_ok());
        let (next, before) = (Queues::new(&self.entries, known), self.now());
        if next.names() == before.names() {
            return None;
        }
        let [old, new] = [&*before, &next].map(|queues| queues.names().iter().collect::<HashSet<_>>());
        let (added, removed) = (new.difference(&old).count(), old.difference(&new).count());
        self.now.send_replace(Arc::new(next));
        Some((added, removed))
    }
}

#[cfg(test)]
mod tests {
    use asynq_grammar::{Pattern, names::check_queue};

    use super::*;

    fn names(names: &[&str]) -> Vec<QueueName> {
        names.iter().map(|name| QueueName::from_wire(name)).collect()
    }

    fn served(entries: &[&str]) -> ServedQueues {
        let entry = |name: &&str| Entry { pattern: Pattern::new(name, check_queue).unwrap(), weight: 1, limit: None };
        ServedQueues::new(entries.iter().map(entry).collect())
    }

    #[tokio::test]
    async fn a_waiting_fetcher_is_notified_when_queues_are_added_or_removed() {
        let served = served(&["default", "tenant:*"]);
        assert!(served.has_patterns());
        let first = served.now();
        assert_eq!(first.names(), names(&["default"]));
        assert_eq!(served.learn(&names(&["other", "tenant:a", "tenant:b"])), Some((2, 0)));
        served.changed(&first).await;
        assert_eq!(served.now().names(), names(&["default", "tenant:a", "tenant:b"]));
        assert_eq!(served.learn(&names(&["tenant:b", "tenant:a"])), None);
        assert_eq!(served.learn(&names(&["tenant:b", "tenant:c"])), Some((1, 1)));
        assert_eq!(served.now().names(), names(&["default", "tenant:b", "tenant:c"]));
    }

    #[test]
    fn a_queue_whose_name_our_rules_refuse_is_not_served() {
        let served = served(&["*"]);
        assert_eq!(served.learn(&names(&["a{b}c", "fine", ""])), Some((1, 0)));
        assert_eq!(served.now().names(), names(&["fine"]));
    }
}

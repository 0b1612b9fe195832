//! Notifies the waiters of a key, and no others, of each announced change of it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::seen;
use crate::until::until;

/// The waiters of changes, by key. A push notifies only the waiters of its keys: with a broadcast, 10,000 waiters would
/// wake up for each of 10,000 ends.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyWaiters(Arc<Mutex<HashMap<String, Vec<Arc<Waiter>>>>>);

/// A wait for changes of some keys.
#[derive(Debug, Default)]
struct Waiter {
    /// The first change since the last look.
    first: Mutex<Option<Change>>,
    changed: Notify,
}

/// How the keys of a waiter changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The key changed. When it did is not known: a process that stood still reads the announcement late.
    Key,
    /// The key may have changed: the connection was lost.
    Perhaps,
}

/// A registered waiter. Dropping it removes the waiter.
#[derive(Debug)]
pub(super) struct Listening {
    waiters: KeyWaiters,
    keys: Vec<String>,
    waiter: Arc<Waiter>,
}

impl KeyWaiters {
    /// Notifies the waiters of a change that the tracking connection announced.
    pub(super) fn notify(&self, change: &seen::Change) {
        let waiting = self.0.lock();
        match change {
            seen::Change::Keys(keys) => {
                let notified = keys.iter().filter_map(|key| waiting.get(key)).flatten();
                notified.for_each(|waiter| waiter.notify(Change::Key));
            }
            seen::Change::All => waiting.values().flatten().for_each(|waiter| waiter.notify(Change::Perhaps)),
        }
    }

    pub(super) fn listen(&self, keys: Vec<String>) -> Listening {
        let waiter = Arc::<Waiter>::default();
        let mut waiting = self.0.lock();
        for key in &keys {
            waiting.entry(key.clone()).or_default().push(Arc::clone(&waiter));
        }
        drop(waiting);
        Listening { waiters: self.clone(), keys, waiter }
    }
}

impl Waiter {
    fn notify(&self, change: Change) {
        self.first.lock().get_or_insert(change);
        self.changed.notify_one();
    }
}

impl Listening {
    /// Forgets the change that was received, which the next look sees.
    pub(super) fn clear(&self) {
        *self.waiter.first.lock() = None;
    }

    /// Returns whether no change was received since [`clear`](Self::clear).
    pub(super) fn received_nothing(&self) -> bool {
        self.waiter.first.lock().is_none()
    }

    /// Waits for the first change since [`clear`](Self::clear).
    pub(super) async fn changed(&self) -> Change {
        until(&self.waiter.changed, || self.waiter.first.lock().take()).await
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut waiting = self.waiters.0.lock();
        for key in &self.keys {
            if let Some(waiters) = waiting.get_mut(key) {
                waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
                if waiters.is_empty() {
                    waiting.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received_by(listening: &Listening) -> Option<Change> {
        *listening.waiter.first.lock()
    }

    #[test]
    fn a_push_notifies_the_waiters_of_its_keys_alone_and_a_lost_connection_notifies_all() {
        let waiters = KeyWaiters::default();
        let one = waiters.listen(vec!["a".into()]);
        let both = waiters.listen(vec!["a".into(), "b".into()]);
        waiters.notify(&seen::Change::Keys(vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(received_by(&one), None);
        assert_eq!(received_by(&both), Some(Change::Key));
        waiters.notify(&seen::Change::All);
        assert_eq!(received_by(&one), Some(Change::Perhaps));
        assert_eq!(received_by(&both), Some(Change::Key), "the first change since the last look counts");
        both.clear();
        waiters.notify(&seen::Change::All);
        assert_eq!(received_by(&both), Some(Change::Perhaps));
        drop((one, both));
        assert!(waiters.0.lock().is_empty(), "no wait is left behind");
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let waiters = KeyWaiters::default();
        let listening = waiters.listen(vec!["a".into()]);
        waiters.notify(&seen::Change::All);
        assert_eq!(listening.changed().await, Change::Perhaps);
        // The permit of a change that was cleared ends no wait.
        waiters.notify(&seen::Change::All);
        listening.clear();
        waiters.notify(&seen::Change::Keys(vec!["a".to_owned()]));
        assert_eq!(listening.changed().await, Change::Key);
    }
}

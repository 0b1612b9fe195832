//! The names of the queues in `asynq:queues`, by which the inspector, queue patterns and Go's tools find the queues.
//!
//! A name is written ahead of the first tasks of its queue. In a cluster another master may keep the names, so the tasks
//! can be stored while their queue's name cannot.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::{
    super::{BrokerError, BrokerErrorKind},
    RedisBroker,
    back_off::back_off,
    keys::QUEUES,
    router::{Answer, Router},
    script::Call,
};
use crate::task::QueueName;

/// How long a name counts as written; not for ever, because Go's tools can delete it.
const WRITTEN_FOR: Duration = Duration::from_secs(60);
/// Most names that count as written. A name that is forgotten is written once more.
const MOST_WRITTEN: usize = 10_000;
/// Most names that wait to be written. Further ones are written with the next task of their queue.
const MOST_MISSING: usize = 10_000;

/// The names that one producer has written, and those that it could not write.
#[derive(Debug, Default)]
pub(super) struct QueueNames {
    /// When each name was last written, and on which connection.
    written: Mutex<HashMap<QueueName, (u64, Instant)>>,
    /// The names of queues with tasks whose write was not answered. One that another program deletes meanwhile is written once more.
    missing: Mutex<HashSet<QueueName>>,
    /// Notified when a name is missing.
    is_missing: Notify,
}

impl QueueNames {
    /// Returns the queues whose names were not written on this connection lately.
    pub(super) fn unwritten<'q>(&self, queues: impl Iterator<Item = &'q QueueName>, generation: u64) -> Vec<QueueName> {
        let written = self.written.lock();
        let is_written = |queue: &QueueName| {
            written.get(queue).is_some_and(|(on, since)| *on == generation && since.elapsed() < WRITTEN_FOR)
        };
        let mut unwritten: Vec<QueueName> = queues.filter(|queue| !is_written(queue)).cloned().collect();
        unwritten.dedup();
        unwritten
    }

    /// Returns the call that writes the names.
    pub(super) fn call<'q>(queues: impl IntoIterator<Item = &'q QueueName>) -> Call {
        let mut call = Call::plain("SADD").arg(QUEUES);
        queues.into_iter().for_each(|queue| call.push(queue.as_str()));
        call
    }

    /// Notes that the names were written.
    pub(super) fn remember(&self, queues: Vec<QueueName>, generation: u64) {
        let mut written = self.written.lock();
        written.extend(queues.into_iter().map(|queue| (queue, (generation, Instant::now()))));
        if written.len() > MOST_WRITTEN {
            written.retain(|_, (on, since)| *on == generation && since.elapsed() < WRITTEN_FOR);
            // If nearly all names are fresh, clear the map: otherwise each further name looks at all of them again.
            if written.len() > MOST_WRITTEN / 2 {
                written.clear();
            }
        }
    }

    /// Forgets a queue that is deleted: its name is written again with its next task.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.missing.lock().remove(queue);
        self.written.lock().remove(queue);
    }

    /// Has the names of queues with tasks written later, if `error` is a failure that may pass. Another one is logged, and the names
    /// are tried again as late as those that were written.
    pub(super) fn write_later<'q>(
        &self,
        queues: impl Iterator<Item = &'q QueueName>,
        generation: u64,
        error: &BrokerError,
    ) {
        if !may_pass(error) {
            let refused = self.unwritten(queues, generation);
            for queue in &refused {
                log!(
                    warn,
                    %queue,
                    "the name of the queue cannot be written to {QUEUES}, so that Go's tools do not show the queue and servers of patterns do \
                     not run it: {error}"
                );
            }
            self.remember(refused, generation);
            return;
        }
        let mut missing = self.missing.lock();
        let room = MOST_MISSING.saturating_sub(missing.len());
        missing.extend(queues.take(room).cloned());
        self.is_missing.notify_one();
    }

    /// Writes the missing names until the broker is closed, again and again until Redis answers.
    pub(super) async fn write_missing(self: Arc<Self>, router: Router) {
        loop {
            self.is_missing.notified().await;
            for failures in 1.. {
                sleep(back_off(failures)).await;
                // Read behind the pause: a queue that was deleted meanwhile is not among them any more.
                let mut names: Vec<QueueName> = self.missing.lock().iter().cloned().collect();
                if names.is_empty() {
                    break;
                }
                let generation = router.generation();
                let answer = router.send_one(Self::call(&names)).await;
                if answer.as_ref().is_err_and(may_pass) {
                    continue;
                }
                let mut missing = self.missing.lock();
                // A queue that was deleted meanwhile stays forgotten.
                names.retain(|queue| missing.remove(queue));
                if answer.is_ok() {
                    self.remember(names, generation);
                }
            }
        }
    }
}

impl RedisBroker {
    /// Has the name of a queue written later that could not be written beside a call.
    pub(super) fn note_known(&self, queue: &QueueName, named: Answer) {
        if let Err(error) = named {
            self.producer.names().write_later([queue].into_iter(), self.router.generation(), &error);
        }
    }
}

/// Returns whether a failure ends by itself: the master of the names is away or out of memory.
fn may_pass(error: &BrokerError) -> bool {
    error.is_unavailable() || error.kind() == BrokerErrorKind::Full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<QueueName> {
        (0..n).map(|n| QueueName::from_wire(&format!("tenant:{n}"))).collect()
    }

    #[test]
    fn names_that_do_not_count_as_written_any_more_are_forgotten() {
        let (known, one) = (QueueNames::default(), QueueName::from_wire("one"));
        known.remember(names(MOST_WRITTEN), 1);
        known.remember(vec![one.clone()], 2);
        assert_eq!(known.written.lock().len(), 1);
        assert!(known.unwritten([&one].into_iter(), 2).is_empty());
        assert_eq!(known.unwritten([&one].into_iter(), 3), [one]);
    }

    #[test]
    fn so_many_names_are_known_and_no_more() {
        let known = QueueNames::default();
        for names in names(2 * MOST_WRITTEN + 1).chunks(64) {
            known.remember(names.to_vec(), 1);
            assert!(known.written.lock().len() <= MOST_WRITTEN);
        }
    }
}

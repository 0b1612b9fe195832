//! Gathers what the tasks of one fetch do in their first turn, so that it wakes the heart once and not once per task.
//!
//! Most jobs end the first time they are polled, and those of one fetch begin together. While some of them still wait for
//! that turn, outcomes and free slots that are not worth a call stay where they are; the last turn rings for all of them.
//! A turn that lasts, because a job blocks its thread, holds the others up for no longer than [`PATIENCE`].

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::hub::Hub;

/// How long nothing new may begin before nobody waits for a first turn any more.
const PATIENCE: Duration = Duration::from_millis(2);
/// Most tasks that end before the heart is told: what one script takes.
const WORTH: usize = 64;

/// The tasks that have not had their first turn.
#[derive(Debug)]
pub(crate) struct Burst {
    /// How many tasks that ended are worth a call.
    worth: usize,
    fresh: AtomicUsize,
    /// Whether those that end wait for the fresh ones.
    gathers: AtomicBool,
    /// How many wait.
    ended: AtomicUsize,
    /// How many began so far.
    begun: AtomicU64,
    begins: Notify,
}

impl Burst {
    /// For a server of so many slots: half of them run while the other half is fetched.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            worth: (slots / 2).clamp(1, WORTH),
            fresh: AtomicUsize::new(0),
            gathers: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            begins: Notify::new(),
        }
    }

    /// Something begins that those that end wait for. Whether nothing did so before.
    fn begin(&self) -> bool {
        self.fresh.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        !self.gathers.swap(true, Ordering::AcqRel)
    }

    /// It is over. Whether to ring for those that waited: it was the last.
    fn over(&self) -> bool {
        if self.fresh.fetch_sub(1, Ordering::AcqRel) != 1 {
            return false;
        }
        self.gathers.store(false, Ordering::Release);
        self.ended.swap(0, Ordering::AcqRel) > 0
    }

    /// A task has ended, its outcome is in the outbox and its slot is free. Whether to ring for it now.
    pub(crate) fn ends(&self) -> bool {
        let is_worth_it = self.ended.fetch_add(1, Ordering::AcqRel) + 1 >= self.worth;
        let rings = is_worth_it || !self.gathers.load(Ordering::Acquire);
        if rings {
            self.ended.swap(0, Ordering::AcqRel);
        }
        rings
    }

    /// Ends the gathering where a first turn lasts. Runs on the heart's thread.
    pub(crate) async fn watch(hub: Arc<Hub>) {
        let burst = &hub.burst;
        loop {
            burst.begins.notified().await;
            while burst.gathers.load(Ordering::Acquire) {
                let begun = burst.begun.load(Ordering::Acquire);
                tokio::time::sleep(PATIENCE).await;
                if burst.begun.load(Ordering::Acquire) == begun && burst.gathers.swap(false, Ordering::AcqRel) {
                    hub.ring();
                }
            }
        }
    }
}

/// Something that is to happen before those that end are told of: a task's first turn, or the start of all of a fetch.
/// Over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Hub>);

impl Turn {
    pub(crate) fn of(hub: &Arc<Hub>) -> Self {
        if hub.burst.begin() {
            hub.burst.begins.notify_one();
        }
        Self(Arc::clone(hub))
    }

    /// `task`, whose first poll is this turn.
    pub(crate) async fn of_task(self, task: impl Future<Output = ()>) {
        let (mut task, mut turn) = (pin!(task), Some(self));
        poll_fn(|cx| {
            let poll = task.as_mut().poll(cx);
            drop(turn.take());
            poll
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.burst.over() {
            self.0.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_beside_fresh_tasks_is_told_of_by_the_last_of_them() {
        let burst = Burst::new(10);
        assert!(burst.begin());
        assert!(!burst.begin(), "one who watches is enough");
        assert!(!burst.ends());
        assert!(!burst.over());
        assert!(!burst.ends());
        assert!(burst.over(), "two wait");
        assert!(burst.ends(), "nobody is fresh");
        assert!(burst.begin() && !burst.over(), "nobody waits");
    }

    #[test]
    fn as_many_as_are_worth_a_call_wait_for_nobody() {
        for (slots, worth) in [(0, 1), (1, 1), (2, 1), (10, 5), (100, 50), (1000, 64)] {
            let burst = Burst::new(slots);
            burst.begin();
            for _ in 0..2 {
                let rings: Vec<bool> = (0..worth).map(|_| burst.ends()).collect();
                assert_eq!(rings.iter().position(|rings| *rings), Some(worth - 1), "{slots} slots");
            }
        }
    }
}

//! The tasks in a server's hands, from their dequeue until the broker has taken their outcome.
//!
//! Keyed by run, not by task id: tasks of one id may run at the same time in different queues (RELIABILITY F31). The
//! lease of everything in here is extended; what leaves in any other way than by an outcome was lost.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::{
    attempt::Attempt,
    limit::Limit,
    stop::{Stop, Why},
};
use crate::{
    broker::{HeldLock, RunKey, ServerName},
    task::{QueueName, TaskId, TaskMessage, WorkerInfo},
};

/// Longest payload that is shown to others (RELIABILITY F35).
const SHOWN_PAYLOAD: usize = 1024;

/// The tasks in hand, and the slots that the running ones take.
#[derive(Debug)]
pub(crate) struct Runs {
    live: Mutex<HashMap<RunKey, Live>>,
    slots: usize,
    used: AtomicUsize,
    /// Slots that each queue's tasks take; no entry = none.
    used_by: Mutex<HashMap<QueueName, usize>>,
    /// How many were taken in hand so far.
    held: AtomicU64,
    suspect_runs: AtomicBool,
    /// A slot became free; for the fetcher alone.
    freed: Notify,
    /// The last slot became free.
    emptied: Notify,
}

#[derive(Debug)]
struct Live {
    stop: Arc<Stop>,
    message: Arc<TaskMessage>,
    /// Whether its unique lock must last as long as it runs.
    extends_lock: bool,
    since: DateTime<Utc>,
    /// Its place among all that were taken in hand, the first one first.
    place: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Dequeued, not started.
    Held,
    Running,
    /// Ended, and the broker has not said so yet.
    Settling,
}

impl Runs {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            live: Mutex::default(),
            slots,
            used: AtomicUsize::new(0),
            used_by: Mutex::default(),
            held: AtomicU64::new(0),
            suspect_runs: AtomicBool::new(false),
            freed: Notify::new(),
            emptied: Notify::new(),
        }
    }

    /// How many more tasks could start.
    pub(crate) fn free(&self) -> usize {
        self.slots.saturating_sub(self.running())
    }

    /// How many slots are taken.
    pub(crate) fn running(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// How many slots the tasks of `queue` take.
    pub(crate) fn running_of(&self, queue: &QueueName) -> usize {
        self.used_by().get(queue).copied().unwrap_or_default()
    }

    /// Whether a suspect is running.
    pub(crate) fn suspect_runs(&self) -> bool {
        self.suspect_runs.load(Ordering::Acquire)
    }

    /// Waits until a slot has become free since the last call, or [`poke`](Self::poke).
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Wakes the fetcher.
    pub(crate) fn poke(&self) {
        self.freed.notify_one();
    }

    /// Waits until nothing runs.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.running() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Takes a dequeued task in hand.
    pub(crate) fn hold(&self, attempt: &Attempt, now: DateTime<Utc>) {
        let live = Live {
            stop: Arc::new(Stop::new()),
            message: Arc::clone(&attempt.message),
            extends_lock: attempt.extra.unique_extend && !attempt.message.unique_key.is_empty(),
            since: now,
            place: self.held.fetch_add(1, Ordering::AcqRel),
            phase: Phase::Held,
        };
        self.lock().insert(attempt.key.clone(), live);
    }

    /// Gives a held task a slot; `None` if it was lost meanwhile.
    pub(crate) fn start(&self, key: &RunKey, is_suspect: bool) -> Option<Arc<Stop>> {
        let mut live = self.lock();
        let run = live.get_mut(key)?;
        run.phase = Phase::Running;
        self.used.fetch_add(1, Ordering::AcqRel);
        *self.used_by().entry(key.queue.clone()).or_default() += 1;
        if is_suspect {
            self.suspect_runs.store(true, Ordering::Release);
        }
        Some(Arc::clone(&run.stop))
    }

    /// The task's job has ended, or it was never started: its outcome is next. `false` if it was lost, and nobody waits
    /// for its outcome.
    pub(crate) fn settling(&self, key: &RunKey) -> bool {
        self.lock().get_mut(key).is_some_and(|run| {
            let ours = run.phase != Phase::Settling;
            run.phase = Phase::Settling;
            ours
        })
    }

    /// Gives a slot of `queue` back.
    pub(crate) fn release(&self, queue: &QueueName, was_suspect: bool) {
        if was_suspect {
            self.suspect_runs.store(false, Ordering::Release);
        }
        let mut used_by = self.used_by();
        if let Some(used) = used_by.get_mut(queue) {
            *used -= 1;
            if *used == 0 {
                used_by.remove(queue);
            }
        }
        drop(used_by);
        if self.used.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.notify_waiters();
        }
        self.poke();
    }

    /// The broker took the outcome, or somebody else has the task: it is out of our hands.
    pub(crate) fn forget(&self, key: &RunKey) {
        self.lock().remove(key);
    }

    /// The broker says that the run is not ours any more. Stops it at once; `false` if its outcome was on the way, which
    /// then gets an answer of its own.
    pub(crate) fn lose(&self, key: &RunKey) -> bool {
        let mut live = self.lock();
        match live.get(key) {
            Some(run) if run.phase != Phase::Settling => {
                run.stop.stop(Why::Lost);
                live.remove(key);
                true
            }
            _ => false,
        }
    }

    /// Cancels the runs of this task, in whatever queue; returns how many.
    pub(crate) fn cancel(&self, id: &TaskId) -> usize {
        let live = self.lock();
        let running = live.iter().filter(|(key, run)| key.id == *id && run.phase != Phase::Settling);
        running.map(|(_, run)| run.stop.stop(Why::Cancelled)).count()
    }

    /// Stops everything that has not ended.
    pub(crate) fn stop_all(&self, why: Why) {
        for run in self.lock().values().filter(|run| run.phase != Phase::Settling) {
            run.stop.stop(why);
        }
    }

    /// Stops everything and lets go of it: nobody waits for outcomes any more.
    pub(crate) fn abandon(&self) {
        self.stop_all(Why::Lost);
        self.lock().clear();
    }

    /// What has not ended although it was told to: taken from its job, so that it can be handed back.
    pub(crate) fn take_unended(&self) -> Vec<(RunKey, Arc<TaskMessage>)> {
        let mut live = self.lock();
        let unended = live.iter_mut().filter(|(_, run)| run.phase != Phase::Settling);
        unended
            .map(|(key, run)| {
                run.phase = Phase::Settling;
                (key.clone(), Arc::clone(&run.message))
            })
            .collect()
    }

    /// The place of this run among all that were taken in hand; `None` if it is out of our hands.
    pub(crate) fn place(&self, key: &RunKey) -> Option<u64> {
        self.lock().get(key).map(|run| run.place)
    }

    /// The unique locks that must not end before their tasks do.
    pub(crate) fn held_locks(&self) -> Vec<HeldLock> {
        let live = self.lock();
        let extended = live.iter().filter(|(_, run)| run.extends_lock);
        extended.map(|(run, live)| HeldLock { run: run.clone(), key: live.message.unique_key.clone() }).collect()
    }

    /// Everything in hand, whose leases are to be extended.
    pub(crate) fn keys(&self) -> Vec<RunKey> {
        self.lock().keys().cloned().collect()
    }

    /// Whether nothing is in hand.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// What runs, as others see it.
    pub(crate) fn shown(&self, server: &ServerName) -> Vec<WorkerInfo> {
        let live = self.lock();
        let running = live.iter().filter(|(_, run)| run.phase == Phase::Running);
        running
            .map(|(key, run)| WorkerInfo {
                host: server.host.clone(),
                pid: i32::try_from(server.pid).unwrap_or(0),
                server_id: server.server_id.clone(),
                task_id: key.id.as_str().to_owned(),
                task_type: run.message.r#type.clone(),
                task_payload: shown_payload(&run.message.payload),
                queue: key.queue.as_str().to_owned(),
                start_time: Some(run.since.into()),
                deadline: Some(Limit::of(&run.message, run.since).moment().into()),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used_by(&self) -> MutexGuard<'_, HashMap<QueueName, usize>> {
        self.used_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown_payload(payload: &Bytes) -> Bytes {
    payload.slice(..payload.len().min(SHOWN_PAYLOAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::{Run, RunToken},
        task::Extra,
    };

    fn attempt(queue: &str, id: &str) -> Attempt {
        let key = RunKey {
            queue: QueueName::from_wire(queue),
            id: TaskId::from_wire(id),
            token: RunToken(1),
            server: 0,
            row: 0,
        };
        let message = TaskMessage { payload: vec![7; 5000].into(), timeout: 60, ..TaskMessage::default() };
        Attempt::from(Run { key, message: Ok(message), crashes: 0, extra: Extra::default(), waited: None })
    }

    #[test]
    fn tasks_of_one_id_in_two_queues_live_side_by_side() {
        let runs = Runs::new(4);
        let (a, b) = (attempt("a", "same"), attempt("b", "same"));
        for attempt in [&a, &b] {
            runs.hold(attempt, Utc::now());
            assert!(runs.start(&attempt.key, false).is_some());
        }
        assert_eq!((runs.running(), runs.free()), (2, 2));
        assert!(runs.settling(&a.key));
        runs.forget(&a.key);
        // The other one is still extended, and can still be cancelled.
        assert_eq!(runs.keys(), std::slice::from_ref(&b.key));
        assert_eq!(runs.cancel(&TaskId::from_wire("same")), 1);
        assert!(!runs.is_empty());
    }

    #[test]
    fn a_lost_run_is_stopped_and_its_outcome_unwanted() {
        let runs = Runs::new(1);
        let a = attempt("a", "1");
        runs.hold(&a, Utc::now());
        let stop = runs.start(&a.key, false).unwrap();
        assert!(runs.lose(&a.key));
        assert_eq!((stop.is_asked(), stop.why()), (true, Why::Lost));
        assert!(!runs.settling(&a.key));
        // Its slot is free when its job has ended, not before.
        assert_eq!(runs.free(), 0);
        assert_eq!(runs.running_of(&a.key.queue), 1);
        runs.release(&a.key.queue, false);
        assert_eq!((runs.free(), runs.running_of(&a.key.queue)), (1, 0));
    }

    #[test]
    fn an_extension_that_was_overtaken_by_the_outcome_loses_nothing() {
        let runs = Runs::new(1);
        let a = attempt("a", "1");
        runs.hold(&a, Utc::now());
        let stop = runs.start(&a.key, false).unwrap();
        assert!(runs.settling(&a.key));
        assert!(!runs.lose(&a.key));
        assert!(!stop.is_asked());
        assert_eq!(runs.keys().len(), 1);
        // Handing back what has not ended leaves what has ended alone.
        assert!(runs.take_unended().is_empty());
    }

    #[test]
    fn only_locks_that_ask_for_it_are_extended() {
        let runs = Runs::new(4);
        for (id, unique_key, unique_extend) in [("1", "k1", true), ("2", "k2", false), ("3", "", true)] {
            let mut attempt = attempt("a", id);
            attempt.extra.unique_extend = unique_extend;
            let message = TaskMessage { unique_key: unique_key.to_owned(), ..TaskMessage::default() };
            attempt.message = Arc::new(message);
            runs.hold(&attempt, Utc::now());
        }
        let keys: Vec<_> = runs.held_locks().into_iter().map(|lock| (lock.run.id.to_string(), lock.key)).collect();
        assert_eq!(keys, [("1".to_owned(), "k1".to_owned())]);
    }

    #[test]
    fn others_see_no_more_than_a_kilobyte_of_a_payload() {
        let runs = Runs::new(1);
        let a = attempt("a", "1");
        runs.hold(&a, Utc::now());
        let server = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
        assert!(runs.shown(&server).is_empty());
        runs.start(&a.key, false).unwrap();
        assert_eq!(runs.shown(&server)[0].task_payload.len(), 1024);
    }
}

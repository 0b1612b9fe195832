//! The tasks in a server's hands, from their dequeue until the broker has taken their outcome.
//!
//! Keyed by run, not by task id: tasks of one id may run at the same time in different queues. The
//! lease of everything in here is extended; what leaves in any other way than by an outcome was lost.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::{
    attempt::Attempt,
    attempt_deadline::AttemptDeadline,
    stop::{Stop, Why},
};
use crate::{
    broker::{HeldLock, RunKey, ServerName, Settlement},
    task::{QueueName, TaskId, WorkerInfo},
};

/// Longest payload that is shown to others.
const SHOWN_PAYLOAD: usize = 1024;

/// The tasks in hand, and the slots that the running ones take.
#[derive(Debug)]
pub(crate) struct ActiveRuns {
    live: Mutex<HashMap<RunKey, Arc<ActiveRun>>>,
    slots: usize,
    used: AtomicUsize,
    /// Slots that each queue's tasks take; no entry = none.
    used_by: Mutex<HashMap<QueueName, usize>>,
    /// How many were taken in hand so far.
    held: AtomicU64,
    /// The quarantined task that was started and whose outcome the broker has not taken: a death before that is charged to it.
    quarantined: Mutex<Option<RunKey>>,
    /// A slot became free; for the fetcher alone.
    freed: Notify,
    /// The last slot became free.
    emptied: Notify,
}

/// One task in hand.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    pub(crate) attempt: Attempt,
    pub(crate) stop: Stop,
    since: DateTime<Utc>,
    /// Its place among all that were taken in hand, the first one first.
    pub(crate) place: u64,
    phase: AtomicU8,
    /// What becomes of its task, once the attempt has ended; hooks may still be told of it.
    decided: Mutex<Option<Settlement>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Dequeued, not started.
    Held,
    Running,
    /// Ended, and the broker has not said so yet.
    Settling,
    /// Not ours any more.
    Lost,
}

impl ActiveRun {
    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    /// Whether it was started, has not ended and is ours.
    pub(crate) fn is_running(&self) -> bool {
        self.is(Phase::Running)
    }

    /// Whether its lease may have been used up by `part`, by either clock: the wall clock may have stepped back meanwhile, and the other
    /// one does not see that the machine slept.
    pub(crate) fn is_late(&self, now: DateTime<Utc>, part: Duration) -> bool {
        let began = DateTime::from_timestamp_nanos(self.attempt.key.token.0);
        self.attempt.asked.elapsed() >= part || (now - began).to_std().is_ok_and(|since| since >= part)
    }

    /// Whether nobody has settled it and it is still ours.
    fn is_unended(&self) -> bool {
        self.phase.load(Ordering::Acquire) < Phase::Settling as u8
    }

    /// Goes on to `next`, unless it has ended or was lost before. Of several who try one succeeds.
    fn go_on(&self, next: Phase) -> bool {
        let may = |phase| (phase < Phase::Settling as u8).then_some(next as u8);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, may).is_ok()
    }

    /// The task's job has ended, or it was never started: its outcome is next. `false` if it was lost or requeued, and
    /// nobody waits for its outcome.
    pub(crate) fn settling(&self) -> bool {
        self.go_on(Phase::Settling)
    }

    /// The attempt has ended so.
    pub(crate) fn decide(&self, settlement: Settlement) {
        *self.decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(settlement);
    }

    /// Takes what becomes of its task, if the attempt has ended. The caller settles it.
    pub(crate) fn decided(&self) -> Option<Settlement> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether its unique lock must last as long as it runs.
    fn extends_lock(&self) -> bool {
        self.attempt.extra.unique_extend && !self.attempt.message.unique_key.is_empty()
    }
}

impl ActiveRuns {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            live: Mutex::default(),
            slots,
            used: AtomicUsize::new(0),
            used_by: Mutex::default(),
            held: AtomicU64::new(0),
            quarantined: Mutex::default(),
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

    /// Whether a quarantined task was started and the broker has not taken its outcome.
    pub(crate) fn quarantined_runs(&self) -> bool {
        self.quarantined().is_some()
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

    /// Takes dequeued tasks in hand.
    pub(crate) fn hold(&self, attempts: impl IntoIterator<Item = Attempt>, now: DateTime<Utc>) -> Vec<Arc<ActiveRun>> {
        let hold = |attempt| ActiveRun {
            attempt,
            stop: Stop::new(),
            since: now,
            place: self.held.fetch_add(1, Ordering::AcqRel),
            phase: AtomicU8::new(Phase::Held as u8),
            decided: Mutex::default(),
        };
        let held: Vec<Arc<ActiveRun>> = attempts.into_iter().map(hold).map(Arc::new).collect();
        self.lock().extend(held.iter().map(|task| (task.attempt.key.clone(), Arc::clone(task))));
        held
    }

    /// Gives a held task a slot; `false` if it was lost meanwhile.
    pub(crate) fn start(&self, task: &ActiveRun) -> bool {
        if !task.go_on(Phase::Running) {
            return false;
        }
        self.used.fetch_add(1, Ordering::AcqRel);
        let mut used_by = self.used_by();
        match used_by.get_mut(&task.attempt.key.queue) {
            Some(used) => *used += 1,
            None => drop(used_by.insert(task.attempt.key.queue.clone(), 1)),
        }
        if task.attempt.is_quarantined() {
            *self.quarantined() = Some(task.attempt.key.clone());
        }
        true
    }

    /// Gives the slot of a task back.
    pub(crate) fn release(&self, task: &ActiveRun) {
        if task.is(Phase::Lost) {
            self.end_quarantine(task);
        }
        let queue = &task.attempt.key.queue;
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

    /// The broker took the outcomes, or another server has the tasks: these runs are over here.
    pub(crate) fn forget<'k>(&self, keys: impl IntoIterator<Item = &'k RunKey>) {
        let mut live = self.lock();
        let gone: Vec<_> = keys.into_iter().filter_map(|key| live.remove(key)).collect();
        drop(live);
        gone.iter().for_each(|task| self.end_quarantine(task));
    }

    /// Lets the next quarantined task come if `task` was the one.
    fn end_quarantine(&self, task: &ActiveRun) {
        if task.attempt.is_quarantined() && self.quarantined().take_if(|key| *key == task.attempt.key).is_some() {
            self.poke();
        }
    }

    /// The broker says that the run is not ours any more. Stops it at once; `false` if its outcome was on the way, which
    /// then gets an answer of its own.
    pub(crate) fn lose(&self, key: &RunKey) -> bool {
        let mut live = self.lock();
        match live.get(key) {
            Some(run) if run.go_on(Phase::Lost) => {
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
        let running = live.iter().filter(|(key, run)| key.id == *id && run.is_unended());
        running.map(|(_, run)| run.stop.stop(Why::Cancelled)).count()
    }

    /// Stops everything that has not ended.
    pub(crate) fn stop_all(&self, why: Why) {
        for run in self.lock().values().filter(|run| run.is_unended()) {
            run.stop.stop(why);
        }
    }

    /// Stops everything and forgets it: outcomes are discarded.
    pub(crate) fn abandon(&self) {
        self.stop_all(Why::Lost);
        for (_, run) in self.lock().drain() {
            run.go_on(Phase::Lost);
        }
    }

    /// What nobody has settled.
    pub(crate) fn unended(&self) -> Vec<Arc<ActiveRun>> {
        self.lock().values().filter(|run| run.is_unended()).cloned().collect()
    }

    /// The unique locks that must not end before their tasks do.
    pub(crate) fn held_locks(&self) -> Vec<HeldLock> {
        let live = self.lock();
        let extended = live.iter().filter(|(_, run)| run.extends_lock());
        extended.map(|(key, run)| HeldLock { run: key.clone(), key: run.attempt.message.unique_key.clone() }).collect()
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
        let running = live.iter().filter(|(_, run)| run.is_running());
        running
            .map(|(key, run)| (key, run.since, &run.attempt.message))
            .map(|(key, since, message)| WorkerInfo {
                host: server.host.clone(),
                pid: i32::try_from(server.pid).unwrap_or(0),
                server_id: server.server_id.clone(),
                task_id: key.id.as_str().to_owned(),
                task_type: message.r#type.clone(),
                task_payload: shown_payload(&message.payload),
                queue: key.queue.as_str().to_owned(),
                start_time: Some(since.into()),
                deadline: Some(AttemptDeadline::of(message, since).moment().into()),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Arc<ActiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quarantined(&self) -> MutexGuard<'_, Option<RunKey>> {
        self.quarantined.lock().unwrap_or_else(PoisonError::into_inner)
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
    use std::time::Instant;

    use super::*;
    use crate::{
        broker::{Run, RunToken},
        task::{Extra, TaskMessage},
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
        let extra = Extra::default();
        Attempt::from(Run { key, message: Ok(message), crashes: 0, extra, waited: None, asked: Instant::now() })
    }

    #[test]
    fn tasks_of_one_id_in_two_queues_live_side_by_side() {
        let runs = ActiveRuns::new(4);
        let held = runs.hold([attempt("a", "same"), attempt("b", "same")], Utc::now());
        assert!(held.iter().all(|task| runs.start(task)));
        assert_eq!((runs.running(), runs.free()), (2, 2));
        assert!(held[0].settling());
        runs.forget([&held[0].attempt.key]);
        // The other one is still extended, and can still be cancelled.
        assert_eq!(runs.keys(), std::slice::from_ref(&held[1].attempt.key));
        assert_eq!(runs.cancel(&TaskId::from_wire("same")), 1);
        assert!(!runs.is_empty());
    }

    #[test]
    fn a_task_is_late_by_the_clock_that_saw_more_of_its_lease() {
        let taken = DateTime::from_timestamp_nanos(1);
        let part = Duration::from_secs(3_600);
        let task = ActiveRuns::new(1).hold([attempt("a", "1")], taken).remove(0);
        assert!(!task.is_late(taken, part) && !task.is_late(taken - part, part));
        assert!(task.is_late(taken + part, part), "the machine slept");
        std::thread::sleep(Duration::from_millis(1));
        assert!(task.is_late(taken - part, Duration::from_millis(1)), "the wall clock stepped back");
    }

    #[test]
    fn a_lost_run_is_stopped_and_its_outcome_unwanted() {
        let runs = ActiveRuns::new(1);
        let a = runs.hold([attempt("a", "1")], Utc::now()).remove(0);
        let queue = &a.attempt.key.queue;
        assert!(runs.start(&a));
        assert!(runs.lose(&a.attempt.key));
        assert_eq!((a.stop.is_asked(), a.stop.why()), (true, Why::Lost));
        assert!(!a.settling());
        // Its slot is free when its job has ended, not before.
        assert_eq!((runs.free(), runs.running_of(queue)), (0, 1));
        runs.release(&a);
        assert_eq!((runs.free(), runs.running_of(queue)), (1, 0));
    }

    /// Between the end of a job and its settlement a death of the worker still counts as one of the task.
    #[test]
    fn the_next_quarantined_task_may_start_when_the_broker_has_the_outcome_of_the_last() {
        let runs = ActiveRuns::new(4);
        let quarantined = |id| Attempt { crashes: Extra::DEFAULT_MAX_CRASHES - 1, ..attempt("a", id) };
        let held = runs.hold([quarantined("1"), quarantined("2"), quarantined("3")], Utc::now());
        assert!(!runs.quarantined_runs() && runs.start(&held[0]) && runs.quarantined_runs());
        // One that came beside it goes back without having begun.
        assert!(held[1].settling());
        runs.forget([&held[1].attempt.key]);
        assert!(runs.quarantined_runs());
        assert!(held[0].settling());
        runs.release(&held[0]);
        assert!(runs.quarantined_runs(), "its outcome is not settled");
        runs.forget([&held[0].attempt.key]);
        assert!(!runs.quarantined_runs());
        // Of one that was lost only its job is waited for.
        assert!(runs.start(&held[2]) && runs.lose(&held[2].attempt.key) && runs.quarantined_runs());
        runs.release(&held[2]);
        assert!(!runs.quarantined_runs());
    }

    #[test]
    fn an_extension_that_was_overtaken_by_the_outcome_loses_nothing() {
        let runs = ActiveRuns::new(1);
        let a = runs.hold([attempt("a", "1")], Utc::now()).remove(0);
        assert!(runs.start(&a) && a.settling());
        assert!(!runs.lose(&a.attempt.key));
        assert!(!a.stop.is_asked());
        assert_eq!(runs.keys().len(), 1);
        // Requeuing what has not ended leaves what has ended alone.
        assert!(runs.unended().is_empty());
    }

    #[test]
    fn what_was_lost_before_its_start_does_not_start_and_nobody_settles_twice() {
        let runs = ActiveRuns::new(2);
        let held = runs.hold([attempt("a", "1"), attempt("a", "2")], Utc::now());
        assert!(runs.lose(&held[0].attempt.key));
        assert!(!runs.start(&held[0]) && !held[0].settling());
        assert!(runs.start(&held[1]));
        let unended = runs.unended();
        assert!(unended.len() == 1 && unended[0].settling());
        // Its job ends after it was requeued.
        assert!(!held[1].settling());
        runs.abandon();
        assert!(runs.is_empty());
    }

    #[test]
    fn only_locks_that_ask_for_it_are_extended() {
        let runs = ActiveRuns::new(4);
        for (id, unique_key, unique_extend) in [("1", "k1", true), ("2", "k2", false), ("3", "", true)] {
            let mut attempt = attempt("a", id);
            attempt.extra.unique_extend = unique_extend;
            let message = TaskMessage { unique_key: unique_key.to_owned(), ..TaskMessage::default() };
            attempt.message = Arc::new(message);
            runs.hold([attempt], Utc::now());
        }
        let keys: Vec<_> = runs.held_locks().into_iter().map(|lock| (lock.run.id.to_string(), lock.key)).collect();
        assert_eq!(keys, [("1".to_owned(), "k1".to_owned())]);
    }

    #[test]
    fn others_see_no_more_than_a_kilobyte_of_a_payload() {
        let runs = ActiveRuns::new(1);
        let a = runs.hold([attempt("a", "1")], Utc::now()).remove(0);
        let server = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
        assert!(runs.shown(&server).is_empty());
        assert!(runs.start(&a));
        assert_eq!(runs.shown(&server)[0].task_payload.len(), 1024);
    }
}

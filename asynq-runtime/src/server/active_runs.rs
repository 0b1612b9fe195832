//! The tasks that a server holds, from their dequeue until the broker has taken their outcome.
//!
//! They are keyed by run, not by task id: tasks of one id may run at the same time in different queues. The lease of each
//! is extended. A run that leaves the map in any other way than by an outcome was lost.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    attempt::Attempt,
    attempt_deadline::AttemptDeadline,
    stop::{Stop, Why},
};
use crate::{
    broker::{Action, HeldLock, RunKey, SAME_CLOCK, ServerName},
    task::{QueueName, TaskId, WorkerInfo},
    until::until,
};

/// How many bytes of a payload are shown to other programs at most.
const PAYLOAD_EXCERPT: usize = 1024;

/// The tasks that a server holds, and the slots that the running ones take.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    live: Mutex<HashMap<RunKey, Arc<ActiveRun>>>,
    slots: usize,
    used: AtomicUsize,
    /// Slots that each queue's tasks take; no entry = none.
    used_by: Option<Mutex<HashMap<QueueName, usize>>>,
    /// How many tasks the server has held so far.
    dequeued: AtomicU64,
    /// The quarantined task that was started and whose outcome the broker has not taken: a crash before that is charged to it.
    quarantined: Mutex<Option<RunKey>>,
    /// Notified when a slot becomes free; only the fetcher waits for it.
    freed: Notify,
    /// Notified when the last slot becomes free.
    emptied: Notify,
}

/// One task that the server holds.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    pub(crate) attempt: Attempt,
    pub(crate) stop: Stop,
    /// When the server got the task, by the broker's clock at that time and by one that cannot be set.
    since: (DateTime<Utc>, Instant),
    /// The number of this task among all that the server has held, in the order of their dequeues.
    pub(crate) place: u64,
    phase: AtomicU8,
    /// The action for the task, once its attempt has ended; hooks may still run then.
    decided: Mutex<Option<Action>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Dequeued, not started.
    Dequeued,
    Running,
    /// Ended, and the broker has not taken the outcome yet.
    Settling,
    /// The lease has passed to another server, or the task is gone.
    Lost,
}

impl ActiveRun {
    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    /// Returns whether the run was started, and has neither ended nor been lost.
    pub(crate) fn is_running(&self) -> bool {
        self.is(Phase::Running)
    }

    /// Returns whether `part` of the lease may have passed by either clock: the wall clock may have stepped back meanwhile, and
    /// the monotonic clock does not count the time in which the machine slept.
    pub(crate) fn is_late(&self, now: DateTime<Utc>, part: Duration) -> bool {
        let Attempt { asked, asked_at, .. } = &self.attempt;
        asked.elapsed() >= part || (now - asked_at).to_std().is_ok_and(|since| since >= part)
    }

    /// Returns when the run began and when it must end, by the broker's clock, which shows `now`. A timer ends the attempt, so both times
    /// move with a clock that was set meanwhile.
    fn times(&self, now: DateTime<Utc>) -> [DateTime<Utc>; 2] {
        let (since, held) = self.since;
        let passed = TimeDelta::from_std(held.elapsed()).unwrap_or_default();
        let moved = now.signed_duration_since(since).checked_sub(&passed).unwrap_or_default();
        let moved = if moved.abs() > SAME_CLOCK { moved } else { TimeDelta::zero() };
        let ends = AttemptDeadline::of(&self.attempt.message, since).at;
        [since, ends].map(|at| at.checked_add_signed(moved).unwrap_or(at))
    }

    /// Returns whether the run is neither settled nor lost.
    pub(crate) fn is_unended(&self) -> bool {
        self.phase.load(Ordering::Acquire) < Phase::Settling as u8
    }

    /// Changes the phase to `next`, unless the run has ended or was lost before. Of several concurrent calls one succeeds.
    fn advance(&self, next: Phase) -> bool {
        let may = |phase| (phase < Phase::Settling as u8).then_some(next as u8);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, may).is_ok()
    }

    /// Marks the run as ended, or as never started: its outcome is next. Returns `false` if the run was lost or requeued, so
    /// that its outcome is not wanted.
    pub(crate) fn settling(&self) -> bool {
        self.advance(Phase::Settling)
    }

    /// Keeps the action with which the attempt has ended.
    pub(crate) fn decide(&self, action: Action) {
        *self.decided.lock() = Some(action);
    }

    /// Takes the action for the task, if its attempt has ended. The caller settles the task.
    pub(crate) fn decided(&self) -> Option<Action> {
        self.decided.lock().take()
    }
}

impl ActiveRuns {
    /// Creates the state of a server with so many slots, without a task. Slots are counted per queue if some queue has a limit.
    pub(crate) fn new(slots: usize, has_limits: bool) -> Self {
        Self { slots, used_by: has_limits.then(Mutex::default), ..Self::default() }
    }

    /// Returns how many more tasks could start.
    pub(crate) fn free(&self) -> usize {
        self.slots.saturating_sub(self.running())
    }

    /// Returns how many slots are taken.
    pub(crate) fn running(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Returns how many slots the tasks of `queue` take; 0 if no queue has a limit.
    pub(crate) fn running_of(&self, queue: &QueueName) -> usize {
        self.used_by.as_ref().and_then(|used_by| used_by.lock().get(queue).copied()).unwrap_or_default()
    }

    /// Returns whether a quarantined task was started and the broker has not taken its outcome.
    pub(crate) fn quarantined_runs(&self) -> bool {
        self.quarantined.lock().is_some()
    }

    /// Waits until a slot has become free since the last call, or until [`wake_fetcher`](Self::wake_fetcher) is called.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Wakes the fetcher.
    pub(crate) fn wake_fetcher(&self) {
        self.freed.notify_one();
    }

    /// Waits until nothing runs.
    pub(crate) async fn emptied(&self) {
        until(&self.emptied, || (self.running() == 0).then_some(())).await;
    }

    /// Adds tasks that the server got at `since`, by the broker's clock and by one that cannot be set.
    pub(crate) fn hold(
        &self,
        attempts: impl IntoIterator<Item = Attempt>,
        since: (DateTime<Utc>, Instant),
    ) -> Vec<Arc<ActiveRun>> {
        let hold = |attempt| ActiveRun {
            attempt,
            stop: Stop::default(),
            since,
            place: self.dequeued.fetch_add(1, Ordering::AcqRel),
            phase: AtomicU8::new(Phase::Dequeued as u8),
            decided: Mutex::default(),
        };
        let tasks: Vec<Arc<ActiveRun>> = attempts.into_iter().map(hold).map(Arc::new).collect();
        self.live.lock().extend(tasks.iter().map(|task| (task.attempt.key.clone(), Arc::clone(task))));
        tasks
    }

    /// Gives a held task a slot. Returns `false` if the task was lost meanwhile.
    pub(crate) fn start(&self, task: &ActiveRun) -> bool {
        if !task.advance(Phase::Running) {
            return false;
        }
        self.used.fetch_add(1, Ordering::AcqRel);
        if let Some(used_by) = &self.used_by {
            *used_by.lock().entry(task.attempt.key.queue.clone()).or_default() += 1;
        }
        if task.attempt.is_quarantined() {
            *self.quarantined.lock() = Some(task.attempt.key.clone());
        }
        true
    }

    /// Frees the slot of a task.
    pub(crate) fn release(&self, task: &ActiveRun) {
        if task.is(Phase::Lost) {
            self.end_quarantine(task);
        }
        let queue = &task.attempt.key.queue;
        if let Some(mut used_by) = self.used_by.as_ref().map(Mutex::lock)
            && let Some(used) = used_by.get_mut(queue)
        {
            *used -= 1;
            if *used == 0 {
                used_by.remove(queue);
            }
        }
        if self.used.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.notify_waiters();
        }
        self.wake_fetcher();
    }

    /// Removes runs whose outcomes the broker took, or whose tasks another server has.
    pub(crate) fn forget<'k>(&self, keys: impl IntoIterator<Item = &'k RunKey>) {
        let mut live = self.live.lock();
        let gone: Vec<_> = keys.into_iter().filter_map(|key| live.remove(key)).collect();
        drop(live);
        gone.iter().for_each(|task| self.end_quarantine(task));
    }

    /// Lets the next quarantined task come if `task` was the quarantined one.
    fn end_quarantine(&self, task: &ActiveRun) {
        if task.attempt.is_quarantined() && self.quarantined.lock().take_if(|key| *key == task.attempt.key).is_some() {
            self.wake_fetcher();
        }
    }

    /// Stops a run at once, because the broker says that this server has lost its lease. Returns `false` if the outcome of the
    /// run is on its way, which then gets an answer of its own.
    pub(crate) fn lose(&self, key: &RunKey) -> bool {
        let mut live = self.live.lock();
        match live.get(key) {
            Some(run) if run.advance(Phase::Lost) => {
                run.stop.stop(Why::Lost);
                live.remove(key);
                true
            }
            _ => false,
        }
    }

    /// Cancels the runs of tasks with this id, in whatever queues, and returns the queues.
    pub(crate) fn cancel(&self, id: &TaskId) -> Vec<QueueName> {
        let live = self.live.lock();
        let running = live.iter().filter(|(key, run)| key.id == *id && run.is_unended());
        let cancelled = running.map(|(key, run)| {
            run.stop.stop(Why::Cancelled);
            key.queue.clone()
        });
        cancelled.collect()
    }

    /// Stops all runs that have not ended.
    pub(crate) fn stop_all(&self, why: Why) {
        for run in self.live.lock().values().filter(|run| run.is_unended()) {
            run.stop.stop(why);
        }
    }

    /// Stops all runs and removes them: their outcomes are discarded.
    pub(crate) fn abandon(&self) {
        self.stop_all(Why::Lost);
        for (_, run) in self.live.lock().drain() {
            run.advance(Phase::Lost);
        }
    }

    /// Returns the tasks that are neither settled nor lost.
    pub(crate) fn unended(&self) -> Vec<Arc<ActiveRun>> {
        self.live.lock().values().filter(|run| run.is_unended()).cloned().collect()
    }

    /// Returns the unique locks that must not end before their tasks do.
    pub(crate) fn held_locks(&self) -> Vec<HeldLock> {
        let live = self.live.lock();
        let extended = live.iter().filter(|(_, run)| run.attempt.extends_lock());
        extended.map(|(key, run)| HeldLock { run: key.clone(), key: run.attempt.message.unique_key.clone() }).collect()
    }

    /// Returns all runs, whose leases are to be extended.
    pub(crate) fn keys(&self) -> Vec<RunKey> {
        self.live.lock().keys().cloned().collect()
    }

    /// Returns whether the server holds no task.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.lock().is_empty()
    }

    /// Returns the running tasks as beats show them to other programs. `now` is the broker's time.
    pub(crate) fn worker_infos(&self, server: &ServerName, now: DateTime<Utc>) -> Vec<WorkerInfo> {
        let live = self.live.lock();
        let running = live.iter().filter(|(_, run)| run.is_running());
        running
            .map(|(key, run)| (key, run.times(now), &run.attempt.message))
            .map(|(key, [since, ends], message)| WorkerInfo {
                host: server.host.clone(),
                pid: i32::try_from(server.pid).unwrap_or(0),
                server_id: server.server_id.clone(),
                task_id: key.id.as_str().to_owned(),
                task_type: message.r#type.clone(),
                task_payload: payload_excerpt(&message.payload),
                queue: key.queue.as_str().to_owned(),
                start_time: Some(since.into()),
                deadline: Some(ends.into()),
            })
            .collect()
    }
}

/// Returns the beginning of a payload. It ends between two characters, because asynqmon shows no text with a part of one.
fn payload_excerpt(payload: &Bytes) -> Bytes {
    let mut end = payload.len().min(PAYLOAD_EXCERPT);
    while end > PAYLOAD_EXCERPT - 3 && payload.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    payload.slice(..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::{Run, RunToken},
        task::{Extra, TaskMessage},
    };

    fn attempt(queue: &str, id: &str) -> Attempt {
        let (queue, id) = (QueueName::from_wire(queue), TaskId::from_wire(id));
        let key = RunKey { queue, id, token: RunToken(1), server: 0, row: 0 };
        let message = TaskMessage { payload: vec![7; 5000].into(), timeout: 60, ..TaskMessage::default() };
        let (extra, asked, taken_at) = (Extra::default(), Instant::now(), DateTime::from_timestamp_nanos(1));
        let asked_at = taken_at;
        Attempt::from(Run { key, message: Ok(message), crashes: 0, extra, waited: None, asked, asked_at, taken_at })
    }

    fn server() -> ServerName {
        ServerName { host: "h".into(), pid: 1, server_id: "s".into() }
    }

    #[test]
    fn tasks_of_one_id_in_two_queues_live_side_by_side() {
        let runs = ActiveRuns::new(4, true);
        let tasks = runs.hold([attempt("a", "same"), attempt("b", "same")], (Utc::now(), Instant::now()));
        assert!(tasks.iter().all(|task| runs.start(task)));
        assert_eq!((runs.running(), runs.free()), (2, 2));
        assert!(tasks[0].settling() && runs.cancel(&TaskId::from_wire("other")).is_empty());
        assert_eq!(runs.cancel(&TaskId::from_wire("same")), [QueueName::from_wire("b")]);
        runs.forget([&tasks[0].attempt.key]);
        // The other run is still extended.
        assert_eq!(runs.keys(), std::slice::from_ref(&tasks[1].attempt.key));
        assert!(!runs.is_empty());
    }

    #[test]
    fn a_task_is_late_by_the_clock_on_which_more_of_its_lease_passed() {
        let taken = DateTime::from_timestamp_nanos(1);
        let part = Duration::from_secs(3_600);
        let task = ActiveRuns::new(1, true).hold([attempt("a", "1")], (taken, Instant::now())).remove(0);
        assert!(!task.is_late(taken, part) && !task.is_late(taken - part, part));
        assert!(task.is_late(taken + part, part), "the machine slept");
        std::thread::sleep(Duration::from_millis(1));
        assert!(task.is_late(taken - part, Duration::from_millis(1)), "the wall clock stepped back");
    }

    #[test]
    fn a_lost_run_is_stopped_and_its_outcome_unwanted() {
        let runs = ActiveRuns::new(2, true);
        let tasks = runs.hold([attempt("a", "1"), attempt("a", "2")], (Utc::now(), Instant::now()));
        let (a, queue) = (&tasks[0], &tasks[0].attempt.key.queue);
        assert!(tasks.iter().all(|task| runs.start(task)));
        assert!(runs.lose(&a.attempt.key));
        assert_eq!((a.stop.is_requested(), a.stop.why()), (true, Why::Lost));
        assert!(!a.settling() && runs.keys() == [tasks[1].attempt.key.clone()]);
        // The slot becomes free when the job has ended, not before.
        assert_eq!((runs.free(), runs.running_of(queue)), (0, 2));
        runs.release(a);
        assert_eq!((runs.free(), runs.running_of(queue)), (1, 1), "the limit of the queue still counts the other");
        runs.release(&tasks[1]);
        assert_eq!((runs.free(), runs.running_of(queue)), (2, 0));
    }

    /// Between the end of a job and its settlement a crash of the worker still counts as one of the task.
    #[test]
    fn the_next_quarantined_task_may_start_when_the_broker_has_the_outcome_of_the_last() {
        let runs = ActiveRuns::new(4, true);
        let quarantined = |id| Attempt { crashes: Extra::DEFAULT_MAX_CRASHES - 1, ..attempt("a", id) };
        let tasks = runs.hold([quarantined("1"), quarantined("2"), quarantined("3")], (Utc::now(), Instant::now()));
        assert!(!runs.quarantined_runs() && runs.start(&tasks[0]) && runs.quarantined_runs());
        // A quarantined task that came beside it is requeued without having begun.
        assert!(tasks[1].settling());
        runs.forget([&tasks[1].attempt.key]);
        assert!(runs.quarantined_runs());
        assert!(tasks[0].settling());
        runs.release(&tasks[0]);
        assert!(runs.quarantined_runs(), "its outcome is not settled");
        runs.forget([&tasks[0].attempt.key]);
        assert!(!runs.quarantined_runs());
        // The next quarantined task waits only for the job of a lost one to end.
        assert!(runs.start(&tasks[2]) && runs.lose(&tasks[2].attempt.key) && runs.quarantined_runs());
        runs.release(&tasks[2]);
        assert!(!runs.quarantined_runs());
    }

    #[test]
    fn an_extension_that_was_overtaken_by_the_outcome_loses_nothing() {
        let runs = ActiveRuns::new(1, true);
        let a = runs.hold([attempt("a", "1")], (Utc::now(), Instant::now())).remove(0);
        assert!(runs.start(&a) && a.settling());
        assert!(!runs.lose(&a.attempt.key));
        assert!(!a.stop.is_requested());
        assert_eq!(runs.keys().len(), 1);
        // Requeuing the unended runs leaves the ended ones alone.
        assert!(runs.unended().is_empty());
    }

    #[test]
    fn a_task_that_is_lost_before_its_start_does_not_start_and_each_task_settles_once() {
        let runs = ActiveRuns::new(2, true);
        let tasks = runs.hold([attempt("a", "1"), attempt("a", "2")], (Utc::now(), Instant::now()));
        assert!(runs.lose(&tasks[0].attempt.key));
        assert!(!runs.start(&tasks[0]) && !tasks[0].settling());
        assert!(runs.start(&tasks[1]));
        let unended = runs.unended();
        assert!(unended.len() == 1 && unended[0].settling());
        // The job ends after its task was requeued.
        assert!(!tasks[1].settling());
        let late = runs.hold([attempt("a", "3")], (Utc::now(), Instant::now())).remove(0);
        runs.abandon();
        assert!(runs.is_empty() && late.stop.why() == Why::Lost && !late.settling(), "its outcome is discarded");
    }

    #[test]
    fn only_locks_that_ask_for_it_are_extended() {
        let runs = ActiveRuns::new(4, true);
        for (id, unique_key, unique_extend) in [("1", "k1", true), ("2", "k2", false), ("3", "", true)] {
            let mut attempt = attempt("a", id);
            attempt.extra.unique_extend = unique_extend;
            let message = TaskMessage { unique_key: unique_key.to_owned(), ..TaskMessage::default() };
            attempt.message = Arc::new(message);
            runs.hold([attempt], (Utc::now(), Instant::now()));
        }
        let keys: Vec<_> = runs.held_locks().into_iter().map(|lock| (lock.run.id.to_string(), lock.key)).collect();
        assert_eq!(keys, [("1".to_owned(), "k1".to_owned())]);
    }

    #[test]
    fn a_run_lasts_as_long_as_before_by_a_clock_that_was_set() {
        let (runs, began) = (ActiveRuns::new(1, true), Utc::now());
        assert!(runs.start(&runs.hold([attempt("a", "1")], (began, Instant::now()))[0]));
        for hours in [0, 1, -1] {
            let now = began + TimeDelta::hours(hours);
            let run = &runs.worker_infos(&server(), now)[0];
            // The attempt may take 60 s, and counts as stuck 10 s after its end.
            let is_stuck = [0, 80].map(|seconds| run.is_stuck(now + TimeDelta::seconds(seconds)));
            assert_eq!(is_stuck, [false, true], "{hours}");
        }
    }

    #[test]
    fn others_see_no_more_than_a_kilobyte_of_a_payload() {
        let runs = ActiveRuns::new(1, true);
        let a = runs.hold([attempt("a", "1")], (Utc::now(), Instant::now())).remove(0);
        let infos = || runs.worker_infos(&server(), Utc::now());
        assert!(infos().is_empty());
        assert!(runs.start(&a));
        assert_eq!(infos()[0].task_payload.len(), 1024);
    }

    #[test]
    fn the_shown_part_of_a_text_ends_between_two_characters() {
        for (text, length) in [("a", 1024), ("語", 1023), ("é", 1024), ("😀", 1024)] {
            assert_eq!(payload_excerpt(&text.repeat(2000).into()).len(), length, "{text}");
        }
        for (before, length) in [("a", 1021), ("aa", 1022), ("aaa", 1023)] {
            assert_eq!(payload_excerpt(&format!("{before}{}", "😀".repeat(300)).into()).len(), length, "{before}");
        }
        for (bytes, length) in [(vec![0x80_u8; 2000], 1021), (vec![0x80; 1024], 1024), (Vec::new(), 0)] {
            assert_eq!(payload_excerpt(&bytes.into()).len(), length, "bytes that are not text");
        }
    }
}

//! The broker contract for one queue, in plain collections.
//!
//! Times are Unix milliseconds. Redis keeps the times that Go programs read in whole seconds: `floor` rounds as the store does,
//! so that the model can be exact on both.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use asynq_runtime::{
    broker::{Action, Settled},
    task::TaskState,
};

use super::{
    facts::{DOUBT, Denied, Hold, Incoming, Lock, Phase, Task},
    step::{Change, RIPE_AFTER},
};

const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Clone)]
pub(super) struct Model {
    /// Whether times are kept in whole seconds, and locks by Redis's own clock.
    pub(super) is_redis: bool,
    pub(super) tasks: BTreeMap<String, Task>,
    /// The ids of pending tasks, in the order of dequeues.
    pub(super) pending: Vec<String>,
    pub(super) locks: BTreeMap<String, Lock>,
    /// The numbers of processed and failed tasks by day.
    pub(super) days: BTreeMap<i64, (u64, u64)>,
    pub(super) paused: bool,
    rows: u64,
}

impl Model {
    pub(super) fn new(is_redis: bool) -> Self {
        let (tasks, pending, locks, days) = Default::default();
        Self { is_redis, tasks, pending, locks, days, paused: false, rows: 0 }
    }

    /// A time as the store rounds it for Go.
    pub(super) fn floor(&self, ms: i64) -> i64 {
        if self.is_redis { ms - ms.rem_euclid(1000) } else { ms }
    }

    pub(super) fn task(&mut self, id: &str) -> &mut Task {
        self.tasks.get_mut(id).expect("the model knows the task")
    }

    /// The ids in the order of creation.
    pub(super) fn ids(&self) -> Vec<&str> {
        let mut ids: Vec<_> = self.tasks.iter().map(|(id, task)| (task.row, id.as_str())).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// The ids in `state` with their times, sorted by time.
    pub(super) fn in_state(&self, state: TaskState) -> Vec<(i64, &str)> {
        let of_state = self.tasks.iter().filter(|(_, task)| task.phase.state() == state);
        let mut ids: Vec<_> = of_state.map(|(id, task)| (task.phase.time(), id.as_str())).collect();
        ids.sort_unstable();
        ids
    }

    /// The tasks that wait in a group, by the time of joining it.
    pub(super) fn in_group(&self, group: &str) -> Vec<(i64, &str)> {
        let waiting = |task: &Task| !task.phase.in_set() && task.group.as_deref() == Some(group);
        let all = self.in_state(TaskState::Aggregating);
        all.into_iter().filter(|(_, id)| waiting(&self.tasks[*id])).collect()
    }

    pub(super) fn groups(&self) -> BTreeMap<String, u64> {
        let mut groups = BTreeMap::new();
        for task in self.tasks.values() {
            if let Phase::Aggregating { set: None, .. } = task.phase {
                *groups.entry(task.group.clone().expect("it waits in a group")).or_default() += 1;
            }
        }
        groups
    }

    /// The times at which something ends: leases, delays, retentions, locks, and the waiting in groups.
    pub(super) fn ends(&self) -> BTreeSet<i64> {
        let mut ends: BTreeSet<i64> = self.locks.values().map(|lock| lock.end).collect();
        for task in self.tasks.values() {
            match task.phase {
                Phase::Active { lease: end, .. } | Phase::Scheduled { due: end } | Phase::Retry { due: end } => {
                    ends.insert(end);
                }
                Phase::Completed { until } => {
                    ends.insert(until);
                }
                Phase::Aggregating { joined, .. } => {
                    ends.extend(RIPE_AFTER.map(|seconds| joined + seconds as i64 * 1000));
                }
                Phase::Pending { .. } | Phase::Archived { .. } => {}
            }
        }
        ends
    }

    /// Removes a task from its place; the caller must set `phase` next.
    fn leave(&mut self, id: &str) {
        self.pending.retain(|other| other != id);
    }

    /// Makes a task pending, at the tail.
    pub(super) fn append(&mut self, id: &str, now: i64) {
        self.leave(id);
        self.task(id).phase = Phase::Pending { since: now };
        self.pending.push(id.to_owned());
    }

    /// Makes a task pending, at the head.
    pub(super) fn prepend(&mut self, id: &str, now: i64) {
        self.leave(id);
        self.task(id).phase = Phase::Pending { since: now };
        self.pending.insert(0, id.to_owned());
    }

    pub(super) fn put(&mut self, id: &str, phase: Phase) {
        self.leave(id);
        self.task(id).phase = phase;
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.leave(id);
        self.free_lock(id);
        self.tasks.remove(id);
    }

    pub(super) fn hold(&self, key: &str, now: i64) -> Hold<'_> {
        let Some(lock) = self.locks.get(key) else { return Hold::Free };
        if !self.is_redis {
            return if lock.end <= now { Hold::Free } else { Hold::Held(&lock.holder) };
        }
        // Redis rounds a delay up to whole seconds.
        if now >= lock.end + 1000 {
            return Hold::Free;
        }
        let sure = lock.written.elapsed() + DOUBT;
        if lock.end - now > sure.as_millis() as i64 { Hold::Held(&lock.holder) } else { Hold::Doubtful }
    }

    pub(super) fn take_lock(&mut self, key: &str, holder: &str, end: i64) {
        self.locks.insert(key.to_owned(), Lock { holder: holder.to_owned(), end, written: Instant::now() });
    }

    /// Frees the lock of a task if the task holds it.
    pub(super) fn free_lock(&mut self, id: &str) {
        if let Some(key) = self.tasks[id].lock.clone() {
            self.locks.retain(|known, lock| *known != key || lock.holder != id);
        }
    }

    fn archive(&mut self, id: &str, now: i64) {
        let at = self.floor(now);
        self.put(id, Phase::Archived { at });
        if !self.tasks[id].keeps_lock {
            self.free_lock(id);
        }
    }

    pub(super) fn count(&mut self, now: i64, failed: bool) {
        let day = self.days.entry(now.div_euclid(DAY_MS)).or_default();
        day.0 += 1;
        day.1 += u64::from(failed);
    }

    /// The numbers of processed and failed tasks: of today, and of all days.
    pub(super) fn counters(&self, now: i64) -> ((u64, u64), (u64, u64)) {
        let today = self.days.get(&now.div_euclid(DAY_MS)).copied().unwrap_or_default();
        (today, self.days.values().fold((0, 0), |sum, day| (sum.0 + day.0, sum.1 + day.1)))
    }

    /// Admits a task, or returns the reason for a refusal and changes nothing. No lock of `task` is in doubt.
    pub(super) fn admit(&mut self, task: &Incoming, now: i64) -> Result<TaskState, Denied> {
        let Incoming { id, due, group, lock, .. } = task;
        if self.tasks.contains_key(id) {
            return Err(Denied::IdConflict);
        }
        if let Some((key, seconds)) = lock {
            match self.hold(key, now) {
                Hold::Held(holder) => return Err(Denied::Duplicate(holder.to_owned())),
                _ => self.take_lock(key, id, *due + *seconds as i64 * 1000),
            }
        }
        let phase = match group {
            _ if *due > now => Phase::Scheduled { due: *due },
            Some(_) => Phase::Aggregating { joined: self.floor(now), set: None },
            None => Phase::Pending { since: now },
        };
        self.rows += 1;
        let new = Task {
            row: self.rows,
            phase,
            lock: lock.as_ref().map(|(key, _)| key.clone()),
            keeps_lock: task.keeps_lock,
            group: group.clone(),
            retention: task.retention,
            retried: 0,
            crashes: 0,
            error: None,
            result: None,
            last: None,
        };
        self.tasks.insert(id.clone(), new);
        if phase.state() == TaskState::Pending {
            self.pending.push(id.clone());
        }
        Ok(phase.state())
    }

    /// Whether a run holds its task.
    pub(super) fn holds(&self, id: &str, run: usize) -> bool {
        self.tasks.get(id).is_some_and(|task| matches!(task.phase, Phase::Active { run: holder, .. } if holder == run))
    }

    /// The answer to an outcome of a run that does not hold its task; `None` where SQLite may recognise by the row that the id
    /// belongs to another task now.
    pub(super) fn refusal(&self, id: &str, run: usize, resent_done: Option<bool>) -> Option<Settled> {
        let resend = resent_done.is_some();
        let done = resent_done == Some(true);
        match self.tasks.get(id) {
            None if done => Some(Settled::Ok),
            None => Some(Settled::Gone),
            Some(task) if resend && task.last == Some(run) => Some(Settled::Ok),
            Some(_) if done && !self.is_redis => None,
            Some(_) => Some(Settled::Fenced),
        }
    }

    /// Applies an accepted outcome.
    pub(super) fn end(&mut self, id: &str, run: usize, action: &Action, now: i64) {
        let task = self.task(id);
        task.last = Some(run);
        if !matches!(action, Action::Requeue | Action::Defer { .. }) {
            task.crashes = 0;
        }
        match action {
            Action::Done => {
                self.remove(id);
                self.count(now, false);
            }
            Action::Complete { .. } | Action::Revoke { .. } => {
                let result = if let Action::Complete { result } = action { result.as_ref() } else { None };
                let retention = task.retention * 1000;
                if let Some(result) = result {
                    task.result = Some(String::from_utf8_lossy(result).into_owned());
                }
                let until = self.floor(now) + retention;
                self.put(id, Phase::Completed { until });
                self.free_lock(id);
                self.count(now, false);
            }
            Action::Retry { delay, counted, error, .. } => {
                task.retried += u32::from(*counted);
                task.error = error.clone().or(task.error.take());
                self.put(id, Phase::Retry { due: now + delay.as_millis() as i64 });
                if *counted {
                    self.count(now, true);
                }
            }
            Action::Defer { delay, error, .. } => {
                task.error = error.clone().or(task.error.take());
                self.put(id, Phase::Retry { due: now + delay.as_millis() as i64 });
            }
            Action::Archive { error, .. } => {
                task.error = Some(error.clone());
                self.archive(id, now);
                self.count(now, true);
            }
            Action::Requeue => self.prepend(id, now),
        }
    }

    /// Whether a change is allowed for a task in this phase.
    pub(super) fn fits(&self, change: Change, phase: Phase, now: i64) -> bool {
        use TaskState::{Active, Aggregating, Archived, Completed, Pending, Retry, Scheduled};
        let state = phase.state();
        !phase.in_set()
            && match change {
                Change::Run => matches!(state, Scheduled | Retry | Archived | Completed | Aggregating),
                Change::Archive => matches!(state, Pending | Scheduled | Retry | Completed | Aggregating),
                Change::Delete => state != Active,
                Change::Orphan => state == Active && phase.time() <= self.floor(now),
            }
    }

    /// Applies an allowed change.
    pub(super) fn change(&mut self, id: &str, change: Change, now: i64) {
        match change {
            Change::Run => {
                self.task(id).crashes = 0;
                self.task(id).group = None;
                self.append(id, now);
            }
            Change::Archive => self.archive(id, now),
            Change::Delete => self.remove(id),
            Change::Orphan => {
                let task = self.task(id);
                task.crashes = 0;
                task.error = Some(ORPHANED.to_owned());
                if task.retried < MAX_RETRY {
                    task.retried += 1;
                    self.put(id, Phase::Retry { due: now });
                } else {
                    self.archive(id, now);
                }
                self.count(now, true);
            }
        }
    }

    /// Makes a task of a set pending; the task has left its group for good.
    pub(super) fn run_alone(&mut self, id: &str, now: i64) {
        self.task(id).crashes = 0;
        self.task(id).group = None;
        self.append(id, now);
    }

    /// Puts the tasks of a set back into their group.
    pub(super) fn release(&mut self, set: usize) {
        for task in self.tasks.values_mut() {
            if let Phase::Aggregating { set: of, .. } = &mut task.phase {
                *of = of.filter(|of| *of != set);
            }
        }
    }

    /// The active tasks that recovery requeues; `dead` says which runs are known to be dead.
    pub(super) fn lost(&self, now: i64, dead: impl Fn(usize) -> bool) -> BTreeSet<String> {
        let lost = |task: &Task| match task.phase {
            Phase::Active { run, lease } => lease <= self.floor(now) || dead(run),
            _ => false,
        };
        self.tasks.iter().filter(|(_, task)| lost(task)).map(|(id, _)| id.clone()).collect()
    }
}

/// How many retries each task may have.
const MAX_RETRY: u32 = 25;

/// The error of an orphaned task that an operator ended.
pub(super) const ORPHANED: &str = "no worker runs it";

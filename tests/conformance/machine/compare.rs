//! Compares the store with the model after each step.

use std::collections::{BTreeMap, BTreeSet};

use asynq_runtime::{
    broker::Page,
    task::{TaskInfo, TaskState},
};
use asynq_tests::default_queue;

use super::{
    facts::{Hold, Phase},
    play::{Check, Machine, ensure, ok},
    upkeep::is_sorted_in_each,
};

const STATES: [TaskState; 7] = [
    TaskState::Pending,
    TaskState::Active,
    TaskState::Scheduled,
    TaskState::Retry,
    TaskState::Archived,
    TaskState::Completed,
    TaskState::Aggregating,
];

impl Machine<'_> {
    /// The tasks that the store lists in a state.
    pub(super) async fn listed(&self, state: TaskState) -> Check<Vec<TaskInfo>> {
        let page = Page { number: 1, size: 1000 };
        ok("tasks", self.stage.broker().tasks(&default_queue(), state, page).await)
    }

    /// Compares tasks, order, counts and locks.
    pub(super) async fn compare(&mut self) -> Check {
        self.compare_counts().await?;
        for state in STATES {
            if self.model.tasks.values().any(|task| task.phase.state() == state) {
                self.compare_list(state).await?;
            }
        }
        let groups = ok("groups", self.stage.broker().groups(&default_queue(), None, 100).await)?.groups;
        let groups: BTreeMap<String, u64> =
            groups.into_iter().map(|found| (found.group.to_string(), found.size)).collect();
        let expected = self.model.groups();
        ensure!(groups == expected, "the groups are {groups:?}, not {expected:?}");
        self.compare_locks()
    }

    async fn compare_counts(&self) -> Check {
        let (now, model) = (self.now(), &self.model);
        let stats = ok("queue_stats", self.stage.broker().queue_stats(&default_queue()).await)?;
        for state in STATES {
            let counted = |phase: Phase| phase.state() == state && !phase.in_set();
            let expected = model.tasks.values().filter(|task| counted(task.phase)).count() as u64;
            let actual = stats.count(state);
            ensure!(actual == expected, "{actual} tasks are counted as {state}, not {expected}");
        }
        let actual = ((stats.processed, stats.failed), (stats.processed_total, stats.failed_total));
        let expected = model.counters(now);
        ensure!(actual == expected, "the counters are {actual:?}, not {expected:?}");
        let pending = model.pending.first().map(|id| model.tasks[id].phase.time());
        let due = model.tasks.values().filter_map(|task| match task.phase {
            Phase::Scheduled { due } | Phase::Retry { due } => Some((due + 999) / 1000 * 1000),
            _ => None,
        });
        let waiting = pending.into_iter().chain(due).map(|since| now - since).max().map_or(0, |wait| wait.max(0));
        let actual = (stats.paused, stats.latency.as_millis() as i64);
        ensure!(
            actual == (model.paused, waiting),
            "paused and latency are {actual:?}, not {:?}",
            (model.paused, waiting)
        );
        Ok(())
    }

    async fn compare_list(&self, state: TaskState) -> Check {
        let (model, listed) = (&self.model, self.listed(state).await?);
        let ids: Vec<&str> = listed.iter().map(|task| task.id.as_str()).collect();
        let in_phase = |phase: Phase| phase.state() == state && !phase.in_set();
        let expected: BTreeSet<&str> =
            model.tasks.iter().filter(|(_, task)| in_phase(task.phase)).map(|(id, _)| id.as_str()).collect();
        let found: BTreeSet<&str> = ids.iter().copied().collect();
        ensure!(found == expected && ids.len() == found.len(), "{state} is {ids:?}, not {expected:?}");
        for task in &listed {
            let known = &model.tasks[task.id.as_str()];
            let result = task.result.as_ref().map(|result| String::from_utf8_lossy(result).into_owned());
            let is_kept = state == TaskState::Completed;
            let actual = (task.retried, task.crashes, &task.last_error, result.filter(|_| is_kept));
            let expected = (known.retried, known.crashes, &known.error, known.result.clone().filter(|_| is_kept));
            ensure!(
                actual == expected,
                "{} shows retried, crashes, error and result {actual:?}, not {expected:?}",
                task.id
            );
            if let Phase::Scheduled { due } | Phase::Retry { due } = known.phase {
                let actual = task.next_process_at.map(|at| at.timestamp_millis());
                ensure!(actual == Some(due), "{} is due at {actual:?}, not {due}", task.id);
            }
        }
        // Within a second the order is undefined.
        let second = |id: &&str| (model.tasks[*id].phase.time() + 999) / 1000;
        let is_in_order = match state {
            TaskState::Pending => ids == model.pending,
            TaskState::Active => true,
            // The broker chooses the order of groups.
            TaskState::Aggregating => {
                let group = |id: &&str| model.tasks[*id].group.as_deref().unwrap_or_default();
                is_sorted_in_each(&ids.iter().map(|id| (group(id), second(id))).collect::<Vec<_>>())
            }
            _ => ids.iter().is_sorted_by_key(second),
        };
        ensure!(is_in_order, "{state} is in the order {ids:?}");
        Ok(())
    }

    fn compare_locks(&mut self) -> Check {
        let (now, actual) = (self.now(), self.stage.locks());
        let known: Vec<String> = self.model.locks.keys().cloned().collect();
        for key in known {
            let found = actual.get(&key);
            match self.model.hold(&key, now) {
                Hold::Held(holder) => ensure!(
                    found.is_some_and(|found| found == holder),
                    "the lock {key} is held by {found:?}, not {holder}"
                ),
                Hold::Doubtful if found.is_some() => {}
                Hold::Doubtful => {
                    self.model.locks.remove(&key);
                }
                Hold::Free => {
                    ensure!(found.is_none(), "the lock {key} is held by {found:?} beyond its time");
                    self.model.locks.remove(&key);
                }
            }
        }
        for (key, holder) in actual {
            ensure!(self.model.locks.contains_key(&key), "{holder} holds the lock {key}, which should be free");
        }
        Ok(())
    }
}

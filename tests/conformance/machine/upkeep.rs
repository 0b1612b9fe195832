//! The steps of maintenance: forward, recover, and the deletion of tasks after their retention.

use std::{collections::BTreeSet, time::Duration};

use asynq_runtime::{
    broker::{RetryOrder, Swept},
    task::TaskState,
};
use asynq_tests::default_queue;

use super::{
    facts::Phase,
    play::{Check, Machine, ensure, ok},
    step::By,
};

impl Machine<'_> {
    pub(super) async fn forward(&mut self, by: By) -> Check {
        let now = self.now();
        let moved = ok("forward", self.broker(by).forward(&[default_queue()], RetryOrder::Last).await)?.moved;
        let mut due = self.model.in_state(TaskState::Scheduled);
        due.extend(self.model.in_state(TaskState::Retry));
        due.retain(|(at, _)| *at <= now);
        due.sort_unstable();
        let due: Vec<(i64, String)> = due.into_iter().map(|(at, id)| (at, id.to_owned())).collect();
        ensure!(moved == due.len(), "{moved} tasks were forwarded, not {due:?}");
        let before = self.model.pending.len();
        let mut times = Vec::new();
        for (at, id) in due {
            if self.model.tasks[&id].group.is_some() {
                let joined = self.model.floor(now);
                self.model.put(&id, Phase::Aggregating { joined, set: None });
            } else {
                self.model.append(&id, now);
                times.push(at);
            }
        }
        self.adopt_order(before, &times).await
    }

    /// Takes over the store's order of tasks that became pending together, because those of one time may come in any order.
    /// `times` are the times of the tasks behind the first `before`, in the order of the model.
    pub(super) async fn adopt_order(&mut self, before: usize, times: &[i64]) -> Check {
        let times: Vec<(&str, i64)> = times.iter().map(|time| ("", *time)).collect();
        self.adopt_order_of_each(before, &times).await
    }

    /// [`adopt_order`](Self::adopt_order) for tasks of several groups: only tasks of one group follow each other by time.
    pub(super) async fn adopt_order_of_each(&mut self, before: usize, times: &[(&str, i64)]) -> Check {
        let seen = self.listed(TaskState::Pending).await?;
        let seen: Vec<String> = seen.into_iter().map(|task| task.id.to_string()).collect();
        let (old, new) = self.model.pending.split_at(before);
        let time_of = |id: &String| new.iter().position(|other| other == id).map(|position| times[position]);
        let actual: Option<Vec<(&str, i64)>> = seen.iter().skip(before).map(time_of).collect();
        let in_order = actual.is_some_and(|actual| actual.len() == times.len() && is_sorted_in_each(&actual));
        ensure!(seen.starts_with(old) && in_order, "pending is {seen:?}, not {old:?} and then {new:?}, due {times:?}");
        self.model.pending = seen;
        Ok(())
    }

    pub(super) async fn recover(&mut self, by: By) -> Check {
        let now = self.now();
        let recovered = ok("recover", self.broker(by).recover(&[default_queue()]).await)?;
        let recovered: Vec<String> = recovered.tasks.into_iter().map(|(_, id)| id.to_string()).collect();
        // A broker never takes its own members for dead.
        let lost = self.model.lost(now, |run| self.is_dead(run));
        let found: BTreeSet<String> = recovered.iter().cloned().collect();
        ensure!(found == lost && found.len() == recovered.len(), "{recovered:?} were recovered, not {lost:?}");
        let seen = self.listed(TaskState::Pending).await?;
        let mut seen: Vec<String> = seen.into_iter().map(|task| task.id.to_string()).collect();
        let rest = seen.split_off(recovered.len().min(seen.len()));
        let is_head = seen.iter().collect::<BTreeSet<_>>() == recovered.iter().collect();
        ensure!(
            is_head && rest == self.model.pending,
            "{recovered:?} should be ahead of {:?}, but pending is {seen:?} {rest:?}",
            self.model.pending
        );
        for (nth, later) in seen.iter().enumerate() {
            for earlier in &seen[..nth] {
                let (later, earlier) = (self.holder(later), self.holder(earlier));
                ensure!(
                    !later.is_before(earlier),
                    "pending begins with {seen:?}, which is not the order in which they were taken"
                );
            }
        }
        for id in seen.iter().rev() {
            self.model.task(id).crashes += 1;
            self.model.prepend(id, now);
        }
        Ok(())
    }

    /// The run that holds a task.
    fn holder(&self, id: &str) -> &super::play::TakenRun {
        let Phase::Active { run, .. } = self.model.tasks[id].phase else { unreachable!("{id} is active") };
        &self.runs[run]
    }

    pub(super) async fn housekeeping(&mut self, by: By, limit: usize) -> Check {
        let (now, broker, queue) = (self.now(), self.broker(by), default_queue());
        let swept = ok("sweep", broker.sweep(&queue).await)?;
        ensure!(swept == Swept::default(), "a sweep of a sound queue repaired {swept:?}");
        let deleted = ok("delete_expired", broker.delete_expired(&queue, limit).await)?;
        let floor = self.model.floor(now);
        let is_over = |until: i64| until <= floor;
        self.deleted(TaskState::Completed, deleted, limit, |_, until| is_over(until)).await
    }

    pub(super) async fn trim(&mut self, by: By, age: u64, size: usize, limit: usize) -> Check {
        let now = self.now();
        let trimmed = self.broker(by).trim_archive(&default_queue(), Duration::from_secs(age), size, limit).await;
        let trimmed = ok("trim_archive", trimmed)?;
        let archived = self.model.in_state(TaskState::Archived).len();
        let oldest = self.model.floor(now) - age as i64 * 1000;
        let is_over = |nth: usize, at: i64| nth < archived.saturating_sub(size) || at <= oldest;
        self.deleted(TaskState::Archived, trimmed, limit, is_over).await
    }

    /// Checks that the oldest of the tasks in `state` that are `over`, by their number and time, were deleted: at most `limit`.
    async fn deleted(
        &mut self,
        state: TaskState,
        deleted: usize,
        limit: usize,
        over: impl Fn(usize, i64) -> bool,
    ) -> Check {
        let all: Vec<(i64, String)> =
            self.model.in_state(state).into_iter().map(|(at, id)| (at, id.to_owned())).collect();
        let expected = all.iter().enumerate().filter(|(nth, (at, _))| over(*nth, *at)).count().min(limit);
        ensure!(deleted == expected, "{deleted} {state} tasks were deleted, not {expected}");
        let left: BTreeSet<String> = self.listed(state).await?.into_iter().map(|task| task.id.to_string()).collect();
        let gone: Vec<&(i64, String)> = all.iter().filter(|(_, id)| !left.contains(id)).collect();
        // Tasks of equal times may be deleted in any order.
        let newest_gone = gone.iter().map(|(at, _)| *at).max();
        let newest = expected.checked_sub(1).map(|last| all[last].0);
        ensure!(gone.len() == expected && newest_gone == newest, "of the {state} tasks {all:?}, {gone:?} are gone");
        for (_, id) in gone.into_iter().cloned().collect::<Vec<_>>() {
            self.model.remove(&id);
        }
        Ok(())
    }
}

/// Whether the times of each group are in order.
pub(super) fn is_sorted_in_each(times: &[(&str, i64)]) -> bool {
    let groups: BTreeSet<&str> = times.iter().map(|(group, _)| *group).collect();
    groups.iter().all(|group| times.iter().filter(|(of, _)| of == group).is_sorted_by_key(|(_, time)| time))
}

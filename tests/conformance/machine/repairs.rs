//! The steps of operators: cancel, pause, and the repair of tasks; and a crash.

use asynq_runtime::{
    broker::{BulkAction, BulkSlice, Changed, Chosen},
    task::{TaskId, TaskState},
};
use asynq_tests::{default_queue, task_id};

use super::{
    model::ORPHANED,
    play::{Check, Machine, ensure, ok},
    step::{By, Change},
};

impl Machine<'_> {
    pub(super) async fn cancel(&mut self, by: By, task: u8) -> Check {
        let id = self.any_task(task);
        ok("cancel", self.broker(by).cancel(&id).await)?;
        for listener in &mut self.listeners {
            let received = ok("listening", listener.next().await)?;
            ensure!(received == id, "a listener received that {received} is to be cancelled, not {id}");
        }
        Ok(())
    }

    /// An existing task, or in one of 16 draws an id that does not exist.
    fn any_task(&self, number: u8) -> TaskId {
        let ids = self.model.ids();
        if ids.is_empty() || number % 16 == 15 {
            task_id("nobody")
        } else {
            task_id(ids[usize::from(number) % ids.len()])
        }
    }

    pub(super) async fn pause(&mut self, by: By, on: bool) -> Check {
        let (broker, queue) = (self.broker(by), default_queue());
        let changed = if on { broker.pause(&queue).await } else { broker.resume(&queue).await };
        let (changed, expected) = (ok("pause", changed)?, self.model.paused != on);
        ensure!(changed == expected, "pause or resume was answered {changed}, not {expected}");
        self.model.paused = on;
        Ok(())
    }

    pub(super) async fn change(&mut self, by: By, task: u8, change: Change) -> Check {
        let (id, now, queue, broker) = (self.any_task(task), self.now(), default_queue(), self.broker(by));
        let answer = match change {
            Change::Run => broker.change_task(&queue, &id, None, BulkAction::Run).await,
            Change::Archive => broker.change_task(&queue, &id, None, BulkAction::Archive).await,
            Change::Delete => broker.change_task(&queue, &id, None, BulkAction::Delete).await,
            Change::Orphan => broker.end_orphan(&queue, &id, ORPHANED).await,
        };
        let answer = ok("a repair", answer)?;
        let phase = self.model.tasks.get(id.as_str()).map(|task| task.phase);
        let expected = match phase {
            None => Changed::NotFound,
            Some(phase) if self.model.fits(change, phase, now) => Changed::Done,
            Some(phase) => Changed::Unfit(phase.state()),
        };
        ensure!(answer == expected, "{change:?} of {id} was answered {answer:?}, not {expected:?}");
        if answer == Changed::Done {
            self.model.change(id.as_str(), change, now);
        }
        Ok(())
    }

    pub(super) async fn change_all(&mut self, by: By, state: u8, change: Change) -> Check {
        let states: [TaskState; 6] = [
            TaskState::Pending,
            TaskState::Scheduled,
            TaskState::Retry,
            TaskState::Archived,
            TaskState::Completed,
            TaskState::Aggregating,
        ];
        let (state, now) = (states[usize::from(state) % states.len()], self.now());
        let action = match change {
            Change::Run => BulkAction::Run,
            Change::Archive => BulkAction::Archive,
            Change::Delete => BulkAction::Delete,
            Change::Orphan => return Ok(()),
        };
        if !action.fits(state) {
            return Ok(());
        }
        let chosen: Vec<String> = if state == TaskState::Pending {
            self.model.pending.clone()
        } else {
            self.model.in_state(state).into_iter().map(|(_, id)| id.to_owned()).collect()
        };
        let chosen: Vec<String> = chosen.into_iter().filter(|id| !self.model.tasks[id].phase.in_set()).collect();
        let answer = self.broker(by).change_some(&default_queue(), &Chosen::InState(state), action, 100).await;
        let (answer, expected) =
            (ok("change_some", answer)?, BulkSlice { changed: chosen.len(), ..BulkSlice::default() });
        ensure!(answer == expected, "{action:?} of all {state} was answered {answer:?}, not {expected:?}");
        let before = self.model.pending.len();
        let key = |id: &String| {
            let task = &self.model.tasks[id];
            let group = task.group.clone().filter(|_| state == TaskState::Aggregating);
            (group.unwrap_or_default(), (task.phase.time() + 999) / 1000)
        };
        let times: Vec<(String, i64)> = chosen.iter().map(key).collect();
        for id in &chosen {
            self.model.change(id, change, now);
        }
        if change == Change::Run {
            let times: Vec<(&str, i64)> = times.iter().map(|(group, time)| (group.as_str(), *time)).collect();
            self.adopt_order_of_each(before, &times).await?;
        }
        Ok(())
    }

    pub(super) async fn crash(&mut self) -> Check {
        let (broker, _) = self.brokers.pop().expect("there are two");
        self.listeners.pop();
        broker.close().await;
        drop(broker);
        self.program += 1;
        self.open(self.stage.connect().await).await
    }
}

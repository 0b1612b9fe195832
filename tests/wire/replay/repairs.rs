//! Repeats the inspector's calls through our contract.

use std::time::Duration;

use asynq_runtime::broker::{BrokerError, BulkAction, Changed, Chosen, NewTask, PayloadEdit, QueueDeleted, When};
use asynq_runtime::task::TaskState;
use asynq_tests::{Build as _, Value, default_queue, group, queue, task, task_id};
use serde_json::Value as Json;

use super::{Replay, group_of, id_of, locked};

impl Replay {
    /// Makes an operator's change and returns the refusal, if there is one.
    pub(super) async fn repair(&mut self, op: &str, call: &Json) -> Option<String> {
        // Remarks of the generator follow in brackets, and ids after a space.
        let (word, rest) = op.split_once([' ', '(']).unwrap_or((op, ""));
        let id = id_of(&call["args"]);
        match word {
            "Schedule" | "ScheduleUnique" => {
                let id = if id.is_empty() { rest } else { id };
                self.enqueue(self.scheduled(id, word == "ScheduleUnique")).await
            }
            "EnqueueUnique" => self.enqueue(self.unique(rest)).await,
            "RunTask" | "ArchiveTask" | "DeleteTask" => self.change(word, id).await,
            "UpdateTaskPayload" => {
                let payload = self.scenario.message("sched").unwrap().payload;
                let edit = PayloadEdit { payload, expected: None, unique_key: None };
                refusal(self.broker.edit_payload(&default_queue(), &task_id(id), &edit).await.unwrap())
            }
            "RemoveQueue" => {
                let deleted = self.broker.delete_queue(&default_queue()).await.unwrap();
                (deleted != QueueDeleted::Done).then(|| format!("{deleted:?}"))
            }
            _ => {
                let Some(changed) = self.change_all(word, rest).await else { panic!("{op} is not replayed here") };
                assert_eq!(call["result"].as_u64(), Some(changed), "{op}");
                None
            }
        }
    }

    async fn change(&self, word: &str, id: &str) -> Option<String> {
        let (q, id) = if id == "nosuchqueue" { (queue(id), task_id("any")) } else { (default_queue(), task_id(id)) };
        let changed: Result<Changed, BrokerError> = match word {
            "RunTask" => self.broker.change_task(&q, &id, None, BulkAction::Run).await,
            "ArchiveTask" => {
                let changed = self.broker.change_task(&q, &id, None, BulkAction::Archive).await;
                self.trim().await;
                changed
            }
            _ => self.broker.change_task(&q, &id, None, BulkAction::Delete).await,
        };
        refusal(changed.unwrap())
    }

    /// Trims the archive, as Go does in the script that archives.
    async fn trim(&self) {
        self.broker.trim_archive(&default_queue(), Duration::from_secs(90 * 86_400), 10_000, 500).await.unwrap();
    }

    /// `RunAllScheduledTasks` and the like; returns the number of changed tasks.
    async fn change_all(&self, word: &str, rest: &str) -> Option<u64> {
        let (action, states) = [
            (BulkAction::Run, word.strip_prefix("RunAll")),
            (BulkAction::Archive, word.strip_prefix("ArchiveAll")),
            (BulkAction::Delete, word.strip_prefix("DeleteAll")),
        ]
        .into_iter()
        .find_map(|(action, rest)| Some((action, rest?.strip_suffix("Tasks")?)))?;
        let chosen = match states {
            "Aggregating" => Chosen::InGroup(group("grp")),
            state => Chosen::InState(state.to_lowercase().parse::<TaskState>().unwrap()),
        };
        let queue = if rest.contains("missing queue") { queue("missing") } else { default_queue() };
        let mut changed = 0;
        loop {
            let slice = self.broker.change_some(&queue, &chosen, action, 100).await.unwrap();
            changed += slice.changed as u64;
            if !slice.more {
                return Some(changed);
            }
        }
    }

    /// A task that is due in an hour, with the message from Go's dumps.
    fn scheduled(&self, id: &str, unique: bool) -> NewTask {
        let mut new = task(id);
        new.message = self.scenario.message(id).unwrap();
        new.when = When::In(Duration::from_secs(3600));
        if unique { locked(new, Duration::ZERO) } else { new }
    }

    /// A task in a group; the dumps lack the message of a task that was deleted later.
    pub(super) fn grouped_task(&self, args: &Json) -> NewTask {
        let id = id_of(args);
        let mut new = match (self.scenario.message(id), args["group"].as_str()) {
            (None, Some(name)) => return task(id).grouped(name),
            _ => self.plain(args),
        };
        new.group = group_of(&new.message);
        new
    }

    /// A task of which Go's dump has only the lock.
    fn unique(&self, id: &str) -> NewTask {
        let holds = |value: &Value| *value == Value::String(id.into());
        let (key, _) = self.scenario.end.iter().find(|(_, dumped)| holds(&dumped.value)).unwrap();
        let mut new = task(id);
        new.message.unique_key.clone_from(key);
        locked(new, Duration::from_secs(60))
    }

    /// The counters of days; a Go call for no days is an error.
    pub(super) async fn history(&self, call: &Json) -> Option<String> {
        let days = call["args"].as_str().unwrap().strip_prefix("n=").unwrap().parse().unwrap();
        let ours = self.broker.history(&default_queue(), days).await.unwrap();
        for (go, ours) in call["result"].as_array().into_iter().flatten().zip(&ours) {
            assert_eq!(go["Time"].as_str().unwrap().split('T').next(), Some(ours.date.to_string().as_str()));
            assert_eq!((go["Processed"].as_u64(), go["Failed"].as_u64()), (Some(ours.processed), Some(ours.failed)));
        }
        assert_eq!(ours.len(), call["result"].as_array().map_or(0, Vec::len));
        ours.is_empty().then(|| "none".into())
    }
}

fn refusal(changed: Changed) -> Option<String> {
    (changed != Changed::Done).then(|| format!("{changed:?}"))
}

//! Tasks for cases: built in one line, and brought into every state through the contract alone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{
        Action, GroupRules, NewTask, Placed, Refused, Run, SetError, SetOutcome, Settled, Settlement, TaskSet,
        UniqueLock, When,
    },
    task::{Extra, GroupName, Header, QueueName, TaskId, TaskInfo, TaskMessage, TaskState},
};
use bytes::Bytes;
use chrono::{DateTime, Utc};

use crate::{Fixture, Store};

/// The queue of every task that names no other.
pub fn default_queue() -> QueueName {
    queue("default")
}

/// A queue by name.
pub fn queue(name: &str) -> QueueName {
    QueueName::from_wire(name)
}

/// A group by name.
pub fn group(name: &str) -> GroupName {
    GroupName::from_wire(name)
}

/// A task id by name.
pub fn task_id(id: &str) -> TaskId {
    TaskId::from_wire(id)
}

/// A unique key of the default queue.
pub fn lock_key(name: &str) -> String {
    format!("asynq:{{default}}:unique:email:send:{name}")
}

/// A task for now in the default queue: type `email:send`, its id as payload, asynq's defaults.
pub fn task(id: &str) -> NewTask {
    NewTask {
        message: TaskMessage {
            r#type: "email:send".into(),
            payload: Bytes::copy_from_slice(id.as_bytes()),
            id: id.into(),
            queue: "default".into(),
            retry: 25,
            timeout: 1800,
            ..TaskMessage::default()
        },
        queue: default_queue(),
        id: task_id(id),
        id_is_ours: false,
        when: When::Now,
        unique: None,
        replaces: None,
        group: None,
        extra: Extra::default(),
    }
}

/// Adds facts to a task, one method per fact.
pub trait Build: Sized {
    /// Puts the task into another queue.
    fn in_queue(self, name: &str) -> Self;
    /// Makes the task due after a delay.
    fn after(self, delay: Duration) -> Self;
    /// Makes the task due at an instant.
    fn at(self, at: DateTime<Utc>) -> Self;
    /// Lets the task hold the lock `key` for at most `seconds`.
    fn locked(self, key: &str, seconds: u64) -> Self;
    /// Puts the task into a group to be aggregated.
    fn grouped(self, group: &str) -> Self;
    /// Keeps the task for `seconds` after success.
    fn with_retention(self, seconds: i64) -> Self;
    /// Replaces the payload.
    fn with_payload(self, payload: impl Into<Bytes>) -> Self;
    /// Adds a header.
    fn with_header(self, key: &str, value: &str) -> Self;
    /// Adds extra facts.
    fn with_extra(self, extra: Extra) -> Self;
}

impl Build for NewTask {
    fn in_queue(mut self, name: &str) -> Self {
        self.queue = queue(name);
        self.message.queue = name.into();
        self
    }

    fn after(mut self, delay: Duration) -> Self {
        self.when = When::In(delay);
        self
    }

    fn at(mut self, at: DateTime<Utc>) -> Self {
        self.when = When::At(at);
        self
    }

    fn locked(mut self, key: &str, seconds: u64) -> Self {
        self.message.unique_key = key.into();
        self.unique = Some(UniqueLock { key: key.into(), ttl: Duration::from_secs(seconds) });
        self
    }

    fn grouped(mut self, name: &str) -> Self {
        self.message.group_key = name.into();
        self.group = Some(group(name));
        self
    }

    fn with_retention(mut self, seconds: i64) -> Self {
        self.message.retention = seconds;
        self
    }

    fn with_payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.message.payload = payload.into();
        self
    }

    fn with_header(mut self, key: &str, value: &str) -> Self {
        self.message.headers.push(Header::new(key, value));
        self
    }

    fn with_extra(mut self, extra: Extra) -> Self {
        self.extra = extra;
        self
    }
}

/// The task number `n` of those that a set becomes.
pub fn made(set: &TaskSet, n: usize) -> NewTask {
    task(set.task_id(n).as_str())
}

/// The outcome of a set that becomes these tasks.
pub fn becomes(made: Vec<NewTask>) -> SetOutcome {
    SetOutcome { made, ..SetOutcome::default() }
}

/// The ids of a set, in their order.
pub fn members(set: &TaskSet) -> Vec<&str> {
    set.members.iter().map(|member| member.id.as_str()).collect()
}

/// [`Action::Done`].
pub fn done() -> Action {
    Action::Done
}

/// [`Action::Complete`] with a result.
pub fn complete(result: &str) -> Action {
    Action::Complete { result: Some(Bytes::copy_from_slice(result.as_bytes())) }
}

/// A retry that counts.
pub fn retry(delay: Duration, error: &str) -> Action {
    Action::Retry { delay, error: Some(error.into()), counted: true, extra: Extra::default() }
}

/// A retry that is not counted and has no error.
pub fn snooze(delay: Duration, extra: Extra) -> Action {
    Action::Retry { delay, error: None, counted: false, extra }
}

/// [`Action::Archive`] with a reason.
pub fn archive(error: &str) -> Action {
    archive_with(error, Extra::default())
}

/// [`Action::Archive`] with a reason and extra facts.
pub fn archive_with(error: &str, extra: Extra) -> Action {
    Action::Archive { error: error.into(), extra }
}

/// [`Action::Requeue`].
pub fn requeue() -> Action {
    Action::Requeue
}

/// The outcomes and the message of a run.
pub trait Seeded {
    /// The outcome of this run, sent for the first time.
    fn ends_with(&self, action: Action) -> Settlement;
    /// The message, which must be readable.
    fn text(&self) -> &TaskMessage;
}

impl Seeded for Run {
    fn ends_with(&self, action: Action) -> Settlement {
        let message = match &self.message {
            Ok(message) => message.clone(),
            // The contract asks for this form where the bytes are not a message.
            Err(undecodable) => TaskMessage {
                r#type: "undecodable".into(),
                id: self.key.id.to_string(),
                queue: self.key.queue.to_string(),
                payload: undecodable.raw.clone(),
                ..TaskMessage::default()
            },
        };
        Settlement { run: self.key.clone(), message: Arc::new(message), action, resend: false }
    }

    fn text(&self) -> &TaskMessage {
        self.message.as_ref().expect("a readable message")
    }
}

impl<S: Store> Fixture<S> {
    /// Enqueues one task and returns the broker's answer.
    pub async fn try_enqueue(&self, task: NewTask) -> Result<Placed, Refused> {
        let mut answers = self.broker().enqueue(vec![task]).await;
        assert_eq!(answers.len(), 1, "one answer per task");
        answers.remove(0)
    }

    /// Enqueues one task that must be accepted.
    pub async fn enqueue(&self, task: NewTask) -> Placed {
        self.try_enqueue(task).await.unwrap()
    }

    /// Puts `ids` into pending, in this order; as ids that a client drew, because brokers have shorter paths for those.
    pub async fn seed_pending(&self, ids: &[&str]) {
        let drawn = |id: &&str| NewTask { id_is_ours: true, ..task(id) };
        for answer in self.broker().enqueue(ids.iter().map(drawn).collect()).await {
            answer.unwrap();
        }
    }

    /// Seeds a plain task that runs. No other task may be pending.
    pub async fn seed_active(&self, id: &str) -> Run {
        self.start_run(task(id)).await
    }

    /// Enqueues `task` and takes it. No other task may be pending in its queue.
    pub async fn start_run(&self, task: NewTask) -> Run {
        use asynq_runtime::broker::Wanted;
        let (id, queue) = (task.id.clone(), task.queue.clone());
        self.enqueue(task).await;
        let mut runs = self.broker().dequeue(self.member(), &[Wanted { queue, n: 1 }]).await.unwrap();
        assert_eq!(runs.len(), 1, "the seeded task can be taken");
        let run = runs.remove(0);
        assert_eq!(run.key.id, id, "seed active tasks before pending ones");
        run
    }

    /// Seeds a task that is due after `delay`.
    pub async fn seed_scheduled(&self, id: &str, delay: Duration) {
        self.enqueue(task(id).after(delay)).await;
    }

    /// Seeds a task that failed once and is retried after `delay`.
    pub async fn seed_retry(&self, id: &str, delay: Duration) {
        let run = self.seed_active(id).await;
        assert_eq!(self.settle(&run, retry(delay, "boom")).await, Settled::Ok);
    }

    /// Seeds an archived task.
    pub async fn seed_archived(&self, id: &str) {
        let run = self.seed_active(id).await;
        assert_eq!(self.settle(&run, archive("fatal")).await, Settled::Ok);
    }

    /// Seeds a task that succeeded and is kept for `seconds`.
    pub async fn seed_completed(&self, id: &str, seconds: i64) {
        let run = self.start_run(task(id).with_retention(seconds)).await;
        assert_eq!(self.settle(&run, complete("42")).await, Settled::Ok);
    }

    /// Seeds one task in each of the six states, named after its state; due times are an hour away.
    pub async fn seed_every_state(&self) -> Run {
        let hour = Duration::from_secs(3600);
        self.seed_completed("completed", 3600).await;
        self.seed_archived("archived").await;
        self.seed_retry("retry", hour).await;
        self.seed_scheduled("scheduled", hour).await;
        let run = self.seed_active("active").await;
        self.seed_pending(&["pending"]).await;
        run
    }

    /// Puts `ids` into a group, a second apart.
    pub async fn seed_group(&self, name: &str, ids: &[&str]) {
        for (i, id) in ids.iter().enumerate() {
            if i > 0 {
                self.advance(Duration::from_secs(1));
            }
            self.enqueue(task(id).grouped(name)).await;
        }
    }

    /// Claims a set of a group if the group is ripe.
    pub async fn try_claim(&self, name: &str, rules: &GroupRules) -> Option<TaskSet> {
        let named = self.ripe(&default_queue(), rules).await;
        let set = self.broker().claim_set(&default_queue(), &group(name), rules).await.unwrap();
        assert!(set.is_none() || named.contains(&group(name)), "a set of a group that a walk did not name: {set:?}");
        set
    }

    /// The groups that a complete walk names as ripe.
    pub async fn ripe(&self, queue: &QueueName, rules: &GroupRules) -> BTreeSet<GroupName> {
        let (mut named, mut step) = (BTreeSet::new(), None);
        loop {
            let found = self.broker().ripe_groups(queue, rules, step.as_ref()).await.unwrap();
            named.extend(found.groups);
            step = found.next;
            if step.is_none() {
                return named;
            }
        }
    }

    /// Claims every task that waits in a group, at most [`TaskSet::MOST`], whatever the time.
    pub async fn claim(&self, name: &str) -> TaskSet {
        let size = self.group_sizes().await.iter().find(|(known, _)| known == name).map_or(1, |(_, size)| *size);
        let rules = GroupRules { max_size: usize::try_from(size).ok(), ..GroupRules::default() };
        self.try_claim(name, &rules).await.expect("something waits in the group")
    }

    /// Puts `ids` into the group `g` and claims them as a set.
    pub async fn seed_set(&self, ids: &[&str]) -> TaskSet {
        self.seed_group("g", ids).await;
        self.claim("g").await
    }

    /// Ends a set.
    pub async fn finish(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        self.broker().finish_set(set, outcome).await
    }

    /// The groups of the default queue with the number of tasks in each.
    pub async fn group_sizes(&self) -> Vec<(String, u64)> {
        let page = self.broker().groups(&default_queue(), None, 1000).await.unwrap();
        page.groups.into_iter().map(|found| (found.group.to_string(), found.size)).collect()
    }

    /// A task of the default queue, if the task exists.
    pub async fn info(&self, id: &str) -> Option<TaskInfo> {
        self.broker().task(&default_queue(), &task_id(id)).await.unwrap()
    }

    /// The state of a task of the default queue, if the task exists.
    pub async fn state_of(&self, id: &str) -> Option<TaskState> {
        self.info(id).await.map(|info| info.state)
    }

    /// Ends one run and returns the broker's answer.
    pub async fn settle(&self, run: &Run, action: Action) -> Settled {
        self.send(run.ends_with(action)).await
    }

    /// Ends one run again, as after a lost answer.
    pub async fn resend(&self, run: &Run, action: Action) -> Settled {
        self.send(Settlement { resend: true, ..run.ends_with(action) }).await
    }

    async fn send(&self, settlement: Settlement) -> Settled {
        let mut answers = self.broker().settle(std::slice::from_ref(&settlement)).await;
        assert_eq!(answers.len(), 1, "one answer per outcome");
        answers.remove(0).unwrap()
    }

    /// The holder of a lock of the default queue, from a refused enqueue with that lock. A free lock is taken by the attempt; one that
    /// is left without its task would be taken over, and fails the case.
    pub async fn holder_of(&self, key: &str) -> Option<TaskId> {
        let left = self.store.locks(&default_queue(), self.now()).remove(key);
        let probe = task(&format!("probe-{}", TaskId::random())).after(Duration::from_secs(999_999)).locked(key, 60);
        match self.try_enqueue(probe).await {
            Ok(_) => {
                assert_eq!(left, None, "{key} was not freed");
                None
            }
            Err(Refused::Duplicate { holder }) => Some(holder.expect("both brokers can name the holder of a lock")),
            Err(other) => panic!("the lock could not be asked for: {other}"),
        }
    }
}

//! A Redis with both sides on it, and the actions and views of each.

use std::{future::Future, sync::Arc, time::Duration};

use asynq_runtime::{
    Client, RawTask, TaskId,
    broker::{Broker, BulkAction, Changed},
    task::QueueName,
};
use asynq_tests::{Persistence, RedisServer, eventually, patient, skip};
use redis::Commands as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::interop::{
    go::{NO_GO, Talk, peer_program},
    matrix,
    side::{Order, Pair, Seen, Side},
    worker::{Settings, Worker},
};

/// A private Redis, our client and Go's.
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) client: Client,
    pub(crate) talk: Talk,
    pub(crate) folder: TempDir,
}

/// Runs `step` with every pair, each on a queue of its own, and records that the step was shown.
pub(crate) async fn with_every_pair<F: Future<Output = ()>>(step: &str, play: impl Fn(Arc<Stage>, Pair, String) -> F) {
    let Some(stage) = Stage::start().await else { skip!("{NO_GO}") };
    matrix::begin(step);
    let [a, b, c, d] = Pair::ALL.map(|pair| play(Arc::clone(&stage), pair, format!("to-{pair}")));
    tokio::join!(a, b, c, d);
    matrix::write_row(step, &Pair::ALL);
}

impl Stage {
    pub(crate) async fn start() -> Option<Arc<Self>> {
        let peer = peer_program()?;
        let server = RedisServer::start(Persistence::None);
        let client = patient::client(&server.url()).await;
        let talk = Talk::start(peer, &format!("127.0.0.1:{}", server.port()));
        Some(Arc::new(Self { server, client, talk, folder: TempDir::new().unwrap() }))
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    pub(crate) fn broker(&self) -> &Arc<dyn Broker> {
        self.client.broker()
    }

    pub(crate) async fn worker(&self, side: Side, queue: &str) -> Worker {
        Worker::start(side, &self.address(), &Settings::of(queue)).await
    }

    /// Enqueues a task and returns the side's view of it, or the refusal in the side's own words.
    pub(crate) async fn try_enqueue(&self, side: Side, queue: &str, order: &Order) -> Result<Seen, String> {
        match side {
            Side::Go => self.talk.ask(&order.request(queue)).map(|task| Seen::by_go(&task)),
            Side::Rust => {
                let mut task = RawTask::new("interop:do", order.payload()).queue(queue);
                if let Some(retry) = order.retry {
                    task = task.retry(retry);
                }
                let seconds = Duration::from_secs;
                if order.timeout_s > 0 {
                    task = task.timeout(seconds(order.timeout_s));
                }
                if order.unique_s > 0 {
                    task = task.unique(seconds(order.unique_s));
                }
                if order.delay_ms > 0 {
                    task = task.process_in(Duration::from_millis(order.delay_ms));
                }
                if order.retention_s > 0 {
                    task = task.retention(seconds(order.retention_s));
                }
                if let Some(id) = &order.task_id {
                    task = task.task_id(id);
                }
                if let Some(group) = order.group {
                    task = task.group(group);
                }
                for (key, value) in &order.headers {
                    task = task.header(*key, *value);
                }
                self.client.enqueue(task).await.map(|info| Seen::by_rust(&info)).map_err(|error| error.to_string())
            }
        }
    }

    pub(crate) async fn enqueue(&self, side: Side, queue: &str, order: &Order) -> String {
        self.try_enqueue(side, queue, order).await.unwrap_or_else(|error| panic!("{side} {queue}: {error}")).id
    }

    /// The view of a task by that side's inspector.
    pub(crate) async fn look(&self, side: Side, queue: &str, id: &str) -> Option<Seen> {
        match side {
            Side::Go => match self.talk.ask(&json!({ "op": "task", "queue": queue, "id": id })) {
                Ok(task) => Some(Seen::by_go(&task)),
                Err(error) if error.contains("not found") => None,
                Err(error) => panic!("{queue} {id}: {error}"),
            },
            Side::Rust => {
                let info = self.broker().task(&name(queue), &TaskId::from_wire(id)).await.unwrap();
                info.as_ref().map(Seen::by_rust)
            }
        }
    }

    /// Waits until the task is in `state`, asserts that both inspectors see the same, and returns that.
    pub(crate) async fn both_see(&self, queue: &str, id: &str, state: &str) -> Seen {
        let goal = format!("{queue}: {id} becomes {state}");
        let (ours, theirs) = eventually(&goal, async || {
            let ours = self.look(Side::Rust, queue, id).await.filter(|seen| seen.state == state)?;
            let theirs = self.look(Side::Go, queue, id).await;
            // A task that moves between the two views is viewed again.
            let still = self.look(Side::Rust, queue, id).await;
            (still.as_ref() == Some(&ours)).then_some((ours, theirs))
        })
        .await;
        assert_eq!(Some(&ours), theirs.as_ref(), "the inspectors disagree about {queue} {id}");
        ours
    }

    /// Waits until the task is gone for both sides.
    pub(crate) async fn both_miss(&self, queue: &str, id: &str) {
        let goal = format!("{queue}: {id} ends");
        eventually(&goal, async || self.look(Side::Rust, queue, id).await.is_none().then_some(())).await;
        assert_eq!(self.look(Side::Go, queue, id).await, None);
    }

    pub(crate) async fn pause(&self, side: Side, queue: &str, pause: bool) {
        match (side, pause) {
            (Side::Go, true) => self.go("pause", queue, ""),
            (Side::Go, false) => self.go("resume", queue, ""),
            (Side::Rust, true) => json!(self.broker().pause(&name(queue)).await.unwrap()),
            (Side::Rust, false) => json!(self.broker().resume(&name(queue)).await.unwrap()),
        };
    }

    pub(crate) async fn cancel(&self, side: Side, id: &str) {
        match side {
            Side::Go => drop(self.go("cancel", "", id)),
            Side::Rust => self.broker().cancel(&TaskId::from_wire(id)).await.unwrap(),
        }
    }

    /// Changes a task by an inspector: `run`, `archive` or `delete`.
    pub(crate) async fn change(&self, side: Side, op: &str, queue: &str, id: &str) {
        if side == Side::Go {
            self.go(op, queue, id);
            return;
        }
        let (queue, id) = (name(queue), TaskId::from_wire(id));
        let changed = match op {
            "run" => self.broker().change_task(&queue, &id, None, BulkAction::Run).await,
            "archive" => self.broker().change_task(&queue, &id, None, BulkAction::Archive).await,
            _ => self.broker().change_task(&queue, &id, None, BulkAction::Delete).await,
        };
        assert_eq!(changed.unwrap(), Changed::Done, "{op} {queue} {id}");
    }

    /// Runs a command of Go's inspector that only needs a queue and an id.
    pub(crate) fn go(&self, op: &str, queue: &str, id: &str) -> Value {
        let answer = self.talk.ask(&json!({ "op": op, "queue": queue, "id": id }));
        answer.unwrap_or_else(|error| panic!("go {op} {queue} {id}: {error}"))
    }

    /// Sets the lease of a dead worker's task to two minutes ago, which has the effect of waiting.
    pub(crate) fn let_lease_pass(&self, queue: &str, id: &str) {
        let past = chrono::Utc::now().timestamp() - 120;
        let key = format!("asynq:{{{queue}}}:lease");
        let (): () = self.server.connection().zadd(key, id, past).unwrap();
    }
}

pub(crate) fn name(queue: &str) -> QueueName {
    QueueName::from_wire(queue)
}

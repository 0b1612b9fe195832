//! The state that the components of one server share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

use super::{
    active_runs::{ActiveRun, ActiveRuns},
    aggregate::Aggregations,
    answer::{answer_within, longest_call},
    config::{Config, SAFETY_NET},
    executor::Executor,
    identity,
    layer_stack::LayerStack,
    outbox::Outbox,
    served_queues::ServedQueues,
    signals::Signals,
};
use crate::{
    broker::{Action, Broker, BrokerError, Member},
    task::ServerInfo,
};

/// The state that the components of one server share.
#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) member: Member,
    pub(crate) config: Config,
    pub(crate) queues: ServedQueues,
    pub(crate) executor: Executor,
    pub(crate) aggregations: Arc<Aggregations>,
    /// The layers around the executor's work, if there are any.
    pub(crate) layer_stack: Option<Arc<LayerStack>>,
    /// The runtime on which jobs run.
    pub(crate) jobs: runtime::Handle,
    pub(crate) runs: ActiveRuns,
    pub(crate) outbox: Outbox,
    pub(crate) signals: Signals,
    pub(crate) started: DateTime<Utc>,
    /// Whether the last extension of leases was answered; true before the first one.
    pub(crate) extends: AtomicBool,
    /// Whether the last fetch found nothing.
    pub(crate) found_nothing: AtomicBool,
    /// Cancelled when no more tasks may be fetched.
    pub(crate) quiet: CancellationToken,
    /// Cancelled when the server is leaving.
    pub(crate) closing: CancellationToken,
    /// Cancelled by the fetcher when it has ended.
    pub(crate) fetched_last: CancellationToken,
    /// Cancelled when the aggregator has ended, or if there is none.
    pub(crate) aggregated_last: CancellationToken,
    /// Cancelled when the server takes itself off the list of servers and closes its broker, or is dropped: a later beat would put it on
    /// the list again, and a later call would fail.
    pub(crate) leaving: CancellationToken,
    /// Cancelled when all services have ended.
    pub(crate) services_ended: CancellationToken,
}

impl ServerContext {
    /// Requeues the tasks of dequeues that never returned, at the heads of their queues. Where a job may block the fetcher's
    /// thread, the tasks of dequeues that have been under way for longer than `older` are requeued as well.
    pub(crate) async fn release_unanswered(&self, older: Duration) -> Result<(), BrokerError> {
        // Where no job can block the fetcher's thread, a dequeue that is under way is waited for.
        let older = if self.broker.dequeues_beside_jobs() { older } else { Duration::MAX };
        let released = self.answer(self.broker.release_unanswered(&self.member, older)).await?;
        if !released.is_empty() {
            let ids: Vec<&str> = released.iter().map(|(_, id)| id.as_str()).collect();
            log!(
                warn,
                ?ids,
                "the dequeue of these tasks was not answered, because a job blocks its thread or the connection failed; \
                 they are pending again"
            );
        }
        Ok(())
    }

    /// Requeues tasks at the heads of their queues, unless they were settled or lost meanwhile. A task whose attempt has ended is
    /// settled as was decided. The tasks come in the order in which they were taken, or the outbox gathers and orders them: the
    /// task that is requeued last is taken next.
    pub(crate) fn requeue(&self, tasks: &[Arc<ActiveRun>]) {
        for task in tasks.iter().rev() {
            self.settle(task, || Action::Requeue);
        }
    }

    /// Settles a task as was decided at the end of its attempt, or with `undecided` if its attempt has not ended. Does nothing
    /// if the task is settled already, or was lost.
    pub(crate) fn settle(&self, task: &ActiveRun, undecided: impl FnOnce() -> Action) {
        let action = || task.decided().unwrap_or_else(undecided);
        self.outbox.add(task.place, || task.settling().then(|| task.attempt.settlement(action())));
    }

    /// Notifies `idle` if the last fetch found nothing and no run is active.
    pub(crate) fn note_idle(&self) {
        if self.found_nothing.load(Ordering::Acquire) && self.runs.is_empty() {
            self.signals.idle.notify();
        }
    }

    /// Returns the facts of the server that its beats show to other programs.
    pub(crate) fn server_info(&self) -> ServerInfo {
        let status = match (self.closing.is_cancelled(), self.quiet.is_cancelled()) {
            (true, _) => "closed",
            (_, true) => "stopped",
            _ => "active",
        };
        let active = i32::try_from(self.runs.running()).unwrap_or(i32::MAX);
        ServerInfo {
            status: status.to_owned(),
            active_worker_count: active,
            ..identity::introduction(&self.member.name, &self.config, &self.aggregations, self.started)
        }
    }

    /// Makes the server quiet, because the jobs' runtime is ending and would drop any further task as well.
    pub(crate) fn runtime_has_ended(&self) {
        if !self.quiet.is_cancelled() {
            self.quiet.cancel();
            log!(error, "the runtime that called `start` has ended, so no more jobs can run: the server is quiet now");
        }
    }

    /// Waits for an answer of the broker, but not for ever.
    pub(crate) async fn answer<T, E: From<BrokerError>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.answers(call).await.unwrap_or_else(|error| Err(error.into()))
    }

    /// Like [`answer`](Self::answer), for a call that has an answer for each of its items.
    pub(crate) async fn answers<T>(&self, call: impl Future<Output = T>) -> Result<T, BrokerError> {
        answer_within(longest_call(&*self.broker), call).await
    }

    /// Like [`answer`](Self::answer), for a call that waits for up to [`SAFETY_NET`] before the broker answers.
    pub(crate) async fn notification<T>(
        &self,
        wait: impl Future<Output = Result<T, BrokerError>>,
    ) -> Result<T, BrokerError> {
        let limit = SAFETY_NET.saturating_add(longest_call(&*self.broker));
        answer_within(limit, wait).await.flatten()
    }
}

//! What the components of one server share.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{runtime, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    active_runs::{ActiveRun, ActiveRuns},
    aggregate::Aggregations,
    attempt::Attempt,
    config::{ANSWER, Config, SAFETY_NET},
    executor::Executor,
    layer_stack::{LayerStack, Permit},
    lease,
    outbox::Outbox,
    served_queues::ServedQueues,
    signals::Signals,
};
use crate::{
    broker::{Action, Broker, BrokerError, BrokerErrorKind, Member, Settlement},
    task::{Extra, ServerInfo},
};

/// Before a task is tried again that met a mistake of ours.
const AFTER_MISTAKE: Duration = Duration::from_secs(60);

/// What the components of one server share.
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
    /// Where jobs run.
    pub(crate) jobs: runtime::Handle,
    pub(crate) runs: ActiveRuns,
    pub(crate) outbox: Outbox,
    pub(crate) signals: Signals,
    pub(crate) started: DateTime<Utc>,
    /// Whether the last extension of leases was answered; true before the first.
    pub(crate) extends: AtomicBool,
    /// Whether the last fetch found nothing.
    pub(crate) found_nothing: AtomicBool,
    /// Cancelled when nothing more may be fetched.
    pub(crate) quiet: CancellationToken,
    /// Cancelled when the server is leaving.
    pub(crate) closing: CancellationToken,
    /// Cancelled by the fetcher when it has ended.
    pub(crate) fetched_last: CancellationToken,
    /// Cancelled when the aggregator has ended, or if there is none.
    pub(crate) aggregated_last: CancellationToken,
    /// Cancelled when the server takes itself off the list: a later beat would put it there again.
    pub(crate) leaving: CancellationToken,
    /// Cancelled when all services have ended.
    pub(crate) services_ended: CancellationToken,
}

impl ServerContext {
    /// Gives a task in hand a slot, which is free again as soon as its job has ended or the slot is dropped; its outcome
    /// goes on in the outbox. `None` if it was lost meanwhile.
    pub(crate) fn slot(self: &Arc<Self>, task: Arc<ActiveRun>, permit: Option<Permit>) -> Option<Slot> {
        let starts = self.runs.start(&task);
        starts.then(|| Slot { context: Arc::clone(self), task, permit })
    }

    /// Runs tasks on the jobs' runtime, each for itself. They go there together: each one that comes from another
    /// thread takes a lock there and wakes a thread.
    pub(crate) fn launch(&self, mut slots: Vec<Slot>) {
        if slots.len() > 1 {
            self.jobs.spawn(async move {
                for slot in slots {
                    tokio::spawn(slot.run());
                }
            });
        } else if let Some(slot) = slots.pop() {
            self.jobs.spawn(slot.run());
        }
    }

    /// Requeues what calls of the fetcher took that never returned at the heads of its queues, also that of calls which are
    /// under way for longer than `older` where a job may block the fetcher's thread.
    pub(crate) async fn release_unanswered(&self, older: Duration) -> Result<(), BrokerError> {
        // Where the fetcher has its thread to itself, a call that is under way is waited for.
        let older = if self.broker.dequeues_beside_jobs() { older } else { Duration::MAX };
        let released = self.answer(self.broker.release_unanswered(&self.member, older)).await?;
        if !released.is_empty() {
            let ids: Vec<&str> = released.iter().map(|(_, id)| id.as_str()).collect();
            tracing::warn!(
                ?ids,
                "the dequeue of these tasks was not answered, because a job blocks its thread or the connection failed; \
                 they are pending again"
            );
        }
        Ok(())
    }

    /// Has tasks requeued at the heads of their queues, unless they have been settled or were lost meanwhile; one whose attempt
    /// has ended is settled as was decided. They come in the order in which they were taken, or the outbox gathers them and sees
    /// to it: the last one to be requeued is the next to be taken.
    pub(crate) fn requeue(&self, tasks: &[Arc<ActiveRun>]) {
        for task in tasks.iter().rev() {
            self.settle(task, || Self::requeue_settlement(&task.attempt));
        }
    }

    /// Has a task settled as was decided at the end of its attempt, or as `undecided` says where that has not ended; not if
    /// another did so, or if it was lost.
    fn settle(&self, task: &ActiveRun, undecided: impl FnOnce() -> Settlement) {
        self.outbox.add(task.place, || task.settling().then(|| task.decided().unwrap_or_else(undecided)));
    }

    /// The settlement that requeues a task at the head of its queue.
    pub(crate) fn requeue_settlement(attempt: &Attempt) -> Settlement {
        Settlement {
            run: attempt.key.clone(),
            message: Arc::clone(&attempt.message),
            action: Action::Requeue,
            resend: false,
        }
    }

    /// Notifies `idle` if the server is.
    pub(crate) fn note_idle(&self) {
        if self.found_nothing.load(Ordering::Acquire) && self.runs.is_empty() {
            self.signals.idle.notify();
        }
    }

    /// The server as others see it.
    pub(crate) fn shown(&self) -> ServerInfo {
        let status = match (self.closing.is_cancelled(), self.quiet.is_cancelled()) {
            (true, _) => "closed",
            (_, true) => "stopped",
            _ => "active",
        };
        let active = i32::try_from(self.runs.running()).unwrap_or(i32::MAX);
        ServerInfo {
            status: status.to_owned(),
            active_worker_count: active,
            ..super::heartbeat::introduction(&self.member.name, &self.config, self.started)
        }
    }

    /// The jobs' runtime is ending, and would drop whatever came after this as well.
    pub(crate) fn runtime_has_ended(&self) {
        if !self.quiet.is_cancelled() {
            tracing::error!(
                "the runtime that called `start` has ended, so no more jobs can run: the server is quiet now"
            );
            self.quiet.cancel();
        }
    }

    /// Whether `error` says no more than that this server has left and closed its broker.
    pub(crate) fn has_closed(&self, error: &BrokerError) -> bool {
        self.closing.is_cancelled() && error.kind() == BrokerErrorKind::Closed
    }

    /// Waits for an answer of the broker, but not for ever. Brokers have shorter limits of their own; this one holds
    /// even where a broker forgot one.
    pub(crate) async fn answer<T>(&self, call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
        timeout(self.longest_call(), call).await.unwrap_or_else(|_| Err(no_answer()))
    }

    fn longest_call(&self) -> Duration {
        ANSWER.max(self.broker.call_limit() + Duration::from_secs(1))
    }

    /// The same for a wait that ends by itself after [`SAFETY_NET`].
    pub(crate) async fn notification<T>(
        &self,
        wait: impl Future<Output = Result<T, BrokerError>>,
    ) -> Result<T, BrokerError> {
        timeout(SAFETY_NET + self.longest_call(), wait).await.unwrap_or_else(|_| Err(no_answer()))
    }
}

pub(crate) fn no_answer() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Timeout, "the broker gave no answer")
}

/// One task's hold on its slot. However its future ends, the slot is given back and the task is settled.
pub(crate) struct Slot {
    context: Arc<ServerContext>,
    task: Arc<ActiveRun>,
    permit: Option<Permit>,
}

impl Slot {
    /// Runs the task, if it is still ours.
    async fn run(mut self) {
        let (task, permit) = (&self.task, self.permit.take());
        if !lease::still_ours(&self.context, task).await {
            return;
        }
        let decided = |settlement| task.decide(settlement);
        self.context.executor.attempt(&task.attempt, &task.stop, permit, decided).await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.context.settle(&self.task, || self.unended());
        self.context.runs.release(&self.task);
    }
}

impl Slot {
    /// What becomes of a task whose attempt was neither ended nor stopped.
    fn unended(&self) -> Settlement {
        let settlement = ServerContext::requeue_settlement(&self.task.attempt);
        if std::thread::panicking() {
            return Settlement { action: after_mistake(&self.task.attempt.extra), ..settlement };
        }
        self.context.runtime_has_ended();
        settlement
    }
}

/// A defect of this library; going back to the head of the queue would meet it again at once.
fn after_mistake(extra: &Extra) -> Action {
    let error =
        Some("the worker panicked outside of the job: this is a defect of asynq-runtime, please report it".to_owned());
    Action::Retry { delay: AFTER_MISTAKE, error, counted: true, extra: extra.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_of_ours_takes_no_option_from_the_task() {
        let extra = Extra { max_crashes: Some(7), expires_ms: Some(1), unique_extend: true, ..Extra::default() };
        let Action::Retry { extra: kept, counted: true, .. } = after_mistake(&extra) else { panic!("it is a failure") };
        assert_eq!(kept, extra);
    }
}

//! The slots in which a server runs tasks: one task each, from its start to its settlement.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use super::{active_runs::ActiveRun, layer_stack::Permit, lease, server_context::ServerContext};
use crate::{broker::Action, panics, task::Extra};

/// Delay before the next try of a task whose attempt met a defect of this library.
const AFTER_MISTAKE: Duration = Duration::from_secs(60);

impl ServerContext {
    /// Gives a held task a slot, which is free again as soon as its job has ended or the slot is dropped. The outbox then sends
    /// the outcome of the task. Returns `None` if the task was lost meanwhile.
    pub(crate) fn slot(self: &Arc<Self>, task: Arc<ActiveRun>, permit: Option<Permit>) -> Option<Slot> {
        let starts = self.runs.start(&task);
        starts.then(|| Slot { context: Arc::clone(self), task, permit })
    }

    /// Spawns each task on the jobs' runtime. Several tasks are spawned from one task on that runtime: each spawn from another
    /// thread takes a lock and wakes a thread.
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
}

/// The slot of one task. However the task's future ends, the drop frees the slot and settles the task.
pub(crate) struct Slot {
    context: Arc<ServerContext>,
    task: Arc<ActiveRun>,
    permit: Option<Permit>,
}

impl Slot {
    /// Runs the task. A panic is caught here: `std::thread::panicking` is also true in the drop of a slot whose runtime ends because the
    /// program panics.
    async fn run(mut self) {
        let mut work = pin!(work(&self.context, &self.task, self.permit.take()));
        let ended = poll_fn(|cx| match panics::catch(|| work.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        if let Err(panic) = ended.await {
            self.context.settle(&self.task, || after_mistake(&self.task.attempt.extra, &panic));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut is_unended = false;
        self.context.settle(&self.task, || {
            is_unended = true;
            Action::Requeue
        });
        if is_unended {
            // This writes a line, which is code of the program: `settle` calls its closure under the lock of the outbox.
            self.context.runtime_has_ended();
        }
        self.context.runs.release(&self.task);
    }
}

/// Runs a task, if this server still has its lease.
async fn work(context: &ServerContext, task: &Arc<ActiveRun>, permit: Option<Permit>) {
    if lease::still_ours(context, task).await {
        let decided = |action| task.decide(action);
        context.executor.attempt(&task.attempt, &task.stop, permit, decided).await;
    }
}

/// Returns the action after a defect of this library. A task at the head of its queue would meet the defect again at once.
fn after_mistake(extra: &Extra, panic: &str) -> Action {
    let error =
        format!("the worker panicked outside of the job: this is a defect of asynq-runtime, please report it: {panic}");
    Action::Retry { delay: AFTER_MISTAKE, error: Some(error), counted: true, extra: extra.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_error_leaves_the_options_of_the_task() {
        let extra = Extra { max_crashes: Some(7), expires_ms: Some(1), unique_extend: true, ..Extra::default() };
        let Action::Retry { extra: extra_after, counted: true, .. } = after_mistake(&extra, "panic: no") else {
            panic!("it is a failure")
        };
        assert_eq!(extra_after, extra);
    }
}

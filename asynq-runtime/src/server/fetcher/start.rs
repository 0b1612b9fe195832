//! Starts the tasks that were taken, as far as the quarantine, limits and layers allow.

use std::{mem, sync::Arc};

use super::{super::active_runs::ActiveRun, FEW, Fetcher};

impl Fetcher {
    /// Starts the tasks that may start. Returns the rest: all of them if the server is leaving; tasks that the layers do not
    /// take at once; and tasks that were not asked for, among them quarantined tasks beside another one. Neither broker gives
    /// such tasks, but a slot too many would be worse than a requeue.
    pub(super) async fn start(&mut self, tasks: Vec<Arc<ActiveRun>>) -> Vec<Arc<ActiveRun>> {
        let context = Arc::clone(&self.context);
        let (mut slots, mut rest, mut stalled) = (Vec::with_capacity(tasks.len()), Vec::new(), false);
        for task in tasks {
            let attempt = &task.attempt;
            let is_quarantined = attempt.is_quarantined();
            let queue = self.queues.position(&attempt.key.queue);
            let is_full = context.runs.free() == 0 || queue.is_some_and(|queue| self.room_of(queue) == 0);
            let is_beside = is_quarantined && context.runs.quarantined_runs();
            if stalled || context.closing.is_cancelled() || is_beside || is_full {
                rest.push(task);
                continue;
            }
            if let Some(layer_stack) = &context.layer_stack {
                if self.permit.is_none() {
                    let permit = layer_stack.permit_at_once(&context.jobs);
                    self.permit = context.quiet.run_until_cancelled(permit).await.flatten();
                }
                if self.permit.is_none() {
                    stalled = true;
                    layer_stack.batch_controller().stalled();
                    rest.push(task);
                    continue;
                }
                layer_stack.batch_controller().started();
            }
            if is_quarantined && !attempt.is_poison() {
                let (id, queue, r#type) = (&attempt.key.id, &attempt.key.queue, &attempt.message.r#type);
                let crashes = attempt.crashes;
                log!(warn, %id, %queue, r#type, crashes, "workers crashed while this task ran, and the next crash archives it; no other quarantined task runs now");
            }
            slots.extend(context.slot(task, self.permit.take()));
            if context.layer_stack.is_some() {
                // The layers give the next permit when this one is used.
                context.launch(mem::take(&mut slots));
            }
        }
        // Tasks are spawned one by one where the runtime has to poll them before the fetcher goes on.
        let goes_last = context.broker.dequeues_beside_jobs() && self.room() < FEW;
        if goes_last {
            slots.into_iter().for_each(|slot| context.launch(vec![slot]));
        } else {
            context.launch(slots);
        }
        rest
    }
}

//! Sleeps until there may be work, and takes it in the same call where one call can ask every queue.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tokio_util::sync::CancellationToken;

use super::{
    super::{
        config::SAFETY_NET,
        queues::{MOST_QUEUES_PER_CALL, Open},
    },
    Fetcher, Next,
    ready_queues::Look,
    wanted,
};
use crate::{
    broker::{BrokerError, Quarantined},
    task::QueueName,
};

impl Fetcher {
    /// Returns how many tasks of each queue to wait for, if one call can ask all queues that may run more tasks, which are `open`: it
    /// asks all of them at once, because it is unknown which queue gets a task first.
    fn ask_all(&mut self, open: &[Open]) -> Option<Vec<(usize, usize)>> {
        let most =
            self.context.layer_stack.as_ref().map_or(usize::MAX, |layer_stack| layer_stack.batch_controller().most());
        let room = self.room().min(most);
        let reaches_all =
            !self.context.config.strict && !open.is_empty() && open.len() <= room.min(MOST_QUEUES_PER_CALL);
        reaches_all.then(|| self.queues.probe(room, open, &mut self.random))
    }

    /// Sleeps until some queue may have work, and starts the tasks that came.
    pub(super) async fn wait_for_notification(&mut self) -> Result<Next, BrokerError> {
        let context = Arc::clone(&self.context);
        // Read once: the wait asks the queues that have room now, and `room` ends it when one more has.
        let open: Vec<Open> = self.with_room(self.all()).collect();
        let is_full = open.len() < self.queues.len();
        let shares = self.ask_all(&open);
        let wanted = shares.as_ref().map(|shares| wanted(&self.queues, shares));
        let quarantined = self.quarantined();
        // Read once: if the outcome is taken after this, `freed` ends the wait.
        let is_held = quarantined == Quarantined::None;
        context.found_nothing.store(true, Ordering::Release);
        context.note_idle();
        let names: Vec<QueueName> = open.iter().map(|open| self.queues.names()[open.queue].clone()).collect();
        let (since, stop) = (Instant::now(), CancellationToken::new());
        let notification = async {
            if let Some(wanted) = &wanted {
                let runs = context.broker.wait_and_dequeue(&context.member, wanted, quarantined, SAFETY_NET, &stop);
                return context.notification(runs).await.map(|runs| (runs, Vec::new()));
            }
            if names.is_empty() {
                // Only a free slot or a change of the queues can end this wait.
                std::future::pending::<()>().await;
            }
            let ready = context.broker.wait_for_work(&names, quarantined, SAFETY_NET);
            context.notification(ready).await.map(|ready| (Vec::new(), ready))
        };
        let mut notification = pin!(notification);
        let room = async {
            loop {
                context.runs.freed().await;
                // The next quarantined task may come, or a queue is below its limit again.
                if is_held || self.with_room(self.all()).count() > open.len() {
                    return;
                }
            }
        };
        let found = tokio::select! {
            () = context.quiet.cancelled() => None,
            () = context.queues.changed(&self.queues) => None,
            () = room, if is_held || is_full => None,
            found = &mut notification => Some(found?),
        };
        let is_over = found.is_none();
        let (runs, ready) = match found {
            Some(found) => found,
            // Tasks that are being taken at this moment belong to this server.
            None if shares.is_some() => {
                stop.cancel();
                notification.await?
            }
            None => Default::default(),
        };
        if let Some(shares) = &shares
            && !runs.is_empty()
        {
            context.found_nothing.store(false, Ordering::Release);
            self.wakeups.on_work();
            self.took(shares, runs).await;
            return Ok(Next::Fetch);
        }
        if !ready.is_empty() {
            self.looked = Some(Look::now());
            self.note_ready(self.all(), &ready);
        }
        // A wait begins with a look.
        if is_over {
            return Ok(Next::Wait);
        }
        let pause = self.wakeups.on_nothing(since.elapsed());
        if !pause.is_zero() {
            tokio::select! {
                () = context.quiet.cancelled() => {}
                () = context.runs.freed(), if context.runs.quarantined_runs() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(if ready.is_empty() { Next::Wait } else { Next::Fetch })
    }
}

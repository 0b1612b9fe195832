//! Sends what is due, and deals with what the broker says of it.

use std::{sync::Arc, time::Instant};

use asynq_runtime::{
    broker::{BrokerError, Ticked},
    task::{SchedulerEnqueueEvent, TaskId},
};
use chrono::{DateTime, Utc};
use tracing::Instrument as _;

use super::{
    super::{clock::Reading, missed::Fire, plan::Sent},
    About, Event, MOST_AT_ONCE, Work,
};
use crate::{Periodic, Tick};

impl Work {
    /// Sends what is due.
    pub(super) fn send(&mut self, now: DateTime<Utc>) {
        let room = MOST_AT_ONCE.saturating_sub(self.calls.len());
        for (entry, fire) in self.plan.take(now, room) {
            let tick = Tick::new(fire.at).with_missed(fire.missed);
            // The task of the tick is in the trace of this span.
            let span = tracing::info_span!("tick", id = %entry.id(), r#type = entry.job(), queue = %entry.queue(), at = %fire.at);
            match span.in_scope(|| entry.tick(tick, now, self.settings.revision)) {
                Ok(tick) => {
                    let broker = Arc::clone(&self.broker);
                    let send = async move {
                        let ticked = broker.tick(&tick).await;
                        Event::Ticked(entry, fire, ticked)
                    };
                    self.calls.spawn(send.instrument(span));
                }
                Err(error) => {
                    self.tell_once(About::Ticks, format!("tick of {entry} cannot be enqueued: {error}"));
                    self.plan.answered(entry.id(), fire, Sent::Settled, now);
                }
            }
        }
    }

    pub(super) fn ticked(&mut self, entry: &Arc<Periodic>, fire: Fire, ticked: Result<Ticked, BrokerError>) {
        let (at, now) = (fire.at, self.clock.at(Reading::now()));
        let sent = match ticked {
            Ok(Ticked::Enqueued { cancel, .. }) => {
                tracing::debug!(%at, missed = fire.missed, "{entry} enqueued");
                self.cancel(cancel);
                self.record(entry, entry.id().task_id(at), now);
                Sent::Enqueued
            }
            Ok(Ticked::Early(by)) => {
                tracing::debug!(%at, skew = %self.clock.skew(), "{entry} is early by {by:?}");
                self.timers.measure = Instant::now();
                Sent::Early(by)
            }
            Ok(Ticked::Duplicate { cancel }) => {
                self.cancel(cancel);
                Sent::Settled
            }
            Ok(Ticked::Paused) => {
                tracing::debug!(%at, "{entry} is paused");
                Sent::Settled
            }
            Ok(Ticked::Skipped(previous)) => {
                tracing::info!(%at, %previous, "{entry} left out: the previous task is still there");
                Sent::Settled
            }
            Ok(Ticked::Refused(refused)) => {
                tracing::warn!(%at, "{entry} left out: {refused}");
                Sent::Settled
            }
            Ok(Ticked::Stale) => {
                if self.planned.contains(entry.id()) {
                    self.stand_back(Arc::clone(entry));
                }
                return;
            }
            Err(error) => {
                self.tell_once(About::Ticks, format!("tick of {entry} is sent again: {error}"));
                Sent::Failed
            }
        };
        if sent != Sent::Failed {
            self.goes_well(About::Ticks);
        }
        self.plan.answered(entry.id(), fire, sent, now);
    }

    /// Asks a replaced run to stop: best effort.
    fn cancel(&mut self, replaced: Option<TaskId>) {
        let Some(replaced) = replaced else { return };
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            if let Err(error) = broker.cancel(&replaced).await {
                tracing::warn!(task = %replaced, "the replaced task was not asked to stop: {error}");
            }
            Event::Done
        });
    }

    /// Adds to the history that asynq's tools show: best effort, and never a reason to enqueue again.
    fn record(&mut self, entry: &Periodic, task: TaskId, now: DateTime<Utc>) {
        let (broker, id) = (Arc::clone(&self.broker), entry.id().to_string());
        self.calls.spawn(async move {
            let event = SchedulerEnqueueEvent { task_id: task.to_string(), enqueue_time: Some(now.into()) };
            if let Err(error) = broker.record_enqueue(&id, &event).await {
                tracing::debug!("an enqueue is missing in the history of {id}: {error}");
            }
            Event::Done
        });
    }
}

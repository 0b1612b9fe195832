//! Sends the ticks that are due, and handles the broker's answers.

use std::{collections::HashMap, sync::Arc, time::Instant};

use asynq_runtime::{
    Client,
    broker::{Broker, BrokerError, Ticked},
    metrics::{self, TickOutcome},
    server::RUN_TARGET,
    task::TaskId,
};
use chrono::{DateTime, TimeDelta, Utc};
use tracing::Instrument as _;

use super::{
    super::{clock::Reading, plan::Sent},
    COMPONENT, Event, MOST_AT_ONCE, RoundTrip, WarningTopic, Work,
};
use crate::{Periodic, Tick, control::record_enqueue, missed::Fire};

/// The newest last tick of each job, which may have several entries. A new entry counts as ticked when it becomes known, so that
/// a job whose first tick never comes is noticed.
#[derive(Default)]
pub(super) struct LastTicks(HashMap<String, DateTime<Utc>>);

impl LastTicks {
    /// Raises the metric of the job's last tick to `at`. A value in the future was stored before the clock went back, and is
    /// overwritten.
    pub(super) fn record(&mut self, job: &str, at: DateTime<Utc>, now: DateTime<Utc>) {
        metrics::last_tick(job, self.newest(job, at, now));
    }

    fn newest(&mut self, job: &str, at: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        let newest = self.0.entry(job.to_owned()).or_insert(at);
        *newest = if *newest > now { at } else { at.max(*newest) };
        *newest
    }
}

impl Work {
    /// Sends the ticks that are due.
    pub(super) fn send(&mut self, now: DateTime<Utc>) {
        let room = MOST_AT_ONCE.saturating_sub(self.ticking);
        for (entry, fire, known) in self.plan.take(now, room) {
            let tick = Tick::new(fire.at).with_missed(fire.missed);
            // The task of the tick is in the trace of this span. Without a subscriber tracing may write each span to the crate `log`.
            let span = if tracing::dispatcher::has_been_set() {
                tracing::error_span!(
                    target: RUN_TARGET,
                    "tick",
                    id = %entry.id(),
                    r#type = entry.job(),
                    queue = %entry.queue(),
                    at = %fire.at,
                )
            } else {
                tracing::Span::none()
            };
            match span.in_scope(|| entry.tick(tick, known, now, self.settings.revision)) {
                Ok(tick) => {
                    let broker = Arc::clone(&self.broker);
                    let is_resend = self.plan.has_failed(entry.id());
                    self.keep_shape(&entry);
                    let send = async move {
                        let before = Reading::now();
                        let ticked = broker.tick(&tick).await;
                        let round_trip = RoundTrip { before, after: Reading::now() };
                        let is_lost_answer = is_resend
                            && matches!(ticked, Ok(Ticked::Duplicate))
                            && is_previous(&*broker, &entry, fire.at).await;
                        Event::Ticked(entry, fire, ticked, is_lost_answer, round_trip)
                    };
                    self.ticking += 1;
                    self.calls.spawn(send.instrument(span));
                }
                Err(error) => {
                    let topic = WarningTopic::Ticks(entry.id().clone());
                    self.warn_once(topic, format!("tick of {entry} cannot be enqueued: {error}"));
                    metrics::ticks(entry.job(), TickOutcome::Invalid, 1);
                    self.plan.answered(entry.id(), fire, Sent::Invalid, now);
                }
            }
        }
    }

    /// Keeps the shape of the arguments of an entry's task once a day: a worker of another version needs it, and this program need
    /// not serve the job. No tick waits for that, because another master of a cluster may store the shape. One call per shape is
    /// under way at a time.
    fn keep_shape(&mut self, entry: &Arc<Periodic>) {
        let (client, entry) = (Client::new(Arc::clone(&self.broker)), Arc::clone(entry));
        if client.has_due_shape(&entry.task) {
            self.calls.spawn(async move {
                client.keep_shape(&entry.task).await;
                Event::Done
            });
        }
    }

    /// Takes the broker's answer to a tick. With `is_lost_answer` the broker has refused the task as a duplicate of one that an earlier
    /// send of this scheduler enqueued, so that the tick counts as enqueued: only the answer to that send was lost.
    pub(super) fn ticked(
        &mut self,
        entry: &Arc<Periodic>,
        fire: Fire,
        ticked: Result<Ticked, BrokerError>,
        is_lost_answer: bool,
        round_trip: &RoundTrip,
    ) {
        if matches!(ticked, Ok(Ticked::Behind)) && !self.is_planning_anew {
            self.on_lost_writes();
            return;
        }
        let (at, now) = (fire.at, self.clock.at(Reading::now()));
        let last_ticks = &mut self.last_ticks;
        let mut count = |outcome| {
            metrics::ticks(entry.job(), outcome, 1);
            metrics::ticks(entry.job(), TickOutcome::Missed, fire.missed);
            metrics::tick_lateness(entry.job(), at, now);
            last_ticks.record(entry.job(), at, now);
        };
        let sent = match ticked {
            Ok(Ticked::Duplicate) if !is_lost_answer => {
                metrics::ticks(entry.job(), TickOutcome::Duplicate, 1);
                self.last_ticks.record(entry.job(), at, now);
                Sent::Settled
            }
            Ok(Ticked::Enqueued(_) | Ticked::Duplicate) => {
                log!(debug, %at, missed = fire.missed, "{entry} enqueued");
                count(TickOutcome::Enqueued);
                self.record(entry, entry.id().task_id(at), now);
                Sent::Enqueued
            }
            Ok(Ticked::Early(by)) => {
                log!(debug, %at, skew = %self.clock.skew(), "{entry} is early by {by:?}");
                let broker = TimeDelta::from_std(by).ok().and_then(|by| at.checked_sub_signed(by)).unwrap_or(at);
                self.clock_is(entry.queue(), broker, round_trip);
                Sent::Early
            }
            Ok(Ticked::Paused) => {
                log!(debug, %at, "{entry} is paused");
                count(TickOutcome::Paused);
                Sent::Settled
            }
            Ok(Ticked::Skipped(previous)) => {
                count(TickOutcome::Skipped);
                log!(info, %at, %previous, "{entry} left out: the previous task is still there");
                Sent::Settled
            }
            Ok(Ticked::Refused(refused)) => {
                count(TickOutcome::Refused);
                log!(warn, %at, "{entry} left out: {refused}");
                Sent::Settled
            }
            Ok(Ticked::Stale | Ticked::Behind) => {
                // The answer to a plan names the newer revision, or the last tick. While all entries are planned anew, that is not begun
                // again for each one that is behind.
                self.plan.remove(entry.id());
                self.plan_at(Instant::now(), entry.id());
                return;
            }
            Err(error) => {
                metrics::broker_failed(COMPONENT, error.kind());
                let topic = WarningTopic::Ticks(entry.id().clone());
                self.warn_once(topic, format!("tick of {entry} is sent again: {error}"));
                Sent::Failed
            }
        };
        if sent != Sent::Failed {
            self.on_success(&WarningTopic::Ticks(entry.id().clone()));
        }
        self.plan.answered(entry.id(), fire, sent, now);
    }

    /// Adds an enqueue to the history that asynq's tools show: best effort, and never a reason to enqueue again.
    fn record(&mut self, entry: &Periodic, task: TaskId, now: DateTime<Utc>) {
        let (broker, id) = (Arc::clone(&self.broker), entry.id().clone());
        self.calls.spawn(async move {
            record_enqueue(&*broker, &id, &task, now).await;
            Event::Done
        });
    }
}

/// Whether this tick was the last one of its entry that enqueued a task; `false` if the broker fails.
async fn is_previous(broker: &dyn Broker, entry: &Periodic, at: DateTime<Utc>) -> bool {
    let state = broker.entry(entry.queue(), entry.id()).await;
    let previous = state.ok().flatten().and_then(|state| state.previous);
    previous.is_some_and(|task| task == entry.id().task_id(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tick_of_a_job_is_the_newest_of_its_entries_until_the_clock_goes_back() {
        let at = |seconds: i64| DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
        let mut ticks = LastTicks::default();
        for (tick, now, expected) in [(100, 100, 100), (40, 100, 100), (160, 160, 160), (90, 100, 90), (95, 100, 95)] {
            assert_eq!(ticks.newest("report", at(tick), at(now)), at(expected), "{tick} at {now}");
        }
        assert_eq!(ticks.newest("another", at(1), at(100)), at(1));
    }
}

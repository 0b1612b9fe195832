//! Calls that wait in the writer until they have something to do: a claim waits for the next task, a forward for the next due
//! time. So a task that comes to an idle server is taken in the commit that stores it, by the thread that stores it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    command::{Command, Priority, Ready},
    tx::View,
};

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Parked {
    works: Vec<Command>,
    /// Whether a write came since the calls were asked.
    is_stale: bool,
    /// When the first of the calls has something to do even without a write, in Unix milliseconds.
    due: Option<i64>,
}

impl Parked {
    /// Lets a call wait; the next look asks the call for the first time.
    pub(super) fn add(&mut self, work: Command) {
        self.forget_given_up();
        self.works.push(work);
        self.is_stale = true;
    }

    /// Drops cancelled calls, which still hold a permit.
    fn forget_given_up(&mut self) {
        self.works.retain(|work| !work.call.is_given_up());
    }

    /// Notes that a write came.
    pub(super) fn notify(&mut self) {
        self.is_stale = true;
    }

    /// Whether a call may have something to do now.
    pub(super) fn is_eager(&self) -> bool {
        self.is_stale && !self.works.is_empty()
    }

    /// Returns how long no call has something to do without a write, at most `longest`.
    pub(super) fn pause(&self, now: DateTime<Utc>, longest: Duration) -> Duration {
        if self.is_eager() {
            return Duration::ZERO;
        }
        let Some(due) = self.due.and_then(DateTime::from_timestamp_millis) else { return longest };
        (due - now).to_std().unwrap_or_default().min(longest)
    }

    /// Takes out the calls that have something to do, if any can have something to do.
    pub(super) fn ready(&mut self, view: &View<'_>) -> Vec<Command> {
        if !self.is_stale && self.due.is_none_or(|due| due > view.now) {
            return Vec::new();
        }
        (self.is_stale, self.due) = (false, None);
        self.forget_given_up();
        let due = &mut self.due;
        let ready = self.works.extract_if(.., |work| match work.ready(view) {
            Ready::Now => true,
            Ready::At(at) => {
                *due = Some(due.map_or(at, |due| due.min(at)));
                false
            }
            Ready::AfterNotification => false,
        });
        ready.collect()
    }

    /// Takes out the claims that have something to take now, within the transaction that brings the tasks.
    pub(super) fn claims(&mut self, view: &View<'_>) -> Vec<Command> {
        self.forget_given_up();
        let is_ready = |work: &mut Command| work.priority == Priority::Claim && work.ready(view) == Ready::Now;
        self.works.extract_if(.., is_ready).collect()
    }

    /// Takes all calls out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Command> {
        self.works.drain(..)
    }
}

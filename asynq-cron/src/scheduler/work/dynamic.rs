//! The counterpart of asynq's PeriodicTaskManager: takes entries from a function and compares them with the known ones.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    BoxError,
    broker::EntryId,
    job::{BoxFuture, with_causes},
};
use tokio::task::JoinError;

use super::{Known, Origin, WarningTopic, Work, rounds::is_due};
use crate::{
    Periodic,
    scheduler::{check, twice},
};

/// A call of the provider is given up after the time between two calls, but never earlier than this. A new leader waits for an
/// answer this long: with the default lease less than the minute by which a tick is still on time.
const PROVIDER_LIMIT: Duration = Duration::from_secs(30);
/// Most characters of a provider's error in the log, because it may quote all its rows.
const LONGEST_ERROR: usize = 4096;

/// The source of dynamic entries.
#[derive(Clone)]
pub(crate) struct Provider(
    pub(crate) Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Periodic>, BoxError>> + Send + Sync>,
);

impl Work {
    /// Calls the provider when that is due and its last call has ended, and gives up a call that takes too long.
    pub(super) fn provide(&mut self, now: Instant) {
        if self.is_unconfirmed && now.saturating_duration_since(self.led_since) >= PROVIDER_LIMIT {
            self.is_unconfirmed = false;
            self.plan_waiting();
        }
        let limit = self.provider_limit();
        let Some(provider) = &self.provider else { return };
        if self.providing.is_empty() {
            if is_due(&mut self.timers.provide, now, self.settings.sync_every) {
                // The provider is called inside of the task, so that it panics or blocks there.
                let provider = provider.clone();
                self.providing.spawn_on(async move { (provider.0)().await }, &self.jobs);
                self.asked_at = Some(now);
            }
        } else if self.asked_at.is_some_and(|at| now.saturating_duration_since(at) >= limit) {
            self.give_up();
        }
    }

    /// Gives up the provider call, which has taken too long. One that blocks its thread goes on.
    fn give_up(&mut self) {
        self.providing.abort_all();
        let limit = self.provider_limit();
        let text = format!(
            "the provider of periodic entries has not answered for {limit:?}: its call is given up, the known entries \
             stay, and it is asked again when its call has ended"
        );
        self.warn_once(WarningTopic::Provider, text);
    }

    fn provider_limit(&self) -> Duration {
        self.settings.sync_every.max(PROVIDER_LIMIT)
    }

    /// Handles the end of a provider call. The answer to a call that began before this scheduler led, or that took too long, is
    /// discarded: the provider is asked again at once.
    pub(super) fn provider_ended(&mut self, ended: Result<Result<Vec<Periodic>, BoxError>, JoinError>) {
        let Some(at) = self.asked_at.take().filter(|at| !self.leads || *at >= self.led_since) else { return };
        if at.elapsed() >= self.provider_limit() {
            self.give_up();
            return;
        }
        match ended {
            Ok(entries) => self.provided(entries),
            // The runtime of the jobs has ended.
            Err(ended) if ended.is_cancelled() => {}
            Err(ended) => self.provided(Err(ended.into())),
        }
    }

    /// Takes over the provider's entries. An error keeps the known entries. An entry that is not valid is left out with a warning,
    /// and not forgotten, so that it is still paused once it is valid again.
    pub(super) fn provided(&mut self, entries: Result<Vec<Periodic>, BoxError>) {
        self.campaign.begin(Instant::now());
        let is_first_as_leader = std::mem::take(&mut self.is_unconfirmed);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let why: String = with_causes(&*error).chars().take(LONGEST_ERROR).collect();
                self.warn_once(
                    WarningTopic::Provider,
                    format!("the periodic entries could not be read, the known ones stay: {why}"),
                );
                if is_first_as_leader {
                    self.plan_waiting();
                }
                return;
            }
        };
        self.has_answered = true;
        let (mut answer, wrong) = self.checked(entries);
        // The provider has succeeded; mistakes that its answer still has are not written again.
        let still_wrong: HashSet<_> = wrong.iter().collect();
        self.logged.retain(|(topic, text)| *topic != WarningTopic::Provider || still_wrong.contains(text));
        for text in wrong {
            self.warn_once(WarningTopic::Provider, text);
        }
        let mut changed = HashSet::new();
        self.known.retain(|id, known| {
            let (origin, entry) = match (known.origin, answer.remove(id)) {
                (Origin::Program, _) => return true,
                (_, Some(Some(entry))) => (Origin::Provider, entry),
                (_, Some(None)) => (Origin::Invalid, Arc::clone(&known.entry)),
                (_, None) => (Origin::Gone, Arc::clone(&known.entry)),
            };
            // An entry that did not change keeps its place.
            if origin == known.origin && (Arc::ptr_eq(&known.entry, &entry) || known.entry.is_same_plan(&entry)) {
                return true;
            }
            // A changed entry is planned again.
            self.plan.remove(id);
            changed.insert(id.clone());
            *known = Known::new(entry, origin);
            if known.is_gone() && self.leads {
                log!(info, program = %self.settings.program, "schedule: - {}", known.entry.name());
            }
            !known.is_gone() || self.leads
        });
        let new = answer.into_iter().filter_map(|(id, entry)| Some((id, Known::new(entry?, Origin::Provider))));
        let count = self.known.len();
        self.known.extend(new);
        // The clocks of queues that came and went would leave no room for those of new ones.
        let queues: HashSet<_> = self.known.values().map(|known| known.entry.queue()).collect();
        self.clocks.retain(|queue, _| queues.contains(queue));
        // A changed entry does not wait for the pause after a refused plan: that plan was another.
        self.to_plan.retain(|(_, id)| !changed.contains(id));
        if !changed.is_empty() || self.known.len() > count || is_first_as_leader {
            self.timers.show = Instant::now();
            self.plan_waiting();
        }
    }

    /// Checks the entries of an answer, and returns its mistakes besides. An entry that is not valid has no value.
    fn checked(&self, entries: Vec<Periodic>) -> (HashMap<EntryId, Option<Arc<Periodic>>>, Vec<String>) {
        let (mut answer, mut wrong) = (HashMap::<EntryId, Option<Arc<Periodic>>>::new(), Vec::new());
        for entry in entries {
            let id = entry.id().clone();
            let own = self.known.get(&id).filter(|known| known.origin == Origin::Program).map(|known| &known.entry);
            let other = own.or_else(|| answer.get(&id)?.as_ref());
            let once = || other.map_or(Ok(()), |other| Err(twice(&entry, other)));
            match check(&entry, &self.registry).and_then(|()| once()) {
                Ok(()) => {
                    answer.insert(id, Some(Arc::new(entry)));
                }
                Err(error) => {
                    // The line names the entry, because many entries of a provider have the same job and the same mistake.
                    wrong.push(format!("periodic entry {} is left out: {error}", entry.name()));
                    answer.entry(id).or_insert(None);
                }
            }
        }
        (answer, wrong)
    }
}

//! The counterpart of asynq's PeriodicTaskManager: takes entries from a function and compares them with the known ones.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{BoxError, broker::EntryId, job::BoxFuture};
use tokio::task::JoinError;

use super::{Gone, WarningTopic, Work, rounds::is_due};
use crate::{
    Periodic, PeriodicError,
    scheduler::{check, twice},
};

/// A call of the provider is given up after the time between two calls, but never earlier than this. A new leader waits for an
/// answer this long: less than the minute by which a tick is still on time.
const PROVIDER_LIMIT: Duration = Duration::from_secs(30);

/// The source of dynamic entries.
#[derive(Clone)]
pub(crate) struct Provider(
    pub(crate) Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Periodic>, BoxError>> + Send + Sync>,
);

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider(..)")
    }
}

impl Work {
    /// Calls the provider when that is due and its last call has ended, and gives up a call that takes too long.
    pub(super) fn provide(&mut self, now: Instant) {
        if self.is_unconfirmed && now.saturating_duration_since(self.led_since) >= PROVIDER_LIMIT {
            self.is_unconfirmed = false;
            self.reconcile();
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
        } else if self.asked_at.take_if(|at| now.saturating_duration_since(*at) >= limit).is_some() {
            self.providing.abort_all();
            let text = format!(
                "the provider of periodic entries has not answered for {limit:?}: its call is given up, the known entries \
                 stay, and it is asked again"
            );
            self.warn_once(WarningTopic::Provider, text);
        }
    }

    fn provider_limit(&self) -> Duration {
        self.settings.sync_every.max(PROVIDER_LIMIT)
    }

    /// Handles the end of a provider call. The answer to a call that began before this scheduler led, or that was given up, is
    /// discarded: the provider is asked again at once.
    pub(super) fn provider_ended(&mut self, ended: Result<Result<Vec<Periodic>, BoxError>, JoinError>) {
        let asked_at = self.asked_at.take();
        if asked_at.is_none_or(|at| self.leads && at < self.led_since) {
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
                self.warn_once(
                    WarningTopic::Provider,
                    format!("the periodic entries could not be read, the known ones stay: {error}"),
                );
                if is_first_as_leader {
                    self.reconcile();
                }
                return;
            }
        };
        let before = self.dynamic.take().unwrap_or_default();
        let (mut now, mut wrong) = (HashMap::<EntryId, Arc<Periodic>>::new(), Vec::new());
        let mut refused = HashSet::new();
        for entry in entries {
            if let Err(error) = check(&entry, &self.registry) {
                wrong.push(left_out(&entry, &error));
                refused.insert(entry.id().clone());
                continue;
            }
            let fixed = self.entries.get(entry.id()).filter(|known| !before.contains_key(known.id()));
            if let Some(other) = fixed.or_else(|| now.get(entry.id())) {
                wrong.push(left_out(&entry, &twice(&entry, other)));
                continue;
            }
            // An entry that did not change keeps its place.
            let known = before.get(entry.id()).filter(|known| known.is_same_plan(&entry)).cloned();
            let entry = known.unwrap_or_else(|| Arc::new(entry));
            now.insert(entry.id().clone(), entry);
        }
        // The provider has succeeded; mistakes that its answer still has are not written again.
        let still_wrong: HashSet<_> = wrong.iter().collect();
        self.logged.retain(|(topic, text)| *topic != WarningTopic::Provider || still_wrong.contains(text));
        for text in wrong {
            self.warn_once(WarningTopic::Provider, text);
        }
        let is_same = |id: &EntryId, old: &Arc<Periodic>| now.get(id).is_some_and(|new| Arc::ptr_eq(new, old));
        let changed: Vec<_> = before.iter().filter(|(id, old)| !is_same(id, old)).collect();
        let differs = !changed.is_empty() || now.len() != before.len();
        self.to_forget.retain(|Gone { entry, .. }| !now.contains_key(entry.id()) && !refused.contains(entry.id()));
        for (id, old) in changed {
            self.entries.remove(id);
            self.outranked.remove(id);
            // A changed entry is planned again.
            if self.planned.remove(id) || is_first_as_leader {
                self.plan.remove(id);
                self.to_plan.retain(|(_, entry)| entry.id() != id);
                if !now.contains_key(id) && !refused.contains(id) {
                    log!(info, program = %self.settings.program, "schedule: - {}", old.name());
                    self.to_forget.push(Gone { entry: Arc::clone(old), unlisted_since: None });
                }
            }
        }
        self.entries.extend(now.iter().map(|(id, entry)| (id.clone(), Arc::clone(entry))));
        self.dynamic = Some(now);
        self.refused = refused;
        if !differs && !is_first_as_leader {
            return;
        }
        self.outranked.retain(|id, _| self.entries.contains_key(id));
        self.timers.show = Instant::now();
        self.reconcile();
    }
}

/// Names the entry, because many entries of a provider have the same job and the same mistake.
fn left_out(entry: &Periodic, error: &PeriodicError) -> String {
    format!("periodic entry {} is left out: {error}", entry.name())
}

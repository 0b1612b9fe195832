//! asynq's PeriodicTaskManager: entries from a function, compared with those that are known.

use std::{collections::HashMap, fmt, sync::Arc, time::Instant};

use asynq_runtime::{BoxError, broker::EntryId, job::BoxFuture};

use super::{About, Event, Work};
use crate::{
    Periodic,
    scheduler::{check, twice},
};

/// Where dynamic entries come from.
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
    /// Takes over what the provider says; anything wrong leaves all as it was.
    pub(super) fn provided(&mut self, entries: Result<Vec<Periodic>, BoxError>) {
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.tell_once(
                    About::Provider,
                    format!("the periodic entries could not be read, the known ones stay: {error}"),
                );
                return;
            }
        };
        let before = self.dynamic.take().unwrap_or_default();
        let (mut now, mut wrong) = (HashMap::<EntryId, Arc<Periodic>>::new(), Vec::new());
        for entry in entries {
            if let Err(error) = check(&entry, &self.registry) {
                wrong.push(error.to_string());
                continue;
            }
            let fixed = self.entries.get(entry.id()).filter(|known| !before.contains_key(known.id()));
            if let Some(other) = fixed.or_else(|| now.get(entry.id())) {
                wrong.push(twice(&entry, other).to_string());
                continue;
            }
            // An entry that did not change keeps its place.
            let known = before.get(entry.id()).filter(|known| known.is_same_plan(&entry)).cloned();
            let entry = known.unwrap_or_else(|| Arc::new(entry));
            now.insert(entry.id().clone(), entry);
        }
        if wrong.is_empty() {
            self.goes_well(About::Provider);
        }
        for text in wrong {
            self.tell_once(About::Provider, text);
        }
        let is_same = |id: &EntryId, old: &Arc<Periodic>| now.get(id).is_some_and(|new| Arc::ptr_eq(new, old));
        let changed: Vec<_> = before.iter().filter(|(id, old)| !is_same(id, old)).collect();
        let differs = !changed.is_empty() || now.len() != before.len();
        for (id, old) in changed {
            self.entries.remove(id);
            // Planned anew where it changed.
            if self.planned.remove(id) {
                self.plan.remove(id);
                self.to_plan.retain(|(_, entry)| entry.id() != id);
                if !now.contains_key(id) {
                    self.forget(old);
                }
            }
        }
        self.entries.extend(now.iter().map(|(id, entry)| (id.clone(), Arc::clone(entry))));
        self.dynamic = Some(now);
        if !differs {
            return;
        }
        self.orphans.retain(|id, _| self.entries.contains_key(id));
        self.timers.show = Instant::now();
        if self.leads {
            self.timers.compare = Some(Instant::now());
        }
        self.reconcile();
    }

    fn forget(&mut self, entry: &Arc<Periodic>) {
        let (broker, entry) = (Arc::clone(&self.broker), Arc::clone(entry));
        self.calls.spawn(async move {
            if let Err(error) = broker.forget_entry(entry.queue(), entry.id()).await {
                tracing::debug!("{entry} is forgotten later: {error}");
            }
            Event::Done
        });
    }
}

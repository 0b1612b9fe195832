//! asynq's PeriodicTaskManager: entries from a function, compared with those that are known.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Instant,
};

use asynq_runtime::{BoxError, broker::EntryId, job::BoxFuture};

use super::{Event, Work};
use crate::{
    Periodic,
    registry::diff,
    scheduler::{check, shown, twice},
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
                self.tell_once(format!("the periodic entries could not be read, the known ones stay: {error}"));
                return;
            }
        };
        let mut now: HashMap<EntryId, Arc<Periodic>> = HashMap::new();
        for entry in entries {
            if let Err(error) = check(&entry, &self.registry) {
                self.tell_once(error.to_string());
                continue;
            }
            let fixed = self.entries.get(entry.id()).filter(|known| !self.dynamic.contains_key(known.id()));
            if let Some(other) = fixed.or_else(|| now.get(entry.id())) {
                let error = twice(&entry, other).to_string();
                self.tell_once(error);
                continue;
            }
            // An entry that did not change keeps its place.
            let known = self.dynamic.get(entry.id()).filter(|known| known.is_same_plan(&entry)).cloned();
            let entry = known.unwrap_or_else(|| Arc::new(entry));
            now.insert(entry.id().clone(), entry);
        }
        let keys = |entries: &HashMap<EntryId, Arc<Periodic>>| -> BTreeMap<_, _> {
            entries.values().map(|entry| shown::key(entry)).collect()
        };
        let lines = diff::lines(&keys(&self.dynamic), &keys(&now));
        if self.leads {
            for line in lines {
                tracing::info!("schedule: {line}");
            }
        }
        for (id, old) in std::mem::take(&mut self.dynamic) {
            let same = now.get(&id).is_some_and(|new| Arc::ptr_eq(new, &old));
            if same {
                continue;
            }
            self.entries.remove(&id);
            // Planned anew where it changed.
            if self.planned.remove(&id) {
                self.plan.remove(&id);
                self.to_plan.retain(|(_, entry)| entry.id() != &id);
                if !now.contains_key(&id) {
                    self.forget(&old);
                }
            }
        }
        self.entries.extend(now.iter().map(|(id, entry)| (id.clone(), Arc::clone(entry))));
        self.dynamic = now;
        self.orphans.retain(|id, _| self.entries.contains_key(id));
        self.timers.show = Instant::now();
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

//! Shows schedulers to asynq's tools: their entries and enqueues, in Go's format.

use std::time::Duration;

use prost::Message as _;

use crate::{
    broker::{
        BrokerError, Page,
        redis::{
            RedisBroker,
            keys::{SCHEDULERS, scheduler_entries, scheduler_history},
            reply,
            script::{ANNOUNCE, Call, LIVE, RECORD, SHOW_ENTRIES},
            span::whole_seconds,
        },
    },
    task::{SchedulerEnqueueEvent, SchedulerEntry},
};

/// Time to keep the history of an entry after its last enqueue; Go keeps it for ever.
const HISTORY_TTL: Duration = Duration::from_secs(90 * 86_400);

impl RedisBroker {
    pub(super) async fn show(
        &self,
        scheduler: &str,
        entries: &[SchedulerEntry],
        ttl: Duration,
    ) -> Result<(), BrokerError> {
        let (key, ttl) = (scheduler_entries(scheduler), whole_seconds(ttl).max(1));
        let announce = ANNOUNCE.on(&[SCHEDULERS]).arg(self.clock.argument()).arg(ttl).arg(&key);
        let mut show = SHOW_ENTRIES.on(&[key]).arg(ttl);
        for entry in entries {
            show.push(entry.encode_to_vec());
        }
        self.router.send(vec![announce, show]).await?.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    pub(super) async fn withdraw(&self, scheduler: &str) -> Result<(), BrokerError> {
        let key = scheduler_entries(scheduler);
        let calls = vec![Call::plain("ZREM").arg(SCHEDULERS).arg(&key), Call::plain("DEL").arg(key)];
        self.router.send(calls).await?.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    pub(super) async fn record(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        let call = RECORD
            .on(&[scheduler_history(entry)])
            .arg(event.enqueue_time.map_or(0, |at| at.seconds))
            .arg(event.encode_to_vec())
            .arg(HISTORY_TTL.as_secs());
        self.router.send_one(call).await.map(|_| ())
    }

    pub(super) async fn shown_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        // A look writes nothing, so that a replica and a Redis that cannot save answer it: the dead go when a scheduler lists itself.
        let live = self.router.send_one(LIVE.on(&[SCHEDULERS]).arg(self.clock.argument())).await?;
        let names = reply::array(live)?.into_iter().step_by(2).filter_map(reply::text);
        let calls: Vec<Call> = names.map(|name| Call::plain("LRANGE").arg(name).arg(0).arg(-1)).collect();
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for answer in self.router.send(calls).await? {
            // A list that is gone, or that cannot be read, does not hide the others.
            let list = answer.and_then(reply::array).unwrap_or_default();
            // The list begins with the entry that was pushed last.
            let list = list.into_iter().rev().filter_map(reply::bytes);
            entries.extend(list.filter_map(|entry| SchedulerEntry::decode(entry.as_slice()).ok()));
        }
        Ok(entries)
    }

    pub(super) async fn history_of(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        // Beyond the last index that Redis reads there is nothing.
        let index = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let Some(last) = page.offset().saturating_add(page.size).checked_sub(1).filter(|_| page.size > 0) else {
            return Ok(Vec::new());
        };
        let call = Call::plain("ZREVRANGE").arg(scheduler_history(entry)).arg(index(page.offset())).arg(index(last));
        let events = reply::array(self.router.send_one(call).await?)?.into_iter().filter_map(reply::bytes);
        Ok(events.filter_map(|event| SchedulerEnqueueEvent::decode(event.as_slice()).ok()).collect())
    }
}

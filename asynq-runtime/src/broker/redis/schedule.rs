//! Stores periodic entries on Redis: a tick is one script in the slot of its queue, the lead is one key, and asynq's own lists show the
//! entries to its tools (docs/design/schedules.md).

mod lead;
mod tick;

use std::time::Duration;

use chrono::DateTime;
use prost::Message as _;
use redis::Value;

use super::{
    RedisBroker,
    keys::{Keys, SCHEDULERS, leader, scheduler_entries, scheduler_history},
    queue_names::QueueNames,
    reply,
    script::{ANNOUNCE, Call, DROP_SEEN, ENTRY, LIVE, PAUSE_ENTRY, PLAN, RECORD, SHOW_ENTRIES},
    span::whole_seconds,
};
use crate::{
    broker::{
        BrokerError, Candidate, EntryId, EntryPlan, EntryState, Lead, Page, PlanChange, Planned, Schedules, Tick,
        Ticked,
    },
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry},
};

/// Time to keep the history of an entry after its last enqueue. A Go scheduler deletes it when it stops in order, and else keeps it
/// for ever.
const HISTORY_TTL: Duration = Duration::from_secs(90 * 86_400);

#[async_trait::async_trait]
impl Schedules for RedisBroker {
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError> {
        tick.check()?;
        let calls = [QueueNames::call([&tick.plan.queue]), tick::call(tick, &self.clock.argument())];
        let [named, ticked] = self.router.send_together(calls).await?;
        let ticked = ticked?;
        // The tick counts although the name of its queue was not written; the name follows.
        self.note_known(&tick.plan.queue, named);
        tick::read_ticked(ticked, tick)
    }

    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError> {
        let call = self
            .timed(&PLAN, &[Keys::new(&plan.queue).cron(&plan.entry)])
            .arg(&plan.spec)
            .arg(&plan.zone)
            .arg(plan.revision)
            .arg(whole_seconds(plan.keep).max(1))
            .optional(plan.supersedes);
        read_planned(self.router.send_one(call).await?)
    }

    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        let call = self.timed(&ENTRY, &[Keys::new(queue).cron(entry)]);
        read_state(reply::array(self.router.send_one(call).await?)?)
    }

    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError> {
        let call = self.timed(&PAUSE_ENTRY, &[Keys::new(queue).cron(entry)]).arg(i32::from(paused));
        Ok(reply::number(&self.router.send_one(call).await?) == Some(1))
    }

    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError> {
        // One command per key: the two lie on different nodes of a Cluster.
        let delete = |key: String| Call::plain("DEL").arg(key);
        let calls = vec![delete(Keys::new(queue).cron(entry)), delete(scheduler_history(entry.as_str()))];
        self.router.send_all(calls).await
    }

    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError> {
        self.take_or_keep_lead(candidate, ttl).await
    }

    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError> {
        let call = DROP_SEEN.on(&[leader(&candidate.program)]).arg(lead::value(candidate));
        self.router.send_one(call).await.map(|_| ())
    }

    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_free_lead(program, limit).await
    }

    async fn show_entries(
        &self,
        scheduler: &str,
        entries: &[SchedulerEntry],
        ttl: Duration,
    ) -> Result<(), BrokerError> {
        let (key, ttl) = (scheduler_entries(scheduler), whole_seconds(ttl).max(1));
        let announce = self.timed(&ANNOUNCE, &[SCHEDULERS]).arg(ttl).arg(&key);
        let mut show = SHOW_ENTRIES.on(&[key]).arg(ttl);
        for entry in entries {
            show.push(entry.encode_to_vec());
        }
        self.router.send_all(vec![announce, show]).await
    }

    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError> {
        let key = scheduler_entries(scheduler);
        let calls = vec![Call::plain("ZREM").arg(SCHEDULERS).arg(&key), Call::plain("DEL").arg(key)];
        self.router.send_all(calls).await
    }

    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        let call = RECORD
            .on(&[scheduler_history(entry)])
            .arg(event.enqueue_time.map_or(0, |at| at.seconds))
            .arg(event.encode_to_vec())
            .arg(HISTORY_TTL.as_secs());
        self.router.send_one(call).await.map(|_| ())
    }

    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        // A look writes nothing, so that a replica and a Redis that cannot save answer it: the dead go when a scheduler lists itself.
        let live = self.router.send_one(self.timed(&LIVE, &[SCHEDULERS])).await?;
        let names = reply::array(live)?.into_iter().step_by(2).filter_map(reply::text);
        let calls = names.map(|name| Call::plain("LRANGE").arg(name).arg(0).arg(-1)).collect();
        let mut entries = Vec::new();
        for answer in self.router.send(calls).await? {
            // A list that is gone, or of a foreign type, does not hide the others. One on a master that is away is not empty: its entries
            // would count as those of no scheduler.
            let list = match answer {
                Err(error) if error.is_unavailable() => return Err(error),
                answer => answer.and_then(reply::array).unwrap_or_default(),
            };
            // The list begins with the entry that was pushed last.
            let list = list.into_iter().rev().filter_map(reply::bytes);
            entries.extend(list.filter_map(|entry| SchedulerEntry::decode(entry.as_slice()).ok()));
        }
        Ok(entries)
    }

    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        // Beyond the last index that Redis reads there is nothing.
        let index = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let Some(last) = page.offset().saturating_add(page.size).checked_sub(1).filter(|_| page.size > 0) else {
            return Ok(Vec::new());
        };
        let call = Call::plain("ZREVRANGE").arg(scheduler_history(entry)).arg(index(page.offset())).arg(index(last));
        let events = reply::array(self.looking().send_one(call).await?)?.into_iter().filter_map(reply::bytes);
        Ok(events.filter_map(|event| SchedulerEnqueueEvent::decode(event.as_slice()).ok()).collect())
    }
}

/// Reads the answer of `plan.lua`.
fn read_planned(answer: Value) -> Result<Planned, BrokerError> {
    let mut parts = reply::array(answer)?;
    let former: Vec<_> = parts.drain(parts.len().min(STATE)..).filter_map(reply::text).collect();
    let state = read_state(parts)?.ok_or_else(|| reply::unexpected("no entry"))?;
    let change = match <[String; 2]>::try_from(former) {
        Ok([spec, _]) if spec.is_empty() => PlanChange::New,
        Ok([spec, zone]) => PlanChange::Replaced { spec, zone },
        Err(none) if none.is_empty() => PlanChange::None,
        Err(_) => return Err(reply::unexpected("no former schedule")),
    };
    Ok(Planned { state, change })
}

/// Number of parts in the state of an entry.
const STATE: usize = 7;

/// Reads the answer of `entry.lua`; `None` for an unknown entry.
fn read_state(parts: Vec<Value>) -> Result<Option<EntryState>, BrokerError> {
    if parts.len() == 1 {
        return Ok(None);
    }
    let Ok([now, spec, zone, revision, last, previous, paused]) = <[Value; STATE]>::try_from(parts) else {
        return Err(reply::unexpected("no state of an entry"));
    };
    let instant = |value: &Value| {
        let at = reply::number(value).and_then(DateTime::from_timestamp_millis);
        at.ok_or_else(|| reply::unexpected("no time of an entry"))
    };
    let text = |value| reply::text(value).unwrap_or_default();
    Ok(Some(EntryState {
        now: instant(&now)?,
        last: instant(&last)?,
        spec: text(spec),
        zone: text(zone),
        revision: text(revision).parse().unwrap_or_default(),
        previous: reply::text(previous).and_then(reply::id),
        paused: reply::number(&paused) == Some(1),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_entry_is_read_whole_or_not_at_all() {
        let text = |text: &str| Value::BulkString(text.into());
        let read = |parts: &[&str]| read_state(parts.iter().map(|part| text(part)).collect());
        assert!(matches!(read(&["1700000000123"]), Ok(None)));
        let state = read(&["1700000000123", "@daily", "UTC", "18446744073709551615", "1700000000000", "", "1"]);
        let state = state.unwrap().unwrap();
        assert_eq!((state.revision, state.previous, state.paused), (u64::MAX, None, true));
        assert_eq!((state.now - state.last).num_milliseconds(), 123);
        let state = read(&["0", "@daily", "UTC", "x", "0", "t1", "0"]).unwrap().unwrap();
        assert_eq!((state.revision, state.paused), (0, false));
        assert_eq!(state.previous.unwrap(), "t1");
        assert!(read(&[]).is_err());
        assert!(read(&["0", "@daily"]).is_err());
        assert!(read(&["0", "@daily", "UTC", "1", "long ago", "", "0"]).is_err());
    }

    #[test]
    fn a_plan_reports_the_schedule_that_it_replaced() {
        let read = |more: &[&str]| {
            let parts = ["0", "@daily", "UTC", "1", "0", "", "0"].iter().chain(more);
            read_planned(Value::Array(parts.map(|part| Value::BulkString((*part).into())).collect()))
        };
        let change = |more: &[&str]| read(more).unwrap().change;
        assert_eq!(change(&[]), PlanChange::None);
        assert_eq!(change(&["", ""]), PlanChange::New);
        let replaced = PlanChange::Replaced { spec: "@hourly".into(), zone: "UTC".into() };
        assert_eq!(change(&["@hourly", "UTC"]), replaced);
        assert!(read(&["@hourly"]).is_err());
        assert!(read_planned(Value::Array(vec![Value::Int(0)])).is_err());
    }
}

//! Stores periodic entries on Redis: a tick is one script in the slot of its queue, the lead is one key, and asynq's own lists show the
//! entries to its tools (docs/design/schedules.md).

mod lead;
mod shown;
mod tick;

use std::time::Duration;

use chrono::DateTime;
use redis::Value;

use super::{
    RedisBroker,
    keys::{self, Keys},
    reply,
    script::{Call, ENTRY, PAUSE_ENTRY, PLAN},
    span::whole_seconds,
};
use crate::{
    broker::{
        BrokerError, Candidate, EntryId, EntryPlan, EntryState, Lead, Page, PlanChange, Planned, Schedules, Tick,
        Ticked,
    },
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry, TaskId},
};

#[async_trait::async_trait]
impl Schedules for RedisBroker {
    async fn tick(&self, tick: &Tick) -> Result<Ticked, BrokerError> {
        self.fire(tick).await
    }

    async fn plan_entry(&self, plan: &EntryPlan) -> Result<Planned, BrokerError> {
        let call = PLAN
            .on(&[Keys::new(&plan.queue).cron(&plan.entry)])
            .arg(self.clock.argument())
            .arg(&plan.spec)
            .arg(&plan.zone)
            .arg(plan.revision)
            .arg(whole_seconds(plan.keep).max(1))
            .arg(plan.supersedes.map(|revision| revision.to_string()).unwrap_or_default());
        read_planned(self.router.send_one(call).await?)
    }

    async fn entry(&self, queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        let call = ENTRY.on(&[Keys::new(queue).cron(entry)]).arg(self.clock.argument());
        read_state(reply::array(self.router.send_one(call).await?)?)
    }

    async fn pause_entry(&self, queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError> {
        let call = PAUSE_ENTRY.on(&[Keys::new(queue).cron(entry)]).arg(self.clock.argument()).arg(i32::from(paused));
        Ok(reply::number(&self.router.send_one(call).await?) == Some(1))
    }

    async fn forget_entry(&self, queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError> {
        // One command per key: the two lie on different nodes of a Cluster.
        let delete = |key: String| Call::plain("DEL").arg(key);
        let calls = vec![delete(Keys::new(queue).cron(entry)), delete(keys::scheduler_history(entry.as_str()))];
        self.router.send(calls).await?.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    async fn lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError> {
        self.take_or_keep_lead(candidate, ttl).await
    }

    async fn resign(&self, candidate: &Candidate) -> Result<(), BrokerError> {
        self.give_lead_up(candidate).await
    }

    async fn wait_for_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_free_lead(program, lead::lateness(), limit).await
    }

    async fn show_entries(
        &self,
        scheduler: &str,
        entries: &[SchedulerEntry],
        ttl: Duration,
    ) -> Result<(), BrokerError> {
        self.show(scheduler, entries, ttl).await
    }

    async fn withdraw_entries(&self, scheduler: &str) -> Result<(), BrokerError> {
        self.withdraw(scheduler).await
    }

    async fn record_enqueue(&self, entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        self.record(entry, event).await
    }

    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        self.shown_entries().await
    }

    async fn enqueue_history(&self, entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        self.history_of(entry, page).await
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
    let previous = text(previous);
    Ok(Some(EntryState {
        now: instant(&now)?,
        last: instant(&last)?,
        spec: text(spec),
        zone: text(zone),
        revision: text(revision).parse().unwrap_or_default(),
        previous: (!previous.is_empty()).then(|| TaskId::from_wire(&previous)),
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

//! Periodic entries on Redis (CRON.md §7).

use std::time::Duration;

use super::RedisBroker;
use crate::{
    broker::{
        BrokerError, BrokerErrorKind, Candidate, EntryId, EntryPlan, EntryState, Lead, Page, Schedules, Tick, Ticked,
    },
    task::{QueueName, SchedulerEnqueueEvent, SchedulerEntry},
};

fn later() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Unexpected, "not there yet")
}

#[async_trait::async_trait]
impl Schedules for RedisBroker {
    async fn tick(&self, _: &Tick) -> Result<Ticked, BrokerError> {
        Err(later())
    }
    async fn plan_entry(&self, _: &EntryPlan) -> Result<EntryState, BrokerError> {
        Err(later())
    }
    async fn entry(&self, _: &QueueName, _: &EntryId) -> Result<Option<EntryState>, BrokerError> {
        Err(later())
    }
    async fn pause_entry(&self, _: &QueueName, _: &EntryId, _: bool) -> Result<bool, BrokerError> {
        Err(later())
    }
    async fn forget_entry(&self, _: &QueueName, _: &EntryId) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn lead(&self, _: &Candidate, _: Duration) -> Result<Lead, BrokerError> {
        Err(later())
    }
    async fn resign(&self, _: &Candidate) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn wait_for_lead(&self, _: Duration) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn show_entries(&self, _: &str, _: &[SchedulerEntry], _: Duration) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn withdraw_entries(&self, _: &str) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn record_enqueue(&self, _: &str, _: &SchedulerEnqueueEvent) -> Result<(), BrokerError> {
        Err(later())
    }
    async fn scheduler_entries(&self) -> Result<Vec<SchedulerEntry>, BrokerError> {
        Err(later())
    }
    async fn enqueue_history(&self, _: &str, _: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError> {
        Err(later())
    }
}

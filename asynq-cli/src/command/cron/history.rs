//! `cron history`: the tasks that entries enqueued.

use asynq_cron::EntryId;
use asynq_runtime::{
    broker::Page,
    task::{SchedulerEnqueueEvent, Timestamp},
};
use chrono::{DateTime, Utc};
use clap::{Args, builder::RangedU64ValueParser};
use serde_json::json;

use super::{super::several::Several, listed};
use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Style, Table, ago, clean, time},
};

#[derive(Debug, Args)]
pub(crate) struct History {
    /// Ids, as `cron ls` shows them in its first column
    #[arg(required = true, value_name = "ENTRY")]
    entries: Vec<String>,
    /// Which page, counted from 1
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    page: usize,
    /// Enqueues per page, at most 1000: so many are kept
    #[arg(long, default_value_t = 30, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    size: usize,
}

impl History {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let schedule = super::schedule(session).await?;
        let now = session.client().await?.broker().now();
        let style = session.style();
        let page = Page { number: self.page, size: self.size };
        Several::reading("entry")
            .each(session, &self.entries, async |id| {
                let entry = EntryId::from_wire(id);
                let events = schedule.history(&entry, page).await?;
                // An entry that no scheduler lists any more has its history all the same; a later page of it may be empty.
                let first = Page { number: 1, size: 1 };
                if events.is_empty() && (page.number == 1 || schedule.history(&entry, first).await?.is_empty()) {
                    listed(&schedule.entries().await?, id)?;
                }
                let rows = events.iter().map(|event| json!({ "task_id": event.task_id, "at": at(event).map(time) }));
                let fields = json!({ "enqueued": rows.collect::<Vec<_>>() });
                Ok((fields, text(id, &events, now, style)))
            })
            .await
    }
}

fn text(id: &str, events: &[SchedulerEnqueueEvent], now: DateTime<Utc>, style: Style) -> String {
    if events.is_empty() {
        return format!("entry {} enqueued nothing on this page\n", clean(id));
    }
    let mut table = Table::new(style, &["TASK", "ENQUEUED"]);
    for event in events {
        let enqueued = at(event).map(|at| format!("{} ({})", time(at), ago(now, at)));
        table.row([Cell::from(&event.task_id), enqueued.unwrap_or_else(|| "-".into()).into()]);
    }
    format!("Entry: {}\n\n{}", clean(id), table.into_text())
}

fn at(event: &SchedulerEnqueueEvent) -> Option<DateTime<Utc>> {
    event.enqueue_time.and_then(Timestamp::to_datetime)
}

//! `cron ls`: what is scheduled.

use asynq_cron::{CronSpec, EntryId, Schedule};
use asynq_runtime::task::{SchedulerEntry, Timestamp};
use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;

use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Payload, Style, Table, ago, brief, time, until},
};

/// Most characters of a payload in the table, and most bytes of it in JSON.
const PAYLOAD: usize = 60;
const PAYLOAD_IN_JSON: usize = 16 * 1024;

/// With --json: an array of objects with `id`, `spec`, `meaning` (the spec in English), `type`, `queue`, `payload`,
/// `options`, `next_at`, `previous_at`, `paused`
#[derive(Debug, Args)]
pub(crate) struct Ls {}

#[derive(Debug, Serialize)]
struct EntryJson<'a> {
    id: &'a str,
    spec: &'a str,
    /// Null for a spec that is not understood here.
    meaning: Option<String>,
    r#type: &'a str,
    queue: String,
    payload: Payload<'a>,
    options: &'a [String],
    next_at: Option<String>,
    previous_at: Option<String>,
    paused: bool,
}

impl Ls {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let schedule = super::schedule(session).await?;
        let now = session.client().await?.broker().now();
        let mut entries = schedule.entries().await?;
        entries.sort_by(|a, b| (&a.spec, &a.task_type, &a.id).cmp(&(&b.spec, &b.task_type, &b.id)));
        // Replicas of one scheduler list the same entries.
        entries.dedup_by(|a, b| a.id == b.id);
        let mut rows = Vec::with_capacity(entries.len());
        for entry in &entries {
            let state = schedule.entry(&Schedule::queue_of(entry), &EntryId::from_wire(&entry.id)).await?;
            rows.push((entry, state.is_some_and(|state| state.paused)));
        }
        if rows.is_empty() && !session.is_json() {
            session.note("no periodic entries: no scheduler is running");
            return Ok(());
        }
        let value: Vec<_> = rows.iter().map(|&(entry, paused)| to_json(entry, paused)).collect();
        session.answer(&value, |style| table(&rows, now, style))
    }
}

fn table(rows: &[(&SchedulerEntry, bool)], now: DateTime<Utc>, style: Style) -> String {
    let headings = ["ENTRY", "SPEC", "TYPE", "PAYLOAD", "OPTIONS", "NEXT", "PREVIOUS"];
    let mut table = Table::new(style, &headings).wrapped([3, 4]);
    for &(entry, paused) in rows {
        table.row([
            Cell::from(&entry.id),
            Cell::from(&entry.spec),
            Cell::from(&entry.task_type),
            brief(&entry.task_payload, PAYLOAD).into(),
            format!("[{}]", entry.enqueue_options.join(", ")).into(),
            match at(entry.next_enqueue_time) {
                _ if paused => Cell::from("paused").warning(),
                Some(next) => until(now, next).into(),
                None => "never".into(),
            },
            at(entry.prev_enqueue_time).map(|previous| ago(now, previous)).unwrap_or_else(|| "-".into()).into(),
        ]);
    }
    table.into_text()
}

fn to_json(entry: &SchedulerEntry, paused: bool) -> EntryJson<'_> {
    let spec = CronSpec::parse(&entry.spec).or_else(|_| CronSpec::parse_compat(&entry.spec));
    EntryJson {
        id: &entry.id,
        spec: &entry.spec,
        meaning: spec.ok().map(|spec| spec.sentence()),
        r#type: &entry.task_type,
        queue: Schedule::queue_of(entry).to_string(),
        payload: Payload::of(&entry.task_payload, PAYLOAD_IN_JSON),
        options: &entry.enqueue_options,
        next_at: at(entry.next_enqueue_time).map(time),
        previous_at: at(entry.prev_enqueue_time).map(time),
        paused,
    }
}

/// A moment, unless it is Go's way to say never.
fn at(at: Option<Timestamp>) -> Option<DateTime<Utc>> {
    at.filter(|&at| at != Timestamp::NEVER).and_then(Timestamp::to_datetime)
}

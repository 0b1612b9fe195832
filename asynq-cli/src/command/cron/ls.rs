//! `cron ls`: the entries that running schedulers list.

use asynq_cron::Schedule;
use asynq_runtime::inspector::ArgumentReader;
use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::{
    entries::{Entry, entries},
    error::CliError,
    session::Session,
    show::{Cell, Payload, Style, Table, ago, brief, for_people, time, until},
    unlisted,
};

/// Most characters of a payload in the table, and most bytes of it in JSON.
const PAYLOAD: usize = 60;
const PAYLOAD_IN_JSON: usize = 16 * 1024;

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
    /// Null if the state of the entry cannot be read.
    paused: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

pub(super) async fn run(session: &mut Session) -> Result<(), CliError> {
    let client = session.client().await?;
    let now = client.broker().now();
    let rows = entries(&client).await?;
    if rows.is_empty() && !session.is_json() {
        session.note(&unlisted::no_entry(unlisted::reason_of(&client).await?));
        return Ok(());
    }
    let payloads = rows.iter().map(|row| (&*row.listed.task_type, &row.listed.task_payload[..]));
    let reader = client.inspector().argument_reader(payloads).await;
    let value: Vec<_> = rows.iter().map(|row| to_json(row, &reader)).collect();
    let written = session.answer(&value, |style| table(&rows, now, &reader, style));
    let broken: Vec<_> = rows.iter().filter_map(|row| Some((&row.listed.id, row.error.as_deref()?))).collect();
    for (id, error) in &broken {
        session.note(&format!("error: periodic entry `{id}` cannot be read: {error}"));
    }
    let outcome = if broken.is_empty() { Ok(()) } else { Err(CliError::Reported(CliError::FAILED)) };
    CliError::unless_reader_left(written, outcome)
}

fn table(rows: &[Entry], now: DateTime<Utc>, reader: &ArgumentReader, style: Style) -> String {
    let headings = ["ENTRY", "SPEC", "TYPE", "PAYLOAD", "OPTIONS", "NEXT", "PREVIOUS"];
    let mut table = Table::new(style, &headings).wrapped([3, 4]);
    for row in rows {
        let entry = &row.listed;
        table.row([
            Cell::from(&entry.id),
            Cell::from(&entry.spec),
            Cell::from(&entry.task_type),
            brief(&for_people(&entry.task_type, &entry.task_payload, Some(reader)), PAYLOAD).into(),
            format!("[{}]", entry.enqueue_options.join(", ")).into(),
            match row.next() {
                _ if row.error.is_some() => Cell::from("unknown").warning(),
                _ if row.paused => Cell::from("paused").warning(),
                Some(next) => until(now, next).into(),
                None => "never".into(),
            },
            row.previous().map(|previous| ago(now, previous)).unwrap_or_else(|| "-".into()).into(),
        ]);
    }
    table.into_text()
}

fn to_json<'a>(row: &'a Entry, reader: &ArgumentReader) -> EntryJson<'a> {
    let entry = &row.listed;
    EntryJson {
        id: &entry.id,
        spec: &entry.spec,
        meaning: Schedule::spec_of(entry).ok().map(|spec| spec.sentence()),
        r#type: &entry.task_type,
        queue: Schedule::queue_of(entry).to_string(),
        payload: Payload::of_type(&entry.task_type, &entry.task_payload, PAYLOAD_IN_JSON, Some(reader)),
        options: &entry.enqueue_options,
        next_at: row.next().map(time),
        previous_at: row.previous().map(time),
        paused: row.error.is_none().then_some(row.paused),
        error: row.error.as_deref(),
    }
}

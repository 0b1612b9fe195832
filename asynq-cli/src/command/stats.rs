//! `stats`: everything at a glance.

use asynq_runtime::{
    inspector::{Statistics, UnreadableQueue},
    task::{QueueName, ServerInfo},
};

use super::{redis::Redis, server};
use crate::{
    error::CliError,
    session::Session,
    show::{Style, clean, error_rate, number, queue_table},
    unlisted,
};

pub(super) async fn run(session: &mut Session) -> Result<(), CliError> {
    let client = session.client().await?;
    let inspector = client.inspector();
    let statistics = inspector.statistics().await?;
    let queues: Vec<QueueName> = statistics.queues.iter().map(|queue| queue.name.clone()).collect();
    let redis = Redis::of(&inspector, client.broker().kind(), &queues).await?;
    let mut value = statistics.to_json();
    (value["redis"], value["slots"]) = redis.to_json();
    let is_empty = statistics.servers.is_empty() && statistics.servers_unreadable.is_none();
    let hidden = if is_empty { unlisted::reason_of(&client).await? } else { None };
    let written = session.answer(&value, |style| text(&statistics, hidden, style) + &redis.to_text(style));
    let mut outcome = unreadable(session, &statistics.unreadable);
    if let Some(error) = &statistics.servers_unreadable {
        session.note(&format!("error: the list of servers cannot be read: {error}; `asynq doctor` says more"));
        outcome = Err(CliError::Reported(CliError::FAILED));
    }
    CliError::unless_reader_left(written, outcome)
}

/// Reports the queues that cannot be read, beside the readable ones.
pub(super) fn unreadable(session: &mut Session, queues: &[UnreadableQueue]) -> Result<(), CliError> {
    for UnreadableQueue { name, error, .. } in queues {
        session.note(&format!("error: queue `{name}` cannot be read: {error}; `asynq doctor` says more"));
    }
    if queues.is_empty() { Ok(()) } else { Err(CliError::Reported(CliError::FAILED)) }
}

fn text(statistics: &Statistics, hidden: Option<&str>, style: Style) -> String {
    let Statistics {
        broker,
        at,
        totals,
        queues,
        unreadable,
        running,
        servers,
        servers_unreadable,
        queues_left_out,
        ..
    } = statistics;
    let mut text = format!("{}\n\n", clean(broker));
    if queues.is_empty() && unreadable.is_empty() {
        text.push_str(&format!("{}\n", unlisted::NO_QUEUE));
    } else {
        text.push_str(&queue_table(queues, style));
    }
    if *queues_left_out > 0 {
        text.push_str(&format!("and {} more queues\n", number(*queues_left_out as u64)));
    }
    if !queues.is_empty() {
        text.push_str(&format!(
            "\nToday (UTC): {} processed, {} failed, error rate {}\n",
            number(totals.processed_today),
            number(totals.failed_today),
            error_rate(totals.processed_today, totals.failed_today)
        ));
    }
    text.push('\n');
    if servers_unreadable.is_some() {
        text.push_str("which servers run is not known\n");
    } else if servers.is_empty() {
        text.push_str(&format!("{}\n", unlisted::no_server(hidden)));
    } else {
        let is_stuck =
            |info: &ServerInfo| running.iter().filter(|run| run.stuck && run.server == info.server_id).count();
        text.push_str(&server::table(servers.iter().map(|info| (info, is_stuck(info))), *at, style));
    }
    text
}

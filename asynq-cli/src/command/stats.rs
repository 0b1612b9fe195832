//! `stats`: everything at a glance.

use asynq_runtime::{
    broker::QueueStats,
    inspector::Statistics,
    task::{ServerInfo, Timestamp},
};
use clap::Args;

use super::{queue::latency, server};
use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Style, Table, clean, number},
};

/// With --json: the object of `Statistics`, which `asynq_runtime::inspector` documents; a worker's `stats --json` is the
/// same
#[derive(Debug, Args)]
pub(crate) struct Stats {}

impl Stats {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let statistics = session.inspector().await?.statistics().await?;
        session.answer(&statistics, |style| text(&statistics, style))
    }
}

fn text(statistics: &Statistics, style: Style) -> String {
    let Statistics { broker, at, totals, queues, servers, queues_left_out, .. } = statistics;
    let mut text = format!("{}\n\n", clean(broker));
    if queues.is_empty() {
        text.push_str("no queues yet: nothing was ever enqueued here\n");
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
    if servers.is_empty() {
        text.push_str("no server is running\n");
    } else {
        let servers = servers.iter().map(|info: &ServerInfo| (info, info.start_time.and_then(Timestamp::to_datetime)));
        text.push_str(&server::table(servers, *at, style));
    }
    text
}

/// `2.00%`, as Go's tool writes it.
pub(super) fn error_rate(processed: u64, failed: u64) -> String {
    match processed {
        0 => "N/A".to_owned(),
        processed => format!("{:.2}%", failed as f64 * 100.0 / processed as f64),
    }
}

/// Queues with what is in them.
pub(super) fn queue_table(queues: &[QueueStats], style: Style) -> String {
    let headings = [
        "QUEUE",
        "PENDING",
        "ACTIVE",
        "SCHEDULED",
        "RETRY",
        "ARCHIVED",
        "COMPLETED",
        "GROUPED",
        "DONE TODAY",
        "FAILED",
        "WAITING",
        "",
    ];
    let mut table = Table::new(style, &headings).right(1..=10);
    for q in queues {
        let retry = if q.retry > 0 { Cell::count(q.retry).warning() } else { Cell::count(0) };
        let archived = if q.archived > 0 { Cell::count(q.archived).bad() } else { Cell::count(0) };
        table.row([
            Cell::from(&q.name),
            Cell::count(q.pending),
            if q.active > 0 { Cell::count(q.active).good() } else { Cell::count(0) },
            Cell::count(q.scheduled),
            retry,
            archived,
            Cell::count(q.completed),
            Cell::count(q.aggregating),
            Cell::count(q.processed),
            Cell::count(q.failed),
            Cell::from(latency(q)),
            if q.paused { Cell::from("paused").warning() } else { "".into() },
        ]);
    }
    table.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_runs_have_no_error_rate() {
        assert_eq!((error_rate(0, 0), error_rate(200, 4)), ("N/A".to_owned(), "2.00%".to_owned()));
    }
}

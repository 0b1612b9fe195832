//! `queue history`: the numbers of processed and failed tasks, day by day.

use asynq_runtime::broker::DayStats;
use clap::{Args, builder::RangedU64ValueParser};
use serde_json::{Value, json};

use super::{super::several::Several, Names};
use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Style, Table, clean, error_rate},
};

#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    names: Names,
    /// How many days, today first; they are kept for 90
    #[arg(short = 'x', long, default_value_t = 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=90))]
    days: usize,
}

impl History {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let style = session.style();
        Several::reading("queue")
            .each(session, &self.names.queues, async |name| {
                let days = inspector.history(name, self.days).await?;
                let text = format!("Queue: {}\n\n{}", clean(name), table(&days, style));
                Ok((json!({ "days": days.iter().map(to_json).collect::<Vec<_>>() }), text))
            })
            .await
    }
}

fn to_json(day: &DayStats) -> Value {
    json!({ "date": day.date.to_string(), "processed": day.processed, "failed": day.failed })
}

fn table(days: &[DayStats], style: Style) -> String {
    let mut table = Table::new(style, &["DATE (UTC)", "PROCESSED", "FAILED", "ERROR RATE"]).right([1, 2, 3]);
    for day in days {
        table.row([
            Cell::from(day.date),
            Cell::count(day.processed),
            if day.failed > 0 { Cell::count(day.failed).bad() } else { Cell::count(0) },
            error_rate(day.processed, day.failed).into(),
        ]);
    }
    table.into_text()
}

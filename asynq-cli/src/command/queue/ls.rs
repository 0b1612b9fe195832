//! `queue ls`: names alone, for other programs in a pipe, or a table.

use asynq_runtime::inspector::{QueueReading, Statistics, UnreadableQueue};
use clap::Args;
use serde_json::{Value, json};

use super::super::{redis::slot_table, stats::unreadable};
use crate::{
    error::CliError,
    session::Session,
    show::{clean, queue_table},
    unlisted::NO_QUEUE,
};

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Shows a table with the numbers of each queue instead of names alone, and the nodes of a cluster that hold them
    #[arg(short, long)]
    long: bool,
}

impl Ls {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        if !self.long && !session.is_json() {
            // Names alone cost one call, however many queues there are.
            let names = session.client().await?.broker().queues().await?;
            if names.is_empty() {
                session.note(NO_QUEUE);
            }
            let text: String = names.iter().map(|name| clean(name.as_str()) + "\n").collect();
            return session.write(&text);
        }
        let inspector = session.inspector().await?;
        let readings = inspector.each_queue().await?;
        let to_json = |QueueReading { name, stats, .. }: &QueueReading| match stats {
            Ok(stats) => Statistics::queue_to_json(stats),
            Err(error) => json!({ "queue": name.as_str(), "error": error.to_string() }),
        };
        let value: Vec<Value> = readings.iter().map(to_json).collect();
        let (queues, unread) = UnreadableQueue::part(readings);
        let names: Vec<_> = queues.iter().map(|queue| queue.name.clone()).collect();
        // Only a cluster has slots, and only people see them here.
        let slots = if session.is_json() { Vec::new() } else { inspector.slots(&names).await.unwrap_or_default() };
        let written = session.answer(&value, |style| {
            let places = if slots.is_empty() { String::new() } else { format!("\n{}", slot_table(&slots, style)) };
            queue_table(&queues, style) + &places
        });
        CliError::unless_reader_left(written, unreadable(session, &unread))
    }
}

//! `queue inspect`: one queue by itself.

use asynq_runtime::{broker::QueueStats, inspector::Statistics};
use serde_json::json;

use super::{
    super::{group, several::Several},
    Names,
};
use crate::{
    error::CliError,
    session::Session,
    show::{Facts, Style, bytes, error_rate, latency, number, queue_table},
};

pub(super) async fn run(names: &Names, session: &mut Session) -> Result<(), CliError> {
    let inspector = session.inspector().await?;
    let style = session.style();
    Several::reading("queue")
        .each(session, &names.queues, async |name| {
            let stats = inspector.queue(name).await?;
            let memory = inspector.memory_usage(name).await?;
            let groups = group::all(&inspector, name).await?.len();
            let mut fields = Statistics::queue_to_json(&stats);
            fields["memory_bytes"] = json!(memory);
            fields["groups"] = json!(groups);
            Ok((fields, text(&stats, memory, groups, style)))
        })
        .await
}

fn text(stats: &QueueStats, memory: u64, groups: usize, style: Style) -> String {
    let mut facts = Facts::default();
    facts.add("Queue", stats.name.as_str());
    facts.add("State", if stats.paused { "paused" } else { "running" });
    facts.add("Size", number(stats.size));
    facts.add("Groups", number(groups as u64));
    // The size is estimated from some of the tasks.
    facts.add("Memory", format!("about {}", bytes(memory)));
    facts.add("Next waits", latency(stats));
    facts.add(
        "Today (UTC)",
        format!(
            "{} processed, {} failed, error rate {}",
            number(stats.processed),
            number(stats.failed),
            error_rate(stats.processed, stats.failed)
        ),
    );
    facts.add("Ever", format!("{} processed, {} failed", number(stats.processed_total), number(stats.failed_total)));
    format!("{}\n{}", facts.into_text(), queue_table(std::slice::from_ref(stats), style))
}

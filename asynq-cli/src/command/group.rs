//! `group ls`: groups in which tasks wait to be aggregated.

use std::collections::BTreeMap;

use asynq_runtime::{Inspector, broker::GroupStats};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Table, ago, clean, time},
};

/// Looks at the groups in which tasks wait to be aggregated
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Lists the groups of a queue that have waiting tasks, by name
    ///
    /// With --json: an array of objects with `group`, `size` and `oldest_at`.
    #[command(name = "ls", alias = "list")]
    Ls(Ls),
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The queue
    #[arg(short, long)]
    queue: String,
    /// Shows how many tasks wait, and since when, instead of names alone
    #[arg(short, long)]
    long: bool,
}

impl Group {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let Self::Ls(Ls { queue, long }) = self;
        let inspector = session.inspector().await?;
        let groups = all(&inspector, &queue).await?;
        let now = session.client().await?.broker().now();
        let value: Vec<Value> = groups
            .iter()
            .map(|g| json!({ "group": g.group.as_str(), "size": g.size, "oldest_at": g.oldest.map(time) }))
            .collect();
        if groups.is_empty() && !session.is_json() {
            session.note(&format!("no groups in queue {queue}"));
            return Ok(());
        }
        session.answer(&value, |style| {
            if !long {
                return groups.iter().map(|g| clean(g.group.as_str()) + "\n").collect();
            }
            let mut table = Table::new(style, &["GROUP", "SIZE", "OLDEST"]).right([1]);
            for g in &groups {
                let oldest = g.oldest.map(|at| ago(now, at)).unwrap_or_else(|| "-".into());
                table.row([Cell::from(&g.group), g.size.into(), oldest.into()]);
            }
            table.into_text()
        })
    }
}

/// Returns all groups of a queue, by name.
pub(super) async fn all(inspector: &Inspector, queue: &str) -> Result<Vec<GroupStats>, CliError> {
    let (mut groups, mut list) = (BTreeMap::new(), inspector.groups(queue));
    loop {
        let page = list.await?;
        groups.extend(page.groups.into_iter().map(|stats| (stats.group.clone(), stats)));
        match page.next {
            Some(next) => list = inspector.groups(queue).after(next),
            None => return Ok(groups.into_values().collect()),
        }
    }
}

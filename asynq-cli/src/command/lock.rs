//! `lock ls` and `lock rm`: unique locks, above all locks whose task is gone.

use std::collections::BTreeMap;

use asynq_runtime::{Inspector, broker::LockInfo};
use clap::{Args, Subcommand, builder::RangedU64ValueParser};
use serde_json::{Value, json};

use super::several::{Several, once};
use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Table, clean, time, until},
};

/// Looks at the locks of unique tasks, and frees them
#[derive(Debug, Subcommand)]
pub(crate) enum Lock {
    /// Lists the unique locks of a queue that are held
    ///
    /// With --json: an array of objects with `lock`, `holder`, `state` (null where the task is gone) and `until`.
    #[command(name = "ls", alias = "list")]
    Ls(Ls),
    /// Frees unique locks, so that an equal task is accepted
    ///
    /// Asks first, unless --yes is given. With --json: an array of objects with `lock`, `queue`, `holder` and `error`.
    #[command(name = "rm", aliases = ["remove", "delete"])]
    Rm(Rm),
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The queue
    #[arg(short, long)]
    queue: String,
    /// Lists only locks whose task is gone
    #[arg(long)]
    stuck: bool,
    /// Stops after so many
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The queue
    #[arg(short, long)]
    queue: String,
    /// The locks, as `lock ls` shows them: TYPE:CHECKSUM
    #[arg(value_name = "LOCK", required_unless_present = "stuck", conflicts_with = "stuck")]
    locks: Vec<String>,
    /// All locks whose task is gone
    #[arg(long)]
    stuck: bool,
}

impl Lock {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self {
            Self::Ls(ls) => ls.run(session).await,
            Self::Rm(rm) => rm.run(session).await,
        }
    }
}

impl Ls {
    async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let is_wanted = |_: &String, lock: &LockInfo| !self.stuck || lock.state.is_none();
        let found = find(&inspector, &self.queue, self.limit.saturating_add(1), is_wanted).await?;
        let shown = || found.iter().take(self.limit);
        let (now, stuck) = (session.client().await?.broker().now(), if self.stuck { "stuck " } else { "" });
        let value: Vec<Value> = shown()
            .map(|(name, lock)| {
                let state = lock.state.map(|state| state.as_str());
                let holder = lock.holder.as_str();
                json!({ "lock": name, "holder": holder, "state": state, "until": lock.until.map(time) })
            })
            .collect();
        if found.is_empty() && !session.is_json() {
            session.note(&format!("no {stuck}unique locks in queue {}", self.queue));
            return Ok(());
        }
        session.answer(&value, |style| {
            let mut table = Table::new(style, &["LOCK", "HOLDER", "STATE", "ENDS"]);
            for (name, lock) in shown() {
                let state = match lock.state {
                    Some(state) => Cell::from(state.as_str().to_owned()),
                    None => Cell::from("gone".to_owned()).bad(),
                };
                let ends = lock.until.map_or_else(|| "never".to_owned(), |at| until(now, at));
                table.row([name.into(), lock.holder.as_str().into(), state, ends.into()]);
            }
            table.into_text()
        })?;
        if found.len() > self.limit {
            session.note(&format!("only the first {}; --limit shows more", self.limit));
        }
        Ok(())
    }
}

impl Rm {
    async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let is_meant = |name: &String, lock: &LockInfo| {
            if self.stuck { lock.state.is_none() } else { self.locks.contains(name) }
        };
        let found = find(&inspector, &self.queue, usize::MAX, is_meant).await?;
        let mut answers = Several::changing("lock");
        let is_missing = |meant: &&String| !found.contains_key(*meant);
        for missing in once(&self.locks).into_iter().filter(is_missing) {
            let error = CliError::NotFound(format!("no lock {missing:?} is held in queue {}", self.queue));
            answers.add(session, missing, Err(error)).await?;
        }
        if !found.is_empty()
            && let Err(error) = session.confirm(&question(&self.queue, &found))
        {
            return answers.refuse(session, found.keys().map(String::as_str), error);
        }
        if found.is_empty() && self.stuck && !session.is_json() {
            session.note(&format!("no stuck unique locks in queue {}", self.queue));
        }
        answers
            .each(session, found.keys(), async |name| {
                let LockInfo { key, holder, .. } = &found[name];
                if !inspector.release_lock(&self.queue, key, holder, self.stuck).await? {
                    return Err(CliError::NotFound(format!(
                        "lock {name:?} is held by another task by now, or by none"
                    )));
                }
                let fields = json!({ "queue": self.queue, "holder": holder.as_str() });
                Ok((fields, format!("lock {} is free\n", clean(name))))
            })
            .await
    }
}

fn question(queue: &str, locks: &BTreeMap<String, LockInfo>) -> String {
    let live = locks.values().filter(|lock| lock.state.is_some()).count();
    let subject = match locks.first_key_value() {
        Some((one, _)) if locks.len() == 1 => format!("lock {}", clean(one)),
        _ => format!("{} locks", locks.len()),
    };
    match live {
        0 => format!("Free {subject} of queue {queue}?"),
        live => format!(
            "Free {subject} of queue {queue}? {live} of the tasks that hold them are there, and may run beside an equal one."
        ),
    }
}

/// Returns locks that are `wanted` by their names, read slice by slice until there are at least `enough`.
async fn find(
    inspector: &Inspector,
    queue: &str,
    enough: usize,
    wanted: impl Fn(&String, &LockInfo) -> bool,
) -> Result<BTreeMap<String, LockInfo>, CliError> {
    // Redis may return a key twice while others come and go.
    let (mut found, mut after) = (BTreeMap::new(), None::<String>);
    loop {
        let page = inspector.locks(queue, after.as_deref()).await?;
        let locks = page.locks.into_iter().map(|lock| (name(queue, &lock), lock));
        found.extend(locks.filter(|(name, lock)| wanted(name, lock)));
        after = page.next;
        if after.is_none() || found.len() >= enough {
            return Ok(found);
        }
    }
}

/// Returns the key of a lock without the prefix that all locks of the queue share.
fn name(queue: &str, lock: &LockInfo) -> String {
    let key = &lock.key;
    key.strip_prefix(&format!("asynq:{{{queue}}}:unique:")).unwrap_or(key).to_owned()
}

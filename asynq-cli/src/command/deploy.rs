//! `deploy check`: whether a program can read the tasks that wait, by its `jobs.lock`.

use std::{collections::BTreeMap, path::PathBuf};

use asynq_runtime::{TaskState, broker::Page, job::JobsLock, task::QueueName};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Table, number},
};

/// The states in which tasks wait, or may be run again.
const WAITING: [TaskState; 5] =
    [TaskState::Pending, TaskState::Scheduled, TaskState::Retry, TaskState::Aggregating, TaskState::Archived];
/// Most tasks of one read.
const SLICE: usize = 200;

/// Compares a program with the tasks that wait
#[derive(Debug, Subcommand)]
pub(crate) enum Deploy {
    /// Counts the waiting tasks by shape, and says which of them a program can read
    ///
    /// The file is the program's jobs.lock: `my-worker jobs --check` has said that the program reads all shapes in it.
    /// A task whose shape is not in it would be requeued, and archived after a day: exit code 1.
    ///
    /// With --json: an array of objects with `type`, `fingerprint` (null for JSON), `shape` (null if it is not in the
    /// file), `queues`, `tasks` and `readable`.
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The file that `my-worker jobs --lock` wrote
    #[arg(default_value = "jobs.lock", value_name = "FILE")]
    file: PathBuf,
    /// Looks at the tasks of this queue alone, for a program that shares the broker with others; may be repeated
    #[arg(long = "queue", short = 'q', value_name = "QUEUE")]
    queues: Vec<QueueName>,
    /// Looks at so many tasks of each state in each queue
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    limit: usize,
}

/// Tasks of one type and shape.
#[derive(Debug, Default)]
struct Found {
    /// The shape for people, if it is in the file.
    shape: Option<String>,
    queues: Vec<String>,
    tasks: u64,
}

impl Deploy {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let Self::Check(check) = self;
        check.run(session).await
    }
}

impl Check {
    async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let text = std::fs::read_to_string(&self.file);
        let text = text
            .map_err(|source| CliError::System { context: format!("cannot read {}", self.file.display()), source })?;
        let lock = JobsLock::parse(&text).map_err(|error| CliError::Usage(error.to_string()))?;
        let (found, is_all) = self.count_waiting(session, &lock).await?;
        let unreadable: u64 = found.values().filter(|found| found.shape.is_none()).map(|found| found.tasks).sum();
        let value: Vec<Value> = found.iter().map(to_json).collect();
        session.answer(&value, |style| {
            let mut table =
                Table::new(style, &["TYPE", "SHAPE", "QUEUES", "TASKS", "READABLE"]).right([3]).wrapped([1, 2]);
            for ((r#type, fingerprint), found) in &found {
                let unknown = || {
                    format!("{} is not in the file", fingerprint.as_deref().unwrap_or("a JSON payload of this type"))
                };
                let (shape, is_readable) = match &found.shape {
                    Some(shape) => (shape.clone(), Cell::from("yes")),
                    None => (unknown(), Cell::from("NO").bad()),
                };
                table.row([
                    r#type.into(),
                    shape.into(),
                    found.queues.join(", ").into(),
                    number(found.tasks).into(),
                    is_readable,
                ]);
            }
            if found.is_empty() { "no task waits\n".to_owned() } else { table.into_text() }
        })?;
        if !is_all {
            session.note(&format!(
                "looked at the first {} tasks of each state in each queue; --limit looks at more",
                self.limit
            ));
        }
        match unreadable {
            0 => Ok(()),
            n => {
                session.note(&format!(
                    "{} waiting tasks would be requeued and archived after a day: keep a version that runs them, or write what \
                     docs/changing-a-job.md says",
                    number(n)
                ));
                Err(CliError::Reported(CliError::FAILED))
            }
        }
    }

    /// Counts the waiting tasks by type and shape, and returns whether all of them were counted.
    async fn count_waiting(
        &self,
        session: &mut Session,
        lock: &JobsLock,
    ) -> Result<(BTreeMap<(String, Option<String>), Found>, bool), CliError> {
        let client = session.client().await?;
        let broker = client.broker();
        let (mut by_shape, mut is_all) = (BTreeMap::<_, Found>::new(), true);
        let mut queues = broker.queues().await?;
        if !self.queues.is_empty() {
            for unknown in self.queues.iter().filter(|queue| !queues.contains(queue)) {
                session.note(&format!("there is no queue `{unknown}` yet; check its name"));
            }
            queues.retain(|queue| self.queues.contains(queue));
        }
        for queue in queues {
            for state in WAITING {
                for page in 1.. {
                    let left = self.limit.saturating_sub((page - 1) * SLICE);
                    let tasks = broker.briefs(&queue, state, None, Page { number: page, size: SLICE }).await?;
                    is_all &= tasks.len() <= left;
                    for task in tasks.iter().take(left) {
                        let key = (task.r#type.clone(), JobsLock::fingerprint_of(&task.payload));
                        let found = by_shape.entry(key).or_insert_with(|| Found {
                            shape: lock.find(&task.r#type, &task.payload).map(|locked| locked.shape.clone()),
                            ..Found::default()
                        });
                        found.tasks += 1;
                        if !found.queues.iter().any(|known| known == queue.as_str()) {
                            found.queues.push(queue.to_string());
                        }
                    }
                    if tasks.len() < SLICE || left <= SLICE {
                        break;
                    }
                }
            }
        }
        Ok((by_shape, is_all))
    }
}

fn to_json(((r#type, fingerprint), found): (&(String, Option<String>), &Found)) -> Value {
    json!({
        "type": r#type,
        "fingerprint": fingerprint,
        "shape": found.shape,
        "queues": found.queues,
        "tasks": found.tasks,
        "readable": found.shape.is_some(),
    })
}

//! `deploy check`: whether a program can read the tasks that wait, by its `jobs.lock`.

use std::{collections::BTreeMap, path::PathBuf};

use asynq_runtime::{
    Client, TaskState,
    broker::{BrokerError, TaskBrief},
    inspector::UnreadableQueue,
    job::{JobsLock, LockedShape},
    task::QueueName,
};
use clap::{Args, Subcommand};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use serde_json::{Value, json};

use crate::{
    error::CliError,
    reading::{AT_ONCE, Take, Unseen, read},
    session::Session,
    show::{self, Cell, Table, number, tasks_of},
};

/// The states in which tasks wait, or may be run again, in the order in which tasks go through them: a task that moves
/// on during the check is counted twice and not missed. A task that moves back, from pending to retry or from archived
/// to pending, may be missed.
const WAITING: [TaskState; 5] =
    [TaskState::Aggregating, TaskState::Scheduled, TaskState::Retry, TaskState::Pending, TaskState::Archived];

/// Compares a program with the tasks that wait
#[derive(Debug, Subcommand)]
pub(crate) enum Deploy {
    /// Counts the waiting tasks by shape, and says which of the shapes are in a program's jobs.lock
    ///
    /// The file is the program's jobs.lock: `my-worker jobs --check` has said that the program reads all shapes in it.
    /// A task whose shape is not in it would be requeued, and archived after a day: exit code 1. Archived tasks are counted,
    /// too: they stay where they are, and only a later `task run` of them would fail. The exit code is also 1 if not every
    /// task was looked at.
    ///
    /// While workers run, the numbers are approximate, and tasks that run are not counted. A task that becomes pending or is
    /// archived during the check may be counted twice; one that is retried, requeued, enqueued, or run by hand meanwhile may
    /// be missed. Stop the workers, or check again, to be sure.
    ///
    /// With --json: an array of objects with `type`, `fingerprint` (null for JSON), `shape` (null if it is not in the
    /// file), `queues`, `tasks`, `archived` (so many of `tasks`) and `readable` (whether the shape is in the file).
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

/// The tasks that were looked at, and those that were not.
#[derive(Debug, Default)]
struct Counted {
    /// The tasks by type and fingerprint.
    found: BTreeMap<(String, Option<String>), Found>,
    unseen: Unseen,
    /// Queues of which some tasks, or all, could not be counted.
    unreadable: Vec<UnreadableQueue>,
}

/// Tasks of one type and shape.
#[derive(Debug, Default)]
struct Found {
    /// The shape, if it is in the file.
    shape: Option<LockedShape>,
    /// The queues that hold the tasks, each once.
    queues: Vec<String>,
    /// The number of tasks in all states, archived ones included.
    tasks: u64,
    /// The number of archived tasks.
    archived: u64,
}

impl Deploy {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let Self::Check(check) = self;
        check.run(session).await
    }
}

impl Check {
    async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file).map_err(CliError::system(format!("cannot read {file}")))?;
        let lock = JobsLock::parse(&text).map_err(|error| CliError::Usage(format!("{file}: {error}")))?;
        let Counted { found, unseen, unreadable } = self.count_tasks(session, &lock).await?;
        let unknown = found.values().filter(|found| found.shape.is_none());
        let (tasks, archived) =
            unknown.fold((0, 0), |(tasks, archived), found| (tasks + found.tasks, archived + found.archived));
        let value: Vec<Value> = found.iter().map(to_json).collect();
        let written = session.answer(&value, |style| {
            let mut table = Table::new(style, &["TYPE", "SHAPE", "QUEUES", "WAITING", "ARCHIVED", "IN FILE"]);
            table = table.right([3, 4]).wrapped([1, 2]);
            for ((r#type, fingerprint), found) in &found {
                let fingerprint = fingerprint.as_deref().unwrap_or("a JSON payload of this type");
                let (shape, is_in_file) = match &found.shape {
                    Some(locked) => (locked.text(), Cell::from("yes")),
                    None => (format!("{fingerprint} is not in the file"), Cell::from("NO").bad()),
                };
                table.row([
                    r#type.into(),
                    shape.into(),
                    found.queues.join(", ").into(),
                    number(found.tasks - found.archived).into(),
                    number(found.archived).into(),
                    is_in_file,
                ]);
            }
            match found.is_empty() {
                true if unseen == Unseen::default() && unreadable.is_empty() => "no task waits\n".to_owned(),
                true => "no task was looked at\n".to_owned(),
                false => table.into_text(),
            }
        });
        let mut notes = Vec::new();
        if tasks > archived {
            notes.push(format!(
                "{} would be requeued and archived after a day: keep a version that runs such tasks, or write what \
                 docs/changing-a-job.md says",
                tasks_of("waiting", tasks - archived)
            ));
        }
        if archived > 0 {
            notes.push(format!(
                "{} would be requeued and archived again by a run, because of a shape that is not in the file: delete such \
                 tasks, or keep a version that runs them",
                tasks_of("archived", archived)
            ));
        }
        if unseen.beyond > 0 {
            notes.push(format!(
                "the check is not complete: at most {} tasks of each state in each queue were looked at, and {} more are \
                 there; raise --limit",
                self.limit,
                number(unseen.beyond)
            ));
        }
        if unseen.unreadable > 0 {
            notes.push(format!(
                "the check is not complete: {} cannot be read, because the task behind an id is gone, which \
                 `asynq doctor` finds, or its message is damaged: no tool shows its id, and `asynq task delete-all` deletes it \
                 with all others of its state",
                show::tasks(unseen.unreadable)
            ));
        }
        notes.iter().for_each(|note| session.note(note));
        let readable = super::stats::unreadable(session, &unreadable);
        let outcome = if notes.is_empty() { readable } else { Err(CliError::Reported(CliError::FAILED)) };
        CliError::unless_reader_left(written, outcome)
    }

    /// Counts the tasks by type and shape, and those that were not seen.
    async fn count_tasks(&self, session: &mut Session, lock: &JobsLock) -> Result<Counted, CliError> {
        let client = session.client().await?;
        let mut queues = client.broker().queues().await?;
        if !self.queues.is_empty() {
            for unknown in self.queues.iter().filter(|queue| !queues.contains(queue)) {
                session.note(&format!("there is no queue `{unknown}` yet; check its name"));
            }
            queues.retain(|queue| self.queues.contains(queue));
        }
        let counted = queues.into_iter().map(|queue| self.count_tasks_of(queue, &client, lock));
        let counted = stream::iter(counted).buffered(AT_ONCE);
        let add = |mut all: Counted, of_queue: Counted| {
            all.add(of_queue);
            future::ok(all)
        };
        Ok(counted.try_fold(Counted::default(), add).await?)
    }

    /// Counts the tasks of one queue. Where one of its states cannot be read, the queue counts as not readable, with the tasks that
    /// were seen before.
    ///
    /// # Errors
    ///
    /// The broker does not answer at all.
    async fn count_tasks_of(&self, queue: QueueName, client: &Client, lock: &JobsLock) -> Result<Counted, BrokerError> {
        let broker = &**client.broker();
        let mut counted = Counted::default();
        for state in WAITING {
            let count = |task: TaskBrief| {
                let task = task.task;
                let key = (task.r#type.clone(), JobsLock::fingerprint_of(&task.payload));
                let found = counted.found.entry(key).or_insert_with(|| Found {
                    shape: lock.find(&task.r#type, &task.payload).cloned(),
                    queues: vec![queue.to_string()],
                    ..Found::default()
                });
                found.tasks += 1;
                found.archived += u64::from(state == TaskState::Archived);
            };
            match read(broker, &queue, state, (self.limit, Take::First), count).await {
                Ok(unseen) => counted.unseen += unseen,
                Err(error) => {
                    if error.is_unavailable() {
                        broker.ping().await?;
                    }
                    counted.unreadable.push(UnreadableQueue::new(queue, error.to_string()));
                    return Ok(counted);
                }
            }
        }
        Ok(counted)
    }
}

impl Counted {
    /// Adds the tasks of another queue.
    fn add(&mut self, other: Self) {
        for (key, found) in other.found {
            let all = self.found.entry(key).or_insert_with(|| Found { shape: found.shape, ..Found::default() });
            all.queues.extend(found.queues);
            all.tasks += found.tasks;
            all.archived += found.archived;
        }
        self.unseen += other.unseen;
        self.unreadable.extend(other.unreadable);
    }
}

fn to_json(((r#type, fingerprint), found): (&(String, Option<String>), &Found)) -> Value {
    json!({
        "type": r#type,
        "fingerprint": fingerprint,
        "shape": found.shape.as_ref().map(|locked| &locked.shape),
        "queues": found.queues,
        "tasks": found.tasks,
        "archived": found.archived,
        "readable": found.shape.is_some(),
    })
}

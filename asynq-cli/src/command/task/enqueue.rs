//! `task enqueue`: a task by its type and its bytes, whatever program runs it.

use std::time::Duration;

use asynq_runtime::{RawTask, TaskState, UniqueUntil};
use chrono::{DateTime, Utc};
use clap::Args;

use super::bytes::{Limits, Source};
use crate::{
    error::CliError,
    session::Session,
    show::{TaskJson, clean, time},
};

#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// Type of the task: the name of the job that runs it
    #[arg(short = 't', long = "type", visible_alias = "type-name", alias = "type_name", value_name = "TYPE")]
    r#type: String,
    #[command(flatten)]
    payload: Source,
    #[command(flatten)]
    limits: Limits,
    /// The queue
    #[arg(short, long, default_value = "default")]
    queue: String,
    /// The id of the task, instead of a random one
    #[arg(short, long)]
    id: Option<String>,
    /// How often the task may be retried; default 25
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// Longest time of one attempt, such as 90s; default 30m, or none with --deadline
    #[arg(long, value_name = "SPAN", value_parser = span)]
    timeout: Option<Duration>,
    /// No attempt may run after this moment, such as 2030-01-31T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<DateTime<Utc>>,
    /// Keeps an equal task out while this one waits or runs, at most for this time
    #[arg(long, value_name = "SPAN", value_parser = span)]
    unique: Option<Duration>,
    /// The event that frees the lock of a unique task before its time: start, end (the default) or success
    #[arg(long, value_name = "WHAT", requires = "unique", value_parser = unique_until)]
    unique_until: Option<UniqueUntil>,
    /// Runs the task after this time, such as 10m
    #[arg(long, alias = "process_in", alias = "in", value_name = "SPAN", value_parser = span,
          conflicts_with = "process_at")]
    process_in: Option<Duration>,
    /// Runs the task at this time, such as 2030-01-31T09:00:00Z
    #[arg(long, alias = "process_at", alias = "at", value_name = "TIME", value_parser = parse_time)]
    process_at: Option<DateTime<Utc>>,
    /// How long the task is kept after success
    #[arg(long, value_name = "SPAN", value_parser = span)]
    retention: Option<Duration>,
    /// Lets the task wait in this group, to be aggregated with others
    #[arg(short, long)]
    group: Option<String>,
    /// Adds a header; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = header)]
    header: Vec<(String, String)>,
}

impl Enqueue {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let limit = self.limits.payload_limit;
        let payload = self.payload.read(&self.limits, session)?;
        let mut task = RawTask::new(&self.r#type, payload).queue(&self.queue);
        task = set(task, self.id, RawTask::task_id);
        task = set(task, self.retry, RawTask::retry);
        task = set(task, self.timeout, RawTask::timeout);
        task = set(task, self.deadline, RawTask::deadline);
        task = set(task, self.unique, RawTask::unique);
        task = set(task, self.unique_until, RawTask::unique_until);
        task = set(task, self.process_in, RawTask::process_in);
        task = set(task, self.process_at, RawTask::process_at);
        task = set(task, self.retention, RawTask::retention);
        task = set(task, self.group, RawTask::group);
        for (key, value) in self.header {
            task = task.header(key, value);
        }
        let client = session.client_to_enqueue(true).await?.payload_limit(limit);
        let info = client.enqueue(task).await?;
        let now = client.broker().now();
        let due = match info.next_process_at {
            Some(at) if info.state == TaskState::Scheduled => format!(", due {}", time(at)),
            _ => String::new(),
        };
        session.answer(&TaskJson::of(&info, now, limit, None), |_| {
            format!("task {} is {} in queue {}{due}\n", clean(info.id.as_str()), info.state, clean(info.queue.as_str()))
        })
    }
}

/// Sets an option of the task, if it was given.
fn set<T>(task: RawTask, given: Option<T>, set: impl FnOnce(RawTask, T) -> RawTask) -> RawTask {
    match given {
        Some(value) => set(task, value),
        None => task,
    }
}

fn span(text: &str) -> Result<Duration, String> {
    asynq_grammar::duration::parse(text).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|at| at.with_timezone(&Utc))
        .map_err(|error| format!("not a valid time ({error}); write one such as 2030-01-31T09:00:00Z"))
}

fn unique_until(text: &str) -> Result<UniqueUntil, String> {
    match text {
        "start" => Ok(UniqueUntil::Start),
        "end" => Ok(UniqueUntil::End),
        "success" => Ok(UniqueUntil::Success),
        _ => Err("write start, end or success".into()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".into()),
    }
}

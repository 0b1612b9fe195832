//! `task ls`: a page of tasks.

use asynq_runtime::{
    TaskInfo, TaskState,
    inspector::{ArgumentReader, ListTasks},
};
use chrono::{DateTime, Utc};
use clap::{Args, builder::RangedU64ValueParser};

use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Style, Table, TaskJson, ago, brief, clean, cut, for_people_in_brief, until},
};

/// Most characters of a payload and of an error in a table.
const PAYLOAD: usize = 80;
const ERROR: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The queue
    #[arg(short, long)]
    queue: String,
    /// active, pending, scheduled, retry, archived, completed or aggregating
    #[arg(short, long)]
    state: TaskState,
    /// Only the tasks that wait in this group, with --state aggregating
    #[arg(short, long)]
    group: Option<String>,
    /// Which page, counted from 1
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    page: usize,
    /// Tasks per page, at most 500
    #[arg(long, default_value_t = 30,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=ListTasks::MOST as u64))]
    size: usize,
    /// Most bytes of each payload and result in JSON
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024)]
    max_payload: usize,
    /// Shows payloads as they are, not by the shapes that the broker keeps; with them secrets, too
    #[arg(long)]
    raw: bool,
}

impl Ls {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let Self { queue, state, group, page, size, max_payload, raw } = self;
        let client = session.client().await?;
        let inspector = client.inspector();
        let mut list = inspector.tasks(&queue, state).page(page).per_page(size);
        if let Some(group) = &group {
            if state != TaskState::Aggregating {
                return Err(CliError::Usage("--group is for --state aggregating: only they wait in groups".into()));
            }
            list = list.group(group);
        }
        let tasks: Vec<TaskInfo> = if session.is_json() {
            list.await?
        } else {
            // A table shows no more of a payload than its beginning.
            list.brief().await?.into_iter().map(|brief| brief.task).collect()
        };
        let payloads = tasks.iter().map(|task| (&*task.r#type, &task.payload[..]));
        let reader = if raw { None } else { Some(inspector.argument_reader(payloads).await) };
        let reader = reader.as_ref();
        let now = client.broker().now();
        if tasks.is_empty() && !session.is_json() {
            let group = group.map(|group| format!(", group {group}")).unwrap_or_default();
            let page = if page > 1 { format!(", on page {page}") } else { String::new() };
            session.note(&format!("no {state} tasks in queue {queue}{group}{page}"));
            return Ok(());
        }
        let value: Vec<_> = tasks.iter().map(|task| TaskJson::of(task, now, max_payload, reader)).collect();
        session.answer(&value, |style| table(&tasks, state, now, reader, style))
    }
}

fn table(
    tasks: &[TaskInfo],
    state: TaskState,
    now: DateTime<Utc>,
    reader: Option<&ArgumentReader>,
    style: Style,
) -> String {
    let more: &[&str] = match state {
        TaskState::Pending => &[],
        TaskState::Active => &["PROGRESS"],
        TaskState::Scheduled => &["DUE"],
        TaskState::Retry => &["NEXT RETRY", "LAST ERROR", "LAST FAILED", "RETRIED"],
        TaskState::Archived => &["ARCHIVED", "LAST ERROR"],
        TaskState::Completed => &["COMPLETED", "RESULT"],
        TaskState::Aggregating => &["GROUP"],
    };
    let headings: Vec<&str> = ["ID", "TYPE", "PAYLOAD"].iter().chain(more).copied().collect();
    let wrapped = headings.iter().enumerate().filter(|(_, h)| ["PAYLOAD", "LAST ERROR", "RESULT"].contains(h));
    let mut table = Table::new(style, &headings).wrapped(wrapped.map(|(i, _)| i).collect::<Vec<_>>());
    for task in tasks {
        let payload = brief(&for_people_in_brief(&task.r#type, &task.payload, reader), PAYLOAD);
        let start = [Cell::from(&task.id), Cell::from(&task.r#type), payload.into()];
        table.row(start.into_iter().chain(rest(task, state, now)));
    }
    table.into_text()
}

/// Returns the columns that only this state has.
fn rest(task: &TaskInfo, state: TaskState, now: DateTime<Utc>) -> Vec<Cell> {
    let due = || Cell::from(task.next_process_at.map(|at| until(now, at)).unwrap_or_else(|| "-".into()));
    let since = |at: Option<DateTime<Utc>>| Cell::from(at.map(|at| ago(now, at)).unwrap_or_else(|| "-".into()));
    let error = || Cell::from(cut(&clean(task.last_error.as_deref().unwrap_or("-")), ERROR)).bad();
    match state {
        TaskState::Pending => Vec::new(),
        TaskState::Active if task.is_orphan(now) => vec![Cell::from("orphan: no worker runs it").warning()],
        TaskState::Active => vec![match &task.progress {
            Some(progress) => format!("{:.0}% {}", progress.fraction * 100.0, progress.note).into(),
            None => "-".into(),
        }],
        TaskState::Scheduled => vec![due()],
        TaskState::Retry => {
            vec![due(), error(), since(task.last_failed_at), format!("{}/{}", task.retried, task.max_retry).into()]
        }
        TaskState::Archived => vec![since(task.archived_at), error()],
        TaskState::Completed => vec![
            since(task.completed_at),
            task.result.as_deref().map(|result| brief(result, PAYLOAD)).unwrap_or_else(|| "-".into()).into(),
        ],
        TaskState::Aggregating => vec![task.group.as_deref().unwrap_or("-").into()],
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::TaskMessage;

    use super::*;

    #[test]
    fn a_task_that_a_person_archived_has_the_time_of_that() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Archived);
        task.archived_at = Some(DateTime::UNIX_EPOCH);
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::hours(3);
        let text = table(&[task], TaskState::Archived, now, None, Style { colours: false, width: None });
        assert!(text.contains("3h ago"), "it never failed:\n{text}");
    }
}

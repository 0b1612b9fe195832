//! `task inspect`: everything that is known of one task.

use asynq_runtime::{Client, TaskInfo, TaskState, broker::Failure, inspector::ArgumentReader};
use chrono::{DateTime, Utc};
use clap::Args;

use super::TheTask;
use crate::{
    error::CliError,
    session::Session,
    show::{Facts, TaskJson, about, ago, distance, for_people, full, time, until},
};

/// Bytes of a payload that people are shown.
const FOR_PEOPLE: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    task: TheTask,
    /// Most bytes of the payload and of the result; default 4096, with --json 1 MiB
    #[arg(long, value_name = "BYTES")]
    max_payload: Option<usize>,
    /// Shows the payload as it is, not by the shape that the broker keeps; with it secrets, too
    #[arg(long)]
    raw: bool,
}

impl Inspect {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let client = session.client().await?;
        let inspector = client.inspector();
        let task = inspector.task(&self.task.queue, self.task.id()).await?;
        let failures = inspector.failures(&self.task.queue, self.task.id()).await?;
        let payload = [(&*task.r#type, &task.payload[..])];
        let reader = if self.raw { None } else { Some(inspector.argument_reader(payload).await) };
        let reader = reader.as_ref();
        let now = client.broker().now();
        let most = self.max_payload.unwrap_or(Client::DEFAULT_PAYLOAD_LIMIT);
        let value = TaskJson::of(&task, now, most, reader).with_failures(&failures);
        session.answer(&value, |_| text(&task, &failures, now, self.max_payload.unwrap_or(FOR_PEOPLE), reader))
    }
}

fn text(
    task: &TaskInfo,
    failures: &[Failure],
    now: DateTime<Utc>,
    most: usize,
    reader: Option<&ArgumentReader>,
) -> String {
    let past = |at: DateTime<Utc>| format!("{} ({})", time(at), ago(now, at));
    let limit = |at: DateTime<Utc>| format!("{} ({})", time(at), distance(now, at));
    let mut facts = Facts::default();
    facts.add("ID", task.id.as_str());
    facts.add("Queue", task.queue.as_str());
    facts.add("Type", &*task.r#type);
    facts.add("State", if task.is_orphan(now) { "active, but no worker runs it" } else { task.state.as_str() });
    facts.add_if("Ending", task.ending.as_str());
    facts.add_if("Group", task.group.as_deref());
    facts.add("Payload", full(&for_people(&task.r#type, &task.payload, reader), most, ""));
    let hidden = reader.and_then(|reader| reader.read(&task.r#type, None, &task.payload)).and_then(Result::err);
    facts.add_if("Shape", hidden.map(|reason| format!("{reason}; --json --raw shows the bytes")));
    facts.add("Retried", format!("{} of {}", task.retried, task.max_retry));
    facts.add_if("Crashes", (task.crashes > 0).then(|| task.crashes.to_string()));
    facts.add(
        "Next run",
        match (task.state, task.next_process_at) {
            (TaskState::Scheduled | TaskState::Retry, Some(at)) => format!("{} ({})", time(at), until(now, at)),
            (TaskState::Pending, _) => "now".to_owned(),
            _ => "-".to_owned(),
        },
    );
    facts.add_if("Progress", task.progress.as_ref().map(|p| format!("{:.0}% {}", p.fraction * 100.0, p.note)));
    facts.add_if("Lease until", task.lease_until.map(limit));
    facts.add_if("Timeout", task.timeout.map(about));
    facts.add_if("Deadline", task.deadline.map(limit));
    facts.add_if("Expires", task.expires.map(limit));
    facts.add_if("Retention", task.retention.map(about));
    facts.add_if("Completed", task.completed_at.map(past));
    facts.add_if("Archived", task.archived_at.map(past));
    facts.add_if("Result", task.result.as_deref().map(|result| full(result, most, "")));
    facts.add_if("Unique key", task.unique_key.as_deref());
    for (key, value) in &task.headers {
        facts.add("Header", format!("{key}: {value}"));
    }
    facts.add_if("Last failed", task.last_failed_at.map(past));
    facts.add_if("Last error", task.last_error.as_deref());
    for failure in failures {
        facts.add(format!("Failure {}", failure.number), format!("{}\n{}", past(failure.at), failure.error));
    }
    facts.into_text()
}

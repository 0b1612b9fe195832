//! The return types of jobs.

use asynq_runtime::{Outcome, prelude::*};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Report {
    rows: u64,
}

#[job(name = "user:result", retention = "1h")]
async fn result(rows: u64) -> JobResult<Report> {
    Ok(Report { rows })
}

#[derive(Debug)]
enum PayError {
    Declined,
    Io(std::io::Error),
}

impl std::fmt::Display for PayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for PayError {}

impl From<std::io::Error> for PayError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl PayError {
    fn policy(&self) -> Policy {
        match self {
            Self::Declined => Policy::SkipRetry,
            Self::Io(_) => Policy::Fail,
        }
    }
}

#[job(name = "user:own_error")]
async fn own_error(cents: u64) -> Result<u64, PayError> {
    if cents == 0 { Err(PayError::Declined) } else { Ok(cents) }
}

#[job(name = "user:own_policy", on_error = PayError::policy)]
fn own_policy(path: String) -> Result<(), PayError> {
    std::fs::metadata(path)?;
    Ok(())
}

#[job(name = "user:boxed")]
async fn boxed(number: String) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    Ok(number.parse()?)
}

#[job(name = "user:question_marks")]
async fn question_marks(ctx: &JobContext, path: String) -> JobResult {
    let text = std::fs::read_to_string(path)?;
    let number: u64 = text.trim().parse()?;
    ctx.progress(1.0, "read").await?;
    match number {
        0 => Err(JobError::retry_in("30s", "throttled")),
        1 => Err(JobError::revoke("unsubscribed")),
        2 => Err(JobError::snooze("5m")),
        _ => Ok(()),
    }
}

/// A caller that waits for the job's own type.
async fn caller(client: &Client) -> Result<u64, BoxError> {
    let task = result::job(3_u64).awaited().enqueue(client).await?;
    match task.wait("30s").await? {
        Outcome::Done(report) => Ok(report.rows),
        other => Err(format!("{other:?}").into()),
    }
}

//! The tasks of the workloads: about 100 bytes of JSON, and a handler that only notes its run.

use std::time::SystemTime;

use asynq_runtime::prelude::*;
use tokio::{sync::mpsc, time::timeout};

pub(crate) use crate::seen::{PATIENCE, Seen};

/// Counts its run.
#[job(queue = "bench", codec = "json")]
pub(crate) async fn note(seen: State<Seen>, number: u64, to: String, subject: String, body: String) -> JobResult {
    let _ = (to, subject, body);
    seen.mark(number);
    Ok(())
}

/// Counts the runs of tasks that became one.
#[job(queue = "bench", codec = "json", aggregates = note)]
pub(crate) async fn notes(seen: State<Seen>, notes: Vec<note>) -> JobResult {
    notes.iter().for_each(|note| seen.mark(note.number));
    Ok(())
}

/// Returns task `number`, whose JSON has `bytes` bytes, or as few as there can be.
pub(crate) fn task(number: u64, bytes: usize) -> note {
    let mut task = note { number, to: "ann@example.com".into(), subject: "Hi".into(), body: String::new() };
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let frame = r#"{"number":,"to":"ann@example.com","subject":"Hi","body":""}"#.len() + digits;
    task.body = "x".repeat(bytes.saturating_sub(frame));
    task
}

impl Seen {
    /// Returns an empty set that waits for all of `n` tasks.
    pub(crate) fn none_of(n: u64) -> Self {
        Self::first(n, n)
    }

    /// Checks that each task has run once and only once.
    ///
    /// # Errors
    ///
    /// The error says how many have not.
    pub(crate) fn exactly_once(&self) -> Result<(), BoxError> {
        match (self.missing(), self.again()) {
            (0, 0) => Ok(()),
            (missing, again) => Err(format!("{missing} tasks have not run, {again} ran again").into()),
        }
    }
}

/// Reports how long after `moment`, Unix nanoseconds, it started. Every process reads the clock of one machine.
#[job(queue = "bench", codec = "json", retry = 0)]
pub(crate) async fn stamp(starts: State<Starts>, number: u64, moment: u64) -> JobResult {
    starts.0.send((number, unix_nanos().cast_signed() - moment.cast_signed()))?;
    Ok(())
}

/// Returns the moment of its end, Unix nanoseconds.
#[job(queue = "bench", codec = "json", retry = 0)]
pub(crate) async fn finish() -> JobResult<u64> {
    Ok(unix_nanos())
}

/// The channel on which starts are reported: number of the task, nanoseconds after its moment.
#[derive(Debug)]
pub(crate) struct Starts(pub(crate) mpsc::UnboundedSender<(u64, i64)>);

/// Returns the next start.
///
/// # Errors
///
/// No task started within [`PATIENCE`].
pub(crate) async fn next_start(starts: &mut mpsc::UnboundedReceiver<(u64, i64)>) -> Result<(u64, i64), BoxError> {
    timeout(PATIENCE, starts.recv()).await.ok().flatten().ok_or_else(|| "a task did not start".into())
}

/// Returns the Unix nanoseconds of now.
pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

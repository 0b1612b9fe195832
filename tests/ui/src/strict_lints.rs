//! The expansion of `#[job]` is clean under lints that are stricter than most programs'.

use asynq_runtime::{Client, EnqueueError, Enqueued, JobContext, JobError, JobResult, State, TaskInfo, job};

/// Every kind of parameter.
#[job(queue = "low", retry = 1, timeout = "1m", unique = "1h", unique_by = "to", retention = "1d", name = "a:b")]
pub(crate) async fn everything(
    ctx: &JobContext,
    state: State<u8>,
    to: String,
    subject: &str,
    numbers: &[u8],
    file: &std::path::Path,
    more: Option<String>,
) -> JobResult<u64> {
    drop((ctx.id(), state, to, subject, numbers, file, more));
    Ok(1)
}

/// A blocking one.
#[job(codec = "json")]
fn blocking(ctx: &JobContext, state: State<u8>, one: u64) -> Result<u64, std::io::Error> {
    let _ = ctx.id();
    Ok(one + u64::from(*state))
}

/// Run by another program.
#[job]
fn elsewhere(to: String, one: &[u64]) -> Result<u64, std::io::Error>;

/// Waits in a group.
#[job(
    group = "digest",
    expires = "1h500ms",
    unique = "1h",
    unique_until = "success",
    unique_extend = true,
    backoff = "exponential(1s, 10m)"
)]
async fn note(text: String) {
    drop(text);
}

/// Made of many.
#[job(aggregates = note, backoff = gentle)]
async fn digest(ctx: &JobContext, notes: Vec<note>) {
    drop((ctx.group(), notes));
}

fn gentle(retried: u32, error: &JobError) -> std::time::Duration {
    let _ = error.policy();
    std::time::Duration::from_secs(u64::from(retried))
}

/// Nothing at all.
#[job]
async fn nothing() {}

/// Old.
#[deprecated = "use another"]
#[job]
async fn old(to: String) {
    drop(to);
}

/// Enqueues with every function of the expansion.
async fn enqueue(client: &Client) -> Result<TaskInfo, EnqueueError> {
    drop(everything::enqueue(client, "a", "b", &[1], "c".as_ref(), None).await?);
    drop(blocking::enqueue_in(client, "10m", 5).await?);
    drop(note::enqueue(client, "a").await?);
    drop(digest::enqueue(client, Vec::new()).await?);
    nothing::job().queue("low").enqueue(client).await.map(Enqueued::into_info)
}

/// Makes tasks of the jobs.
pub fn run() {
    let _ = enqueue;
    fn inside() {
        /// A job of this function.
        #[job]
        async fn local(text: &str) {
            let _ = text.len();
        }
        drop(local::job("a"));
    }
    inside();
}

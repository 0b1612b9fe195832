//! The options of the attribute.

use std::time::Duration;

use asynq_runtime::prelude::*;

#[job(name = "user:plain")]
pub(super) async fn plain(to: String) {
    println!("{to}");
}

#[job(
    name = "user:everything",
    queue = "critical",
    retry = 5,
    timeout = "3m",
    deadline = "1d",
    retention = "2h",
    max_crashes = 5
)]
async fn everything(to: String) -> JobResult {
    println!("{to}");
    Ok(())
}

#[job(name = "user:unique", unique = "1h", unique_by = "tenant", unique_until = "start")]
async fn unique(tenant: String, n: u64) -> JobResult {
    println!("{tenant} {n}");
    Ok(())
}

#[job(name = "user:debounced", unique_by = "doc", debounce = "30s", debounce_max = "5m")]
async fn debounced(doc: String, version: u64) -> JobResult {
    println!("{doc} {version}");
    Ok(())
}

fn gentle(retried: u32, error: &JobError) -> Duration {
    println!("{error}");
    Duration::from_secs(u64::from(retried))
}

#[job(name = "user:backoff", backoff = gentle)]
async fn backoff(to: String) -> JobResult {
    println!("{to}");
    Ok(())
}

#[job(name = "user:linear", backoff = "linear(10s)", expires = "1h")]
async fn linear(to: String) -> JobResult {
    println!("{to}");
    Ok(())
}

#[job(name = "user:blocking", timeout = "10s", kill_after = "1m")]
fn blocking(path: String) -> JobResult {
    std::fs::metadata(path)?;
    Ok(())
}

#[job(name = "user:note", group = "digest")]
async fn note(text: String) {
    println!("{text}");
}

#[job(name = "user:digest", aggregates = note)]
async fn digest(notes: Vec<note>) -> JobResult {
    for note in notes {
        println!("{}", note.text);
    }
    Ok(())
}

#[job(name = "user:derives", derive(Debug, Clone, PartialEq))]
async fn derives(to: String, n: u8) {
    let one = derives { to, n };
    assert_eq!(one.clone(), one);
}

/// Run by another program.
#[job(name = "contract:resize")]
pub(super) async fn resize(path: String) -> JobResult<u64>;

mod renamed {
    pub(super) use asynq_runtime as jobs;

    #[jobs::job(name = "user:renamed_crate", crate = self::jobs)]
    async fn renamed_crate(to: String) {
        println!("{to}");
    }
}

use asynq_runtime::prelude::*;

pub struct Mailer { pub from: String }

#[job(retry = 3)]
pub async fn deliver(ctx: &JobContext, mailer: State<Mailer>, to: &str) -> JobResult {
    if !to.contains('@') { return Err(JobError::skip_retry(format!("bad address {to}"))); }   // archived at once
    if to.ends_with("@busy") { return Err(JobError::retry_in("30s", "throttled")); }         // its own delay
    if to.ends_with("@gone") { return Err(JobError::revoke("unsubscribed")); }                // dropped
    if to.ends_with("@later") { return Err(JobError::snooze("5m")); }                          // not a failure, no retry spent
    tracing::info!(attempt = ctx.retried(), id = %ctx.id(), from = %mailer.from, "delivered");
    ctx.progress(1.0, "sent").await?;
    if ctx.is_cancelled() { return Err(JobError::fail("cancelled")); }
    Ok(())
}

#[job]
pub fn thumbnail(path: String) -> JobResult { std::fs::metadata(path)?; Ok(()) }              // blocking pool

async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app.state(Mailer { from: "me@example.com".into() }).queue("critical", 6).queue("default", 3).concurrency(20))
}

asynq_runtime::main!(setup);

//! A worker with its own dashboard: `cargo run --example dashboard -- --dashboard 127.0.0.1:8080 --metrics 9090`.
//!
//! The dashboard knows the jobs of its program, so their arguments are readable in the pages, and a secret is `***`. Other
//! machines reach it with a login (`ASYNQ_DASHBOARD_PASSWORD_HASH_FILE` or `ASYNQ_DASHBOARD_TOKEN_FILE`) and `--dashboard-host`.

use std::time::Duration;

use asynq_runtime::{Secret, prelude::*};

/// Sends a mail, now and then in vain.
#[job(queue = "mail", retry = 3)]
async fn send(ctx: &JobContext, to: String, key: Secret<String>) -> JobResult {
    ctx.progress(0.5, "connected").await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    if to.is_empty() || key.expose().is_empty() {
        return Err("no recipient".into());
    }
    println!("sent to {to}");
    Ok(())
}

asynq_runtime::main!(services: [asynq_dashboard]);

//! Statistics: queues, servers and running tasks, as one typed value and as JSON, for a status page or a monitor.

use asynq_runtime::prelude::*;

/// Takes its time, so that it can be seen at work.
#[job(name = "report:build", queue = "reports")]
async fn build_report(ctx: &JobContext, month: u32) -> JobResult {
    let _ = month;
    ctx.cancelled().await;
    Err(JobError::revoke("cancelled"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("reports", 1)
        .concurrency(1)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();
    let inspector = client.inspector();

    let first = build_report::enqueue(&client, 1).await?;
    build_report::enqueue(&client, 2).await?;
    let beat = &running.signals().beat;
    let statistics = loop {
        let beats = beat.count();
        let statistics = inspector.statistics().await?;
        if !statistics.running.is_empty() {
            break statistics;
        }
        // Servers write every five seconds which tasks they run.
        beat.reached(beats + 1).await;
    };
    for task in &statistics.running {
        println!("{} runs in {} since {:?}: {}", task.r#type, task.queue, task.since, task.id == first.id.as_str());
    }
    println!("{} waiting, {} processed", statistics.totals.waiting, statistics.totals.processed_today);
    let json = statistics.to_json();
    println!("as JSON: {} queue, {} server", json["queues"].as_array().map_or(0, Vec::len), statistics.servers.len());
    println!("{}", serde_json::to_string_pretty(&json["totals"])?);

    inspector.pause("reports").await?;
    inspector.cancel(&first.id).await?;
    running.shutdown().await?;
    Ok(())
}

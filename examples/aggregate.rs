//! Aggregation as in Go's asynq: a function makes one task of a group of tasks, also of types that have no Rust function.

use std::time::Duration;

use asynq_runtime::{prelude::*, task::GroupName};

/// Handles the task that `join` makes; a Go program could handle it as well.
#[job(name = "log:write", codec = "json")]
async fn write_log(lines: Vec<String>) -> JobResult {
    println!("wrote {} lines: {}", lines.len(), lines.join(" | "));
    Ok(())
}

/// Joins all lines of a group. After an error or a panic the tasks stay in their group, to be tried again later.
fn join(group: GroupName, tasks: Vec<TaskInfo>) -> Result<RawTask, BoxError> {
    let mut lines = vec![format!("[{group}]")];
    for task in &tasks {
        lines.push(String::from_utf8(task.payload.to_vec())?);
    }
    Ok(RawTask::new("log:write", serde_json::to_vec(&lines)?))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let server = Server::builder(url)
        // `join` aggregates all groups whose name begins with "log:". The longest prefix wins, and "" is for every group.
        .aggregate("log:", join)
        // A closure with an `async` block works as well.
        .aggregate("log:audit", |group, tasks| async move {
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(write_log::job(vec![format!("{group}: {} tasks", tasks.len())]))
        })
        .group_grace("1s")
        .build()
        .await?;
    let client = Client::new(server.broker().clone());
    for line in ["started", "ready"] {
        client.enqueue(RawTask::new("log:line", line).group("log:web")).await?;
    }
    client.enqueue(RawTask::new("log:line", "login").group("log:audit")).await?;

    let running = server.start().await?;
    tokio::time::timeout(Duration::from_secs(60), running.signals().settled.reached(2)).await?;
    running.shutdown().await?;
    Ok(())
}

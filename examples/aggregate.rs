//! Aggregation as in Go's asynq: a function from a group and its tasks to one task. For types that have no Rust function.

use std::time::Duration;

use asynq_runtime::{prelude::*, task::GroupName};

/// What runs at the end; it could as well be a Go program's.
#[job(name = "log:write", codec = "json")]
async fn write_log(lines: Vec<String>) -> JobResult {
    println!("wrote {} lines: {}", lines.len(), lines.join(" | "));
    Ok(())
}

/// All lines of a group. An error, or a panic, leaves the tasks in their group, to be tried again later.
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
        // For all groups whose name begins so; the longest beginning counts, and "" would be for every group.
        .aggregate("log:", join)
        // An `async` block does as well.
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

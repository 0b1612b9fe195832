//! Without the macro: a struct and one `impl` are a job. `#[job]` writes nothing that you could not write yourself.

use std::time::Duration;

use asynq_runtime::prelude::*;
use serde::{Deserialize, Serialize};

/// The job; its fields are the arguments.
#[derive(Serialize, Deserialize)]
struct Welcome {
    to: String,
}

impl Job for Welcome {
    const NAME: &'static str = "welcome";
    const OPTIONS: JobOptions = JobOptions::new().queue("mail").retry(5).timeout(Duration::from_secs(60));
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        println!("welcome, {} (task {} of queue {})", self.to, ctx.id(), ctx.queue());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("mail", 1)
        .register::<Welcome>()
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    let task = Welcome { to: "Ann".to_owned() }.enqueue(&client).await?;

    // A task that only a program in another language handles has a name and bytes.
    let other = RawTask::new("invoice:print", br#"{"number":4711}"#.as_slice()).queue("printer");
    let other = client.enqueue(other).await?;
    println!("{} waits in queue {} for its own worker", other.r#type, other.queue);

    if task.wait("1m").await?.has_ended() {
        println!("done");
    }
    running.shutdown().await?;
    Ok(())
}

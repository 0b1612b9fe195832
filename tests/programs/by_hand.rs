//! Runs a job without the macro, and a task without a Rust type.

use std::sync::Mutex;

use asynq_runtime::{prelude::*, task::QueueName};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, on_both_brokers, until};

#[derive(Serialize, Deserialize)]
struct Welcome {
    to: String,
}

#[derive(Default)]
struct Greeted(Mutex<Vec<String>>);

impl Job for Welcome {
    const NAME: &'static str = "welcome";
    const OPTIONS: JobOptions = JobOptions::new().retry(2);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let greeted = ctx.state::<std::sync::Arc<Greeted>>().ok_or("nowhere to greet")?;
        greeted.0.lock().map_err(|_| "poisoned")?.push(format!("{} {}", self.to, ctx.max_retry()));
        Ok(())
    }
}

on_both_brokers! {
    async fn a_job_written_by_hand_runs_and_a_raw_task_waits_for_its_language(stage: &Stage) {
        let client = stage.client().await;
        client.enqueue(Welcome { to: "ann".into() }).await.unwrap();
        Welcome { to: "bob".into() }.enqueue(&client).await.unwrap();
        Welcome { to: "eve".into() }.into_job().retry(7).enqueue(&client).await.unwrap();
        let bytes = &b"{\"path\":\"cat.png\"}"[..];
        let raw = client.enqueue(RawTask::new("image:crop", bytes).queue("go")).await.unwrap();

        let greeted = std::sync::Arc::new(Greeted::default());
        let server = Server::builder(&stage.url).register::<Welcome>().state(greeted.clone()).queue("default", 1);
        let running = server.concurrency(1).build().await.unwrap().start().await.unwrap();
        until(&client, "default", |queue| queue.size == 0).await;
        running.shutdown().await.unwrap();

        assert_eq!(*greeted.0.lock().unwrap(), ["ann 2", "bob 2", "eve 7"]);
        let raw = client.broker().task(&QueueName::new("go").unwrap(), &raw.id).await.unwrap().unwrap();
        assert_eq!((raw.r#type.as_str(), raw.state, &raw.payload[..]), ("image:crop", TaskState::Pending, bytes));
    }
}

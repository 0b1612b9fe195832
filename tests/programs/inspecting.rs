//! Inspects and repairs tasks.

use asynq_runtime::prelude::*;

use crate::stage::{Stage, on_both_brokers, queue, tasks, until};

mod as_written {
    #![allow(missing_docs, unreachable_pub)]
    include!("as_written/inspecting.rs");

    pub(crate) async fn call(client: &Client) -> Result<(), BoxError> {
        look(client).await
    }
}

/// A job that is archived at its first run.
#[job(name = "inspecting:hopeless")]
async fn hopeless() -> JobResult {
    Err(JobError::skip_retry("no hope"))
}

on_both_brokers! {
    async fn archived_tasks_run_again_and_a_queue_is_paused(stage: &Stage) {
        let client = stage.client().await;
        hopeless::enqueue(&client).await.unwrap();
        let jobs = Registry::only::<(hopeless,)>().unwrap();
        let running = Server::builder(&stage.url).registry(jobs).build().await.unwrap().start().await.unwrap();
        until(&client, "default", |queue| queue.archived == 1).await;
        running.shutdown().await.unwrap();

        as_written::call(&client).await.unwrap();
        let [again] = &tasks(&client, "default", TaskState::Pending).await[..] else { panic!("it should be pending") };
        assert_eq!(again.last_error.as_deref(), Some("no hope"));
        assert!(client.broker().queue_stats(&queue("low")).await.unwrap().paused);
    }

    async fn a_missing_queue_is_an_error(stage: &Stage) {
        let error = as_written::call(&stage.client().await).await.unwrap_err();
        assert_eq!(error.to_string(), "queue `default` was not found");
    }
}

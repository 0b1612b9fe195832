//! A `TestApp` with jobs that change tasks of other queues.

use asynq_runtime::{prelude::*, testing::TestApp};

#[job(queue = "a")]
async fn deletes(client: State<Client>, id: String) -> JobResult {
    client.inspector().delete("b", id).await?;
    Ok(())
}

#[job(queue = "b", unique = "1h", unique_by = "doc")]
async fn prints(doc: u64, text: String) -> JobResult {
    Err(JobError::skip_retry(format!("{doc} {text}")))
}

#[job(queue = "a")]
async fn replaces(client: State<Client>, doc: u64) -> JobResult {
    prints::job(doc, "new").or_replace().enqueue(&client).await?;
    Ok(())
}

#[tokio::test]
async fn a_task_of_another_queue_is_pending_until_it_is_its_turn() {
    let app = TestApp::new().await;
    let task = prints::enqueue(app.client(), 1, "old").await.unwrap();
    deletes::enqueue(app.client(), task.id.as_str()).await.unwrap();
    let drained = app.drain().await;
    assert_eq!((drained.succeeded, drained.failures), (1, Vec::new()));

    prints::enqueue(app.client(), 2, "old").await.unwrap();
    replaces::enqueue(app.client(), 2).await.unwrap();
    let drained = app.drain().await;
    let errors: Vec<&str> = drained.failures.iter().map(|failure| failure.error.as_str()).collect();
    assert_eq!((drained.succeeded, errors), (1, vec!["2 new"]));
}

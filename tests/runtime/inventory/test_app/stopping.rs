//! A `TestApp` with a job that is cancelled while it runs.

use asynq_runtime::{prelude::*, testing::TestApp};
use asynq_test_support::soon;

#[job(retry = 0)]
async fn cancels_itself(ctx: &JobContext, client: State<Client>) -> JobResult {
    client.inspector().cancel(ctx.id()).await?;
    std::future::pending().await
}

#[job(retry = 0)]
fn cancelled_from_outside(ctx: &JobContext, runs: State<tokio::sync::mpsc::UnboundedSender<String>>) -> JobResult {
    runs.send(ctx.id().to_string())?;
    while !ctx.is_cancelled() {
        std::thread::yield_now();
    }
    Ok(())
}

#[tokio::test]
async fn a_task_that_is_cancelled_while_it_runs_has_failed() {
    let app = TestApp::new().await;
    cancels_itself::enqueue(app.client()).await.unwrap();
    let drained = soon(app.drain()).await;
    assert_eq!((drained.failed, drained.archived), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_job_is_told_that_it_was_cancelled() {
    let (runs, mut ids) = tokio::sync::mpsc::unbounded_channel::<String>();
    let app = TestApp::new().await.state(runs);
    cancelled_from_outside::enqueue(app.client()).await.unwrap();
    let cancel = async { app.client().inspector().cancel(ids.recv().await.unwrap()).await.unwrap() };
    let (drained, _) = soon(async { tokio::join!(app.drain(), cancel) }).await;
    assert_eq!(drained.succeeded, 1, "what it returned counts");
}

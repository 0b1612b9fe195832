//! A `TestApp` with a job that had another name, or other arguments.

use asynq_runtime::{prelude::*, testing::TestApp};

#[job(alias = "earlier")]
async fn renamed(n: u64) -> JobResult<u64> {
    Ok(n)
}

mod before {
    use asynq_runtime::prelude::*;

    #[job]
    pub async fn earlier(n: u64);
}

#[tokio::test]
async fn tasks_under_an_earlier_name_are_found_as_those_of_the_job() {
    let app = TestApp::new().await;
    before::earlier::enqueue(app.client(), 7).await.unwrap();
    renamed::enqueue(app.client(), 8).await.unwrap();
    let mut found: Vec<_> = app.enqueued::<renamed>().await.into_iter().map(|job| job.n).collect();
    found.sort();
    assert_eq!(found, [7, 8]);
    app.assert_enqueued::<renamed>(|job| job.n == 7).await;
    assert_eq!(app.drain().await.succeeded, 2);
    app.assert_not_enqueued::<renamed>(|_| true).await;
}

#[tokio::test]
#[should_panic(expected = "task from-before in low cannot be read: the arguments of `renamed`")]
async fn a_task_with_other_arguments_is_named_by_the_assertion_that_reads_it() {
    let app = TestApp::new().await;
    let task = RawTask::new("renamed", r#"{"n":"seven"}"#).task_id("from-before").queue("low");
    app.client().enqueue(task).await.unwrap();
    app.assert_enqueued::<renamed>(|job| job.n == 7).await;
}

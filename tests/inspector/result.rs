//! Results are read with their type.

use asynq_runtime::{Client, ResultError, TaskState, prelude::*, task::TaskId};
use asynq_tests::{Build as _, archive, complete, soon, task};
use serde::{Deserialize, Serialize};

use super::Fixture;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Size {
    bytes: u64,
    name: String,
}

/// A job whose result is kept, in our own codec.
#[job(name = "result:measure", queue = "sizes", retention = "1h")]
async fn measure(name: String) -> JobResult<Size> {
    Ok(Size { bytes: name.len() as u64, name })
}

/// A job whose result is kept as JSON, which a Go worker may write too.
#[job(name = "email:send", codec = "json")]
async fn shared() -> JobResult<u64> {
    Ok(42)
}

/// A job without a result.
#[job(name = "email:send")]
async fn silent() -> JobResult {
    Ok(())
}

#[tokio::test]
async fn a_result_comes_back_as_it_was_returned() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    let jobs = Registry::only::<(measure,)>().unwrap();
    let server = Server::builder("sqlite::memory:").broker(t.shared()).queue("sizes", 1).registry(jobs);
    let running = server.build().await.unwrap().start().await.unwrap();
    let sent = measure::enqueue(&client, "cat.png").await.unwrap();
    let result = soon(sent.wait("1h")).await.unwrap().done().unwrap();
    assert_eq!(result, Size { bytes: 7, name: "cat.png".into() });
    assert_eq!(client.result_in::<measure>("sizes", sent.id.as_str()).await.unwrap().bytes, 7);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_result_of_another_program_is_read_by_the_codec_of_the_job() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    t.seed_completed("t1", 60).await;
    assert_eq!(client.result::<shared>("t1").await.unwrap(), 42);
    assert_eq!(client.result::<shared>(&TaskId::new("t1").unwrap()).await.unwrap(), 42);
}

#[tokio::test]
async fn a_job_without_a_result_has_one_as_soon_as_it_is_completed() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    let run = t.start_run(task("t1").with_retention(60)).await;
    assert!(matches!(client.result::<silent>("t1").await, Err(ResultError::NotFinished { .. })));
    t.settle(&run, asynq_runtime::broker::Action::Complete { result: None }).await;
    client.result::<silent>("t1").await.unwrap();
    let error = client.result::<shared>("t1").await.unwrap_err();
    assert!(matches!(error, ResultError::NoResult { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_result_is_an_error_with_its_reason() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    t.seed_every_state().await;
    for state in [TaskState::Pending, TaskState::Active, TaskState::Scheduled, TaskState::Retry] {
        let error = client.result::<shared>(state.as_str()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("task `{state}` has not finished: it is {state}"));
    }
    let error = client.result::<shared>("archived").await.unwrap_err();
    assert_eq!(error.to_string(), "task `archived` was archived without a result: fatal");
    let error = client.result::<shared>("none").await.unwrap_err();
    assert!(matches!(error, ResultError::Nowhere { .. }) && error.to_string().contains("`retention`"), "{error}");
    let error = client.result_in::<shared>("elsewhere", "completed").await.unwrap_err();
    assert!(matches!(error, ResultError::NotFound { queue, .. } if queue == "elsewhere"));
    let error = client.result_in::<measure>("default", "completed").await.unwrap_err();
    assert_eq!(error.to_string(), "task `completed` is a `email:send`, not a `result:measure`");

    let run = t.start_run(task("odd").in_queue("odd").with_retention(60)).await;
    t.settle(&run, complete("\"text\"")).await;
    let error = client.result_in::<shared>("odd", "odd").await.unwrap_err();
    assert!(matches!(&error, ResultError::Undecodable { raw, .. } if raw == "\"text\""), "{error}");
    let run = t.start_run(task("gone").in_queue("odd")).await;
    t.settle(&run, archive("")).await;
    let error = client.result_in::<shared>("odd", "gone").await.unwrap_err();
    assert_eq!(error.to_string(), "task `gone` was archived without a result");
}

#[tokio::test]
async fn a_lost_broker_is_an_error() {
    let t = Fixture::start().await;
    let broker = t.another_broker().await;
    let client = Client::new(broker.clone());
    broker.close().await;
    let error = client.result::<shared>("t1").await.unwrap_err();
    assert!(matches!(error, ResultError::Broker(_)) && !error.is_not_yet(), "{error}");
}

//! A caller awaits the handle of a task and gets an answer with the type of its job.

use std::time::Duration;

use asynq_runtime::{Client, Enqueued, Outcome, ResultError, Server, prelude::*, server::Running};
use asynq_tests::{eventually, soon};

use super::Fixture;

/// A job that ends as `order` says.
#[job(name = "wait:obey", queue = "waits", retry = 1, backoff = "1ms")]
async fn obey(order: String) -> JobResult<u64> {
    match order.as_str() {
        "fail" => Err(JobError::skip_retry("broken beyond repair")),
        "revoke" => Err(JobError::revoke("not wanted")),
        "sleep" => std::future::pending().await,
        number => Ok(number.parse::<u64>()?),
    }
}

/// A job without a result.
#[job(name = "wait:silent", queue = "waits")]
async fn silent() {}

async fn serve(t: &Fixture) -> Running {
    let jobs = Registry::only::<(obey, silent)>().unwrap();
    let server = Server::builder("sqlite::memory:").broker(t.shared()).registry(jobs);
    let server = server.queue("waits", 1).queue("elsewhere", 1).concurrency(4);
    server.build().await.unwrap().start().await.unwrap()
}

async fn ask(client: &Client, order: &str) -> Enqueued<obey> {
    obey::job(order).awaited().enqueue(client).await.unwrap()
}

async fn outcome(task: &Enqueued<obey>) -> Outcome<u64> {
    soon(task.wait("1h")).await.unwrap()
}

#[tokio::test]
async fn each_end_is_reported_by_its_kind() {
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    assert_eq!(outcome(&ask(&client, "240").await).await, Outcome::Done(240));
    assert_eq!(outcome(&ask(&client, "fail").await).await, Outcome::Archived("broken beyond repair".into()));
    assert_eq!(outcome(&ask(&client, "revoke").await).await, Outcome::Revoked);
    let nothing = silent::job().awaited().enqueue(&client).await.unwrap();
    assert_eq!(soon(nothing.wait("1h")).await.unwrap(), Outcome::Done(()));
    // Neither outcome is kept for a task that was not enqueued as awaited.
    for order in ["240", "revoke"] {
        let task = obey::enqueue(&client, order).await.unwrap();
        assert_eq!(outcome(&task).await, Outcome::Gone, "{order}");
    }
    running.shutdown().await.unwrap();
}

/// A job that had another name.
#[job(name = "wait:new", alias = "wait:old", queue = "waits")]
async fn renamed() -> JobResult<u64> {
    Ok(7)
}

#[tokio::test]
async fn a_task_under_an_earlier_name_of_its_job_is_found() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    for queue in ["waits", "elsewhere"] {
        client.enqueue(RawTask::new("wait:old", "").task_id(queue).queue(queue)).await.unwrap();
        assert_eq!(client.find::<renamed>(queue).await.unwrap().queue.as_str(), queue);
        let other = client.find::<silent>(queue).await.unwrap_err();
        assert!(matches!(other, ResultError::OtherJob { .. }), "{other}");
    }
}

#[tokio::test]
async fn a_task_that_is_not_started_in_time_has_expired() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    for task in [obey::job("1").expires("1ms"), obey::job("1").expires("1ms").awaited()] {
        let task = task.enqueue(&client).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        let running = serve(&t).await;
        assert_eq!(outcome(&task).await, Outcome::Expired);
        assert!(matches!(task.result().await, Err(ResultError::Archived { .. })));
        running.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_that_still_runs_or_is_deleted_is_reported_as_such() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    let task = ask(&client, "7").await;
    assert_eq!(task.wait(Duration::ZERO).await.unwrap(), Outcome::StillRunning);
    // On a machine that stands still for a second the broker does not answer within the limit.
    let soon_over = async |task: &Enqueued<obey>| {
        let answer = async || match task.wait("20ms").await {
            Err(error) if error.is_not_yet() => None,
            answer => Some(answer.unwrap()),
        };
        eventually("the broker answers within the limit", answer).await
    };
    assert_eq!(soon_over(&task).await, Outcome::StillRunning);
    let running = serve(&t).await;
    let endless = ask(&client, "sleep").await;
    assert_eq!(soon_over(&endless).await, Outcome::StillRunning);
    assert_eq!(outcome(&task).await, Outcome::Done(7));
    running.shutdown().await.unwrap();

    let (waits, deleted) = tokio::join!(endless.wait("1h"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.inspector().delete("waits", &endless.id).await
    });
    deleted.unwrap();
    assert!(matches!(waits.unwrap(), Outcome::Deleted | Outcome::Gone), "which one depends on when the wait began");
}

#[tokio::test]
async fn a_task_is_awaited_and_read_by_its_id_wherever_it_is() {
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    let here = ask(&client, "1").await;
    let there = obey::job("2").queue("elsewhere").awaited().enqueue(&client).await.unwrap();
    for (task, expected) in [(here, 1), (there, 2)] {
        assert_eq!(soon(client.wait::<obey>(&task.id, "1h")).await.unwrap(), Outcome::Done(expected));
        assert_eq!(client.result::<obey>(&task.id).await.unwrap(), expected);
        assert_eq!(client.find::<obey>(&task.id).await.unwrap().queue, task.queue);
        assert_eq!(task.result().await.unwrap(), expected);
        let error = client.wait::<silent>(&task.id, "1h").await.unwrap_err();
        assert_eq!(error.to_string(), format!("task `{}` is a `wait:obey`, not a `wait:silent`", task.id));
    }
    for error in
        [client.wait::<obey>("never", "1h").await.unwrap_err(), client.result::<obey>("never").await.unwrap_err()]
    {
        assert!(matches!(&error, ResultError::Nowhere { id } if id == "never"), "{error}");
    }
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_revoked_task_has_no_result_to_read() {
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    let task = ask(&client, "revoke").await;
    assert_eq!(outcome(&task).await, Outcome::Revoked);
    let error = task.result().await.unwrap_err();
    assert_eq!(error.to_string(), format!("task `{}` was revoked by its job", task.id));
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_without_a_job_here_is_awaited_by_its_id_and_type() {
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    let sent = ask(&client, "300").await.into_info();
    let raw = soon(client.wait_raw(&sent, "1h")).await.unwrap().done().unwrap();
    assert_eq!(soon(client.handle::<obey>(sent).wait("1h")).await.unwrap().done().unwrap(), 300);
    assert!(!raw.is_empty(), "as it is stored");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_impossible_wait_is_an_error() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    let task = ask(&client, "1").await;
    let error = task.wait("soon").await.unwrap_err();
    assert!(error.to_string().starts_with("the limit of the wait cannot be used: "), "{error}");
    let error = obey::job("1").awaited().group("g").enqueue(&client).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid option `awaited`: a task in a group"), "{error}");
    let broker = t.another_broker().await;
    let task = Client::new(broker.clone()).handle::<obey>(task.into_info());
    let (waits, ()) = tokio::join!(task.wait("1h"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        broker.close().await;
    });
    let error = waits.unwrap_err();
    assert!(matches!(error, ResultError::Broker(_)) && !error.is_not_yet(), "{error}");
}

#[tokio::test]
async fn a_server_reports_that_its_queues_are_empty() {
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    soon(running.drained()).await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..20 {
        let task = obey::job(n.to_string()).awaited();
        let task = if n % 2 == 0 { task.queue("elsewhere") } else { task.process_in("30ms") };
        tasks.push(task.enqueue(&client).await.unwrap());
    }
    // A failed task that is retried, and a task of a queue that this server does not serve.
    let failed = ask(&client, "no number").await;
    let other = obey::job("1").queue("other").enqueue(&client).await.unwrap();
    soon(running.drained()).await.unwrap();
    for (n, task) in tasks.iter().enumerate() {
        assert_eq!(task.result().await.unwrap(), n as u64);
    }
    assert!(matches!(failed.wait("0s").await.unwrap(), Outcome::Archived(_)));
    assert_eq!(other.wait("0s").await.unwrap(), Outcome::StillRunning);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn queues_that_come_while_a_server_runs_are_drained_as_well() {
    let t = Fixture::real_time().await;
    let client = Client::new(t.shared());
    let jobs = Registry::only::<(obey,)>().unwrap();
    let server = Server::builder("sqlite::memory:").broker(t.shared()).registry(jobs).queue("tenant:*", 1);
    let running = server.build().await.unwrap().start().await.unwrap();
    let task = obey::job("5").queue("tenant:new").awaited().enqueue(&client).await.unwrap();
    soon(running.drained()).await.unwrap();
    assert_eq!(task.result().await.unwrap(), 5);
    running.shutdown().await.unwrap();
}

/// Handles and their waits can be sent to other tasks; a handle works as a `TaskInfo` wherever one is expected.
#[tokio::test]
async fn a_handle_goes_wherever_it_is_needed() {
    fn is_send<T: Send + Sync + 'static>(value: T) -> T {
        value
    }
    let t = Fixture::real_time().await;
    let (client, running) = (Client::new(t.shared()), serve(&t).await);
    let task: Enqueued<obey> = is_send(ask(&client, "9").await);
    let info: &TaskInfo = &task;
    assert_eq!(
        (info.queue.as_str(), info.r#type.as_str(), info.retention),
        ("waits", "wait:obey", Some(Duration::from_secs(60)))
    );
    let copy = task.clone();
    let waits = tokio::spawn(async move { copy.wait("1h").await });
    assert_eq!(soon(waits).await.unwrap().unwrap(), Outcome::Done(9));
    assert!(format!("{task:?}").starts_with("Enqueued(TaskInfo"));
    let info = task.into_info();
    assert_eq!(info.state, TaskState::Pending);
    let info = obey::job("1").retention("5m").awaited().enqueue(&client).await.unwrap();
    assert_eq!(info.retention, Some(Duration::from_secs(300)), "a longer retention stays");
    running.shutdown().await.unwrap();
}

//! Payloads are in no log line, at any level and after any outcome of their tasks.

use asynq_runtime::{prelude::*, server::Running};
use asynq_tests::eventually;

use crate::{
    seen::Seen,
    stage::{Stage, on_both_brokers},
};

const CANARY: &str = "canary-payload-9b1e";

#[job(retention = "1h")]
async fn canary_runs(_note: String) -> JobResult<String> {
    Ok(format!("a result with {CANARY}"))
}

#[job(codec = "json", retry = 1, backoff = "10ms")]
async fn canary_fails(_note: String) -> JobResult {
    Err("on purpose".into())
}

#[job(retry = 0)]
async fn canary_panics(_note: Secret<String>) -> JobResult {
    panic!("on purpose");
}

#[job(codec = "json", retry = 0)]
async fn canary_number(n: u32, secret: Secret<u32>) -> JobResult {
    assert!(n + secret.into_inner() > 0);
    Ok(())
}

async fn serving(stage: &Stage) -> Running {
    let client = stage.client().await;
    let server = Server::builder(&stage.url).concurrency(2).state(client);
    let server = server.on_error(|task| async move { tracing::error!(?task, "the program logs a failed task") });
    server.build().await.unwrap().start().await.unwrap()
}

on_both_brokers! {
    async fn no_payload_is_logged_while_a_task_is_enqueued_runs_fails_is_retried_and_archived(stage: &Stage) {
        let (seen, running) = (Seen::all(), serving(stage).await);
        let client = &running.client();
        tracing::trace!("this level is looked at");
        let mut ids = Vec::new();
        let task = canary_runs::enqueue(client, CANARY).await.unwrap();
        tracing::info!(?task, "the program logs what it enqueued");
        ids.push(task.into_info().id);
        ids.push(canary_fails::enqueue(client, CANARY).await.unwrap().into_info().id);
        ids.push(canary_panics::enqueue(client, CANARY.to_owned().into()).await.unwrap().into_info().id);
        // Arguments that do not fit: their errors concern the payload itself.
        for payload in [
            format!(r#"{{"n":"{CANARY}","secret":1}}"#),
            format!(r#"{{"n":1,"secret":"{CANARY}"}}"#),
            format!(r#"{{"{CANARY}":1}}"#),
            CANARY.to_owned(),
        ] {
            ids.push(client.enqueue(RawTask::new("canary_number", payload).retry(0)).await.unwrap().id);
        }
        ids.push(client.enqueue(RawTask::new("canary_fails", format!("\u{1}{CANARY}"))).await.unwrap().id);
        ids.push(client.enqueue(RawTask::new("nobody:knows", CANARY)).await.unwrap().id);
        // A payload that no version can read is archived; one that another version may be able to run waits for it.
        eventually("one is completed, three are archived and five wait", async || {
            let stats = client.inspector().queue("default").await.ok()?;
            ((stats.completed, stats.archived, stats.retry) == (1, 3, 5)).then_some(())
        })
        .await;
        let completed = client.inspector().task("default", &ids[0]).await.unwrap();
        assert!(completed.result.is_some());
        tracing::info!(?completed, "the program logs what it reads");
        // Every tool shows the stored errors.
        for state in [TaskState::Archived, TaskState::Retry] {
            for task in client.inspector().tasks("default", state).await.unwrap() {
                let error = task.last_error.unwrap_or_default();
                assert!(!error.contains(CANARY), "{error}");
            }
        }
        running.shutdown().await.unwrap();

        let lines = seen.lines();
        for expected in ["archived: on purpose", "failed, will be retried: on purpose", "invalid type: string, expected u32", "this level is looked at",
            "the program logs a failed task", "the program logs what it enqueued", "the program logs what it reads"] {
            assert!(lines.contains(expected), "it was not looked at: {expected} is missing");
        }
        assert!(ids.iter().all(|id| lines.contains(id.as_str())), "every task was reported");
        let leak = lines.lines().find(|line| line.contains(CANARY));
        assert_eq!(leak, None);
    }
}

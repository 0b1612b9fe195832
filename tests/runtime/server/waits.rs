//! A program that knows a task by its id waits for it while its broker fails.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{Client, Outcome, broker::Broker, prelude::*};
use asynq_test_support::eventually;

use super::{flaky::Flaky, memory, soon};

#[job]
async fn answer() -> JobResult<u64> {
    Ok(42)
}

#[tokio::test]
async fn a_wait_by_id_outlasts_an_outage_that_is_there_when_it_begins() {
    let flaky = Flaky::new(memory().await);
    let client = Client::new(Arc::clone(&flaky) as Arc<dyn Broker>);
    let task = answer::enqueue(&client).await.unwrap();
    flaky.refuse_looks.store(2, SeqCst);
    let archives = async {
        let is_back = async || (flaky.refuse_looks.load(SeqCst) == 0).then_some(());
        eventually("the wait has asked again", is_back).await;
        client.inspector().archive("default", &task.id).await.unwrap();
    };
    let (outcome, ()) = soon(async { tokio::join!(client.wait::<answer>(&task.id, "1h"), archives) }).await;
    assert_eq!(outcome.unwrap(), Outcome::Archived(String::new()));
}

#[tokio::test]
async fn a_wait_by_id_of_no_time_asks_once_and_any_other_keeps_its_limit() {
    let flaky = Flaky::new(memory().await);
    let client = Client::new(Arc::clone(&flaky) as Arc<dyn Broker>);
    let task = answer::enqueue(&client).await.unwrap();
    let wait = |limit| soon(client.wait::<answer>(&task.id, limit));
    *flaky.hangs.lock().unwrap() = Some("wait_for_end");
    assert_eq!(wait(Duration::ZERO).await.unwrap(), Outcome::StillRunning);
    *flaky.hangs.lock().unwrap() = Some("task");
    assert!(wait(Duration::from_millis(1)).await.unwrap_err().is_not_yet());
}

#[tokio::test]
async fn a_wait_by_id_tells_a_state_for_an_outage_only_while_it_is_new() {
    let flaky = Flaky::new(memory().await);
    let client = Client::new(Arc::clone(&flaky) as Arc<dyn Broker>);
    let task = answer::enqueue(&client).await.unwrap();
    flaky.refuse_waits.store(true, SeqCst);
    assert!(soon(client.wait::<answer>(&task.id, "1h")).await.unwrap_err().is_not_yet());
    let short = soon(client.wait::<answer>(&task.id, Duration::from_millis(500))).await;
    assert_eq!(short.unwrap(), Outcome::StillRunning);
}

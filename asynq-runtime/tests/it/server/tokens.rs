//! Tokens of a semaphore whose broker answers too late.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{Broker, RunKey, RunToken},
    job::{BlockingPool, Cancel, Codec, ContextParts, JobContext, StateMap},
    rate::Semaphore,
    task::TaskMessage,
};
use asynq_test_support::eventually;
use tokio::sync::oneshot;

use super::{flaky::Flaky, id, memory, queue, soon};

/// Returns the context of an attempt that may take a minute.
fn attempt(broker: &Arc<dyn Broker>, task: &str) -> JobContext {
    JobContext::new(ContextParts {
        run: RunKey { queue: queue("default"), id: id(task), token: RunToken(1), server: 0, row: 0 },
        message: Arc::new(TaskMessage::default()),
        crashes: 0,
        codec: Codec::Json,
        deadline: Some(broker.now() + Duration::from_secs(60)),
        cancel: Cancel::default(),
        stopping: Cancel::default(),
        states: Arc::new(StateMap::default()),
        blocking: BlockingPool::default(),
        broker: Some(Arc::clone(broker)),
    })
}

#[tokio::test]
async fn a_token_goes_back_although_its_caller_left_before_the_answer() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let (given, is_given) = oneshot::channel();
    *flaky.withholds_token.lock().unwrap() = Some(given);
    let partner = Semaphore::new("partner", 1).unwrap();
    let (leaves, waits) = (attempt(&broker, "leaves"), attempt(&broker, "waits"));
    tokio::select! {
        token = partner.acquire(&leaves) => panic!("no answer comes: {token:?}"),
        given = soon(is_given) => given.unwrap(),
    }
    let taken = async || partner.acquire(&waits).await.unwrap();
    eventually("the token comes back", taken).await.release().await.unwrap();
}

//! Tokens of a semaphore whose broker answers too late.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{Broker, BrokerErrorKind, RunKey, RunToken},
    job::{BlockingPool, Codec, ContextParts, JobContext, StateMap},
    rate::Semaphore,
    task::TaskMessage,
};
use asynq_test_support::eventually;
use tokio::sync::oneshot;

use super::{flaky::Flaky, id, memory, queue, soon};

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the context of an attempt that may take an hour, so that no token ends by itself while a test waits.
pub(super) fn attempt(broker: &Arc<dyn Broker>, task: &str) -> JobContext {
    JobContext::new(ContextParts {
        run: RunKey { queue: queue("default"), id: id(task), token: RunToken(1), server: 0, row: 0 },
        taken_at: broker.now(),
        message: Arc::new(TaskMessage::default()),
        crashes: 0,
        codec: Codec::Json,
        deadline: Some((broker.now() + HOUR, Instant::now() + HOUR)),
        cancel: Arc::default(),
        stopping: Arc::default(),
        states: Arc::new(StateMap::default()),
        blocking: BlockingPool::default(),
        broker: Some(Arc::clone(broker)),
    })
}

/// Asks for a token, and leaves when it was given and before the answer.
async fn leave(flaky: &Flaky, partner: &Semaphore, ctx: &JobContext) {
    let (given, is_given) = oneshot::channel();
    *flaky.withholds_token.lock().unwrap() = Some(given);
    tokio::select! {
        token = partner.try_acquire(ctx) => panic!("no answer comes: {token:?}"),
        given = soon(is_given) => given.unwrap(),
    }
}

#[tokio::test]
async fn a_token_goes_back_although_its_caller_left_before_the_answer() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let partner = Semaphore::new("partner", 1).unwrap();
    let (leaves, waits) = (attempt(&broker, "leaves"), attempt(&broker, "waits"));
    leave(&flaky, &partner, &leaves).await;
    let taken = async || partner.try_acquire(&waits).await.unwrap();
    eventually("the token comes back", taken).await.release().await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_dropped_on_a_thread_without_a_runtime_goes_back() {
    let broker = memory().await;
    let partner = Semaphore::new("partner", 1).unwrap();
    let (hands_over, waits) = (attempt(&broker, "hands-over"), attempt(&broker, "waits"));
    let token = partner.try_acquire(&hands_over).await.unwrap().unwrap();
    std::thread::spawn(move || drop(token)).join().unwrap();
    let taken = async || partner.try_acquire(&waits).await.unwrap();
    eventually("the token comes back", taken).await.release().await.unwrap();
}

#[tokio::test]
async fn the_late_release_of_a_token_leaves_the_one_that_its_attempt_acquired_since() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    for max in [1, 2] {
        let partner = Semaphore::new(format!("partner{max}"), max).unwrap();
        let ctx = attempt(&broker, "again");
        // The release begins while the attempt waits for its next token, and reaches the broker before that one's.
        leave(&flaky, &partner, &ctx).await;
        partner.try_acquire(&ctx).await.unwrap().expect("after a call that was dropped").release().await.unwrap();

        *flaky.loses_token.lock().unwrap() = Some(BrokerErrorKind::Timeout);
        partner.try_acquire(&ctx).await.unwrap_err();
        let token = partner.try_acquire(&ctx).await.unwrap().expect("after a lost answer");

        drop(token);
        partner.try_acquire(&ctx).await.unwrap().expect("after a token that was dropped").release().await.unwrap();
        let other = partner.try_acquire(&attempt(&broker, "other")).await.unwrap().expect("nothing is left");
        other.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_that_was_acquired_twice_goes_back_with_the_last() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let partner = Semaphore::new("partner", 2).unwrap();
    let ctx = attempt(&broker, "twice");
    let first = partner.try_acquire(&ctx).await.unwrap().unwrap();
    *flaky.loses_token.lock().unwrap() = Some(BrokerErrorKind::Timeout);
    partner.try_acquire(&ctx).await.unwrap_err();
    leave(&flaky, &partner, &ctx).await;
    let second = partner.try_acquire(&ctx).await.unwrap().unwrap();
    second.release().await.unwrap();
    let other = attempt(&broker, "other");
    let others = partner.try_acquire(&other).await.unwrap().unwrap();
    assert!(partner.try_acquire(&attempt(&broker, "late")).await.unwrap().is_none(), "the first is out");
    first.release().await.unwrap();
    others.release().await.unwrap();
}

#[tokio::test]
async fn an_acquire_that_the_broker_refused_releases_nothing() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    let partner = Semaphore::new("partner", 1).unwrap();
    // The token shows that no release follows.
    *flaky.loses_token.lock().unwrap() = Some(BrokerErrorKind::Denied);
    partner.try_acquire(&attempt(&broker, "denied")).await.unwrap_err();
    let other = attempt(&broker, "other");
    // A release that was begun reaches the broker before the second call at the latest.
    for _ in 0..2 {
        assert!(partner.try_acquire(&other).await.unwrap().is_none());
    }
}

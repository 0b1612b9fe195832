//! Semaphores: at most so many tasks hold a token at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    broker::{Broker, RunKey, RunToken},
    job::{BlockingPool, ContextParts, JobContext, StateMap},
    rate::{Semaphore, SemaphoreError},
    task::{TaskId, TaskMessage},
};
use asynq_tests::{default_queue, eventually};
use chrono::{DateTime, Utc};

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

/// The context of an attempt at task `id`, which came from `broker` and, with a deadline, may take a minute.
fn attempt(broker: Option<Arc<dyn Broker>>, id: &str, deadline: Option<DateTime<Utc>>) -> JobContext {
    JobContext::new(ContextParts {
        run: RunKey { queue: default_queue(), id: TaskId::from_wire(id), token: RunToken(1), server: 0, row: 0 },
        taken_at: DateTime::UNIX_EPOCH,
        message: Arc::new(TaskMessage::default()),
        crashes: 0,
        codec: asynq_runtime::job::Codec::Json,
        deadline: deadline.map(|at| (at, Instant::now() + MINUTE)),
        cancel: Arc::default(),
        stopping: Arc::default(),
        states: Arc::new(StateMap::default()),
        blocking: BlockingPool::default(),
        broker,
    })
}

/// The context of an attempt that may take a minute.
fn minute(t: &Fixture, id: &str) -> JobContext {
    minute_of(t.shared(), t, id)
}

/// [`minute`] in a program that has another connection.
fn minute_of(broker: Arc<dyn Broker>, t: &Fixture, id: &str) -> JobContext {
    attempt(Some(broker), id, Some(t.now() + MINUTE))
}

fn semaphore(max: usize) -> Semaphore {
    Semaphore::new("partner", max).unwrap()
}

#[tokio::test]
async fn as_many_tokens_are_out_as_there_are() {
    let t = Fixture::start().await;
    let partner = semaphore(2);
    let (elsewhere, far) = (semaphore(2), t.another_broker().await);
    let one = partner.try_acquire(&minute(&t, "t1")).await.unwrap().expect("the first");
    let two = elsewhere
        .try_acquire(&minute_of(far.clone(), &t, "t2"))
        .await
        .unwrap()
        .expect("the second, of another program");
    assert!(partner.try_acquire(&minute(&t, "t3")).await.unwrap().is_none());
    assert!(elsewhere.try_acquire(&minute_of(far.clone(), &t, "t3")).await.unwrap().is_none());
    one.release().await.unwrap();
    let three = elsewhere.try_acquire(&minute_of(far.clone(), &t, "t3")).await.unwrap().expect("one came back");
    assert!(three.until() == t.now() + MINUTE);
    let other = Semaphore::new("another scope", 1).unwrap();
    other.try_acquire(&minute(&t, "t4")).await.unwrap().expect("scopes are apart").release().await.unwrap();
    two.release().await.unwrap();
    three.release().await.unwrap();
    assert_eq!((partner.scope(), partner.max()), ("partner", 2));
}

#[tokio::test]
async fn a_token_comes_back_when_the_deadline_has_passed() {
    let t = Fixture::start().await;
    let partner = semaphore(1);
    let lost = partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap();
    std::mem::forget(lost);
    t.advance(Duration::from_secs(58));
    assert!(partner.try_acquire(&minute(&t, "t2")).await.unwrap().is_none());
    t.advance(Duration::from_secs(5));
    partner
        .try_acquire(&minute(&t, "t2"))
        .await
        .unwrap()
        .expect("no caller is blocked for ever")
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_token_lasts_as_long_as_its_attempt_although_the_clock_was_set_ahead() {
    let t = Fixture::start().await;
    let (partner, attempts) = (semaphore(1), ["t1", "t2"].map(|id| minute(&t, id)));
    t.advance(Duration::from_secs(3600));
    let one = partner.try_acquire(&attempts[0]).await.unwrap().expect("the first");
    assert!(one.until() > t.now(), "{}", one.until());
    assert!(partner.try_acquire(&attempts[1]).await.unwrap().is_none(), "one is out");
    one.release().await.unwrap();
    partner.try_acquire(&attempts[1]).await.unwrap().expect("it came back").release().await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_dropped_goes_back() {
    let t = Fixture::start().await;
    let partner = semaphore(1);
    drop(partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap());
    let taken = async || partner.try_acquire(&minute(&t, "t2")).await.unwrap();
    eventually("the token comes back", taken).await.release().await.unwrap();
}

#[tokio::test]
async fn a_token_goes_back_although_its_semaphore_was_made_for_one_job() {
    let t = Fixture::start().await;
    drop(semaphore(1).try_acquire(&minute(&t, "t1")).await.unwrap().unwrap());
    let taken = async || semaphore(1).try_acquire(&minute(&t, "t2")).await.unwrap();
    eventually("the token comes back", taken).await.release().await.unwrap();
}

#[tokio::test]
async fn an_attempt_that_lost_its_task_leaves_the_token_of_the_next_one() {
    let t = Fixture::start().await;
    let partner = semaphore(2);
    let lost = partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap();
    t.advance(Duration::from_secs(30));
    let next = partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap();
    assert!(matches!(lost.release().await, Err(SemaphoreError::Gone { .. })));
    let other = partner.try_acquire(&minute(&t, "t2")).await.unwrap().unwrap();
    assert!(partner.try_acquire(&minute(&t, "t3")).await.unwrap().is_none(), "two are out");
    next.release().await.unwrap();
    other.release().await.unwrap();
}

#[tokio::test]
async fn an_attempt_takes_the_token_of_a_dead_one_that_ends_at_the_same_deadline() {
    let t = Fixture::start().await;
    let partner = semaphore(1);
    std::mem::forget(partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap());
    let ctx = minute(&t, "t1");
    let next = partner.try_acquire(&ctx).await.unwrap().expect("the attempt that had it has died");
    assert!(partner.try_acquire(&ctx).await.unwrap().is_none(), "the attempt has the one token itself");
    assert!(partner.try_acquire(&minute(&t, "t2")).await.unwrap().is_none());
    next.release().await.unwrap();
}

#[tokio::test]
async fn the_release_of_a_lost_token_returns_an_error() {
    let t = Fixture::start().await;
    let partner = semaphore(1);
    let token = partner.try_acquire(&minute(&t, "t1")).await.unwrap().unwrap();
    assert!(
        t.broker().release_token("partner", &TaskId::from_wire("t1"), token.until()).await.unwrap(),
        "by another caller"
    );
    let error = token.release().await.unwrap_err();
    assert!(matches!(&error, SemaphoreError::Gone { scope, id } if scope == "partner" && id == "t1"), "{error}");
}

#[tokio::test]
async fn an_impossible_semaphore_is_an_error() {
    let t = Fixture::start().await;
    for scope in ["", " "] {
        assert!(matches!(Semaphore::new(scope, 1), Err(SemaphoreError::BlankScope)));
    }
    assert!(matches!(Semaphore::new("partner", 0), Err(SemaphoreError::NoTokens)));
    let endless = semaphore(1).try_acquire(&attempt(Some(t.shared()), "t1", None)).await.unwrap_err();
    assert!(matches!(&endless, SemaphoreError::NoDeadline { id } if id == "t1"), "{endless}");
    // A detached context has neither a broker nor a deadline; the missing broker is what is wrong with it.
    for context in [attempt(None, "t1", Some(t.now())), JobContext::detached()] {
        let detached = semaphore(1).try_acquire(&context).await.unwrap_err();
        assert!(detached.to_string().contains("belongs to no broker"), "{detached}");
    }
    let broker = t.another_broker().await;
    let (partner, ctx) = (semaphore(1), minute_of(broker.clone(), &t, "t1"));
    let token = partner.try_acquire(&ctx).await.unwrap().unwrap();
    broker.close().await;
    assert!(matches!(partner.try_acquire(&minute_of(broker.clone(), &t, "t2")).await, Err(SemaphoreError::Broker(_))));
    assert!(matches!(token.release().await, Err(SemaphoreError::Broker(_))));
}

#[tokio::test]
async fn go_and_rust_share_the_tokens_of_a_scope() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    let now = t.now().timestamp();
    let partner = semaphore(2);
    let token = partner.try_acquire(&minute(&t, "rust")).await.unwrap().unwrap();
    assert!(go.acquire_token("partner", 2, "go", now, now + 60));
    assert!(partner.try_acquire(&minute(&t, "late")).await.unwrap().is_none(), "Go has the other one");
    assert!(!go.acquire_token("partner", 2, "late", now, now + 60), "both are out");
    token.release().await.unwrap();
    assert!(!go.release_token("partner", "rust"), "it went back");
    assert!(go.acquire_token("partner", 2, "late", now, now + 60));
    assert!(go.release_token("partner", "go"));
    assert!(partner.try_acquire(&minute(&t, "next")).await.unwrap().is_some());
}

//! Contract `Semaphores`: a limited number of tokens, until they expire.

use std::time::Duration;

use asynq_tests::{default_queue, task_id};
use tokio::task::JoinSet;

use super::Fixture;

const MINUTE: Duration = Duration::from_secs(60);

async fn acquire(t: &Fixture, scope: &str, max: usize, task: &str) -> bool {
    acquire_as(t, scope, max, task, false).await
}

/// Acquires a token for an attempt that has one.
async fn acquire_again(t: &Fixture, scope: &str, max: usize, task: &str) -> bool {
    acquire_as(t, scope, max, task, true).await
}

async fn acquire_as(t: &Fixture, scope: &str, max: usize, task: &str, has_one: bool) -> bool {
    let until = t.now() + MINUTE;
    t.broker().acquire_token(scope, max, &task_id(task), until, MINUTE, has_one).await.unwrap() == Some(until)
}

/// Releases a token that was acquired just now.
async fn release(t: &Fixture, scope: &str, task: &str) -> bool {
    release_of(t, scope, task, Duration::ZERO).await
}

/// Releases a token that was acquired so long ago.
async fn release_of(t: &Fixture, scope: &str, task: &str, ago: Duration) -> bool {
    t.broker().release_token(scope, &task_id(task), t.now() + MINUTE - ago).await.unwrap()
}

#[tokio::test]
async fn there_are_so_many_tokens_and_no_more() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 2, "a").await);
    assert!(acquire(&t, "mail", 2, "b").await);
    assert!(!acquire(&t, "mail", 2, "c").await);
}

#[tokio::test]
async fn a_token_that_is_taken_back_is_there_for_another() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 1, "a").await);
    assert!(release(&t, "mail", "a").await);
    assert!(acquire(&t, "mail", 1, "b").await);
}

#[tokio::test]
async fn only_a_token_that_is_out_is_taken_back() {
    let t = Fixture::start().await;
    assert!(!release(&t, "mail", "a").await);
    assert!(acquire(&t, "mail", 1, "a").await);
    assert!(!release(&t, "mail", "b").await);
    assert!(release(&t, "mail", "a").await);
    assert!(!release(&t, "mail", "a").await);
}

#[tokio::test]
async fn a_token_counts_until_its_time_is_over() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 1, "a").await);
    t.advance(Duration::from_secs(59));
    t.broker().sweep(&default_queue()).await.unwrap();
    assert!(!acquire(&t, "mail", 1, "b").await);
    t.advance(Duration::from_secs(2));
    assert!(acquire(&t, "mail", 1, "b").await);
    assert!(!release_of(&t, "mail", "a", Duration::from_secs(61)).await, "its token is gone");
}

/// The broker's clock was set ahead of the one by which the attempt knows its end, or is that of another node.
#[tokio::test]
async fn a_token_whose_end_has_passed_already_counts_for_the_time_that_its_attempt_has_left() {
    let t = Fixture::start().await;
    let before = t.now() - 60 * MINUTE;
    let acquire =
        async |task| t.broker().acquire_token("mail", 1, &task_id(task), before, MINUTE, false).await.unwrap();
    let end = acquire("a").await.expect("the first");
    assert!(
        end > t.now() + MINUTE - Duration::from_secs(1) && end < t.now() + MINUTE + Duration::from_secs(1),
        "{end}"
    );
    assert_eq!(acquire("b").await, None, "one is out");
    t.advance(MINUTE - Duration::from_secs(2));
    assert_eq!(acquire("b").await, None, "its attempt may still run");
    assert!(t.broker().release_token("mail", &task_id("a"), end).await.unwrap());
    acquire("b").await.expect("it came back");
    t.advance(MINUTE + Duration::from_secs(2));
    acquire("c").await.expect("the time of that attempt is over");
}

#[tokio::test]
async fn scopes_do_not_share_tokens() {
    let t = Fixture::start().await;
    let scopes = ["mail", "mail:slow", "Größe *?[x] {y}"];
    for (scope, holder) in scopes.into_iter().zip(["a", "c", "a"]) {
        assert!(acquire(&t, scope, 1, holder).await, "{scope}");
        assert!(!acquire(&t, scope, 1, "b").await, "{scope}");
    }
    assert!(release(&t, scopes[0], "a").await);
    assert!(!acquire(&t, scopes[2], 1, "b").await, "that token is still out");
}

#[tokio::test]
async fn a_holder_that_asks_again_gets_none_when_all_are_out() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 1, "a").await);
    assert!(!acquire_again(&t, "mail", 1, "a").await);
}

#[tokio::test]
async fn an_attempt_takes_the_place_of_one_that_ends_at_the_same_time() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 1, "a").await);
    assert!(acquire(&t, "mail", 1, "a").await, "both attempts end at the deadline of the task");
    assert!(!acquire(&t, "mail", 1, "b").await);
    assert!(release(&t, "mail", "a").await);
    assert!(!release(&t, "mail", "a").await, "it was one token");
}

#[tokio::test]
async fn a_later_attempt_takes_the_place_of_an_earlier_one() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 1, "a").await);
    t.advance(Duration::from_secs(10));
    assert!(!acquire(&t, "mail", 1, "b").await);
    assert!(acquire(&t, "mail", 1, "a").await, "the worker of the first attempt has died");
    assert!(!acquire(&t, "mail", 1, "b").await);
    assert!(!release_of(&t, "mail", "a", Duration::from_secs(10)).await, "the earlier attempt has none any more");
    assert!(release(&t, "mail", "a").await);
}

#[tokio::test]
async fn a_holder_that_asks_again_keeps_one_token_for_longer() {
    let t = Fixture::start().await;
    assert!(acquire(&t, "mail", 2, "a").await);
    t.advance(Duration::from_secs(50));
    assert!(acquire_again(&t, "mail", 2, "a").await);
    assert!(acquire(&t, "mail", 2, "b").await, "it holds one of two");
    t.advance(Duration::from_secs(50));
    assert!(!acquire(&t, "mail", 2, "c").await, "its time began again");
    assert!(!release_of(&t, "mail", "a", Duration::from_secs(100)).await, "an earlier attempt has none any more");
    assert!(release_of(&t, "mail", "a", Duration::from_secs(50)).await);
    assert!(!release_of(&t, "mail", "a", Duration::from_secs(50)).await);
}

#[tokio::test]
async fn fewer_tokens_than_are_out_take_none_away() {
    let t = Fixture::start().await;
    for task in ["a", "b", "c"] {
        assert!(acquire(&t, "mail", 3, task).await);
    }
    assert!(!acquire(&t, "mail", 1, "d").await);
    for task in ["a", "b"] {
        assert!(release(&t, "mail", task).await);
    }
    assert!(!acquire(&t, "mail", 1, "d").await);
    assert!(release(&t, "mail", "c").await);
    assert!(acquire(&t, "mail", 1, "d").await);
}

#[tokio::test]
async fn zero_tokens_admit_no_holder() {
    let t = Fixture::start().await;
    assert!(!acquire(&t, "mail", 0, "a").await);
}

#[tokio::test]
async fn brokers_share_the_tokens_of_a_scope() {
    let t = Fixture::start().await;
    let mut calls = JoinSet::new();
    for i in 0..14 {
        let (broker, until) = (if i % 2 == 0 { t.shared() } else { t.another_broker().await }, t.now() + MINUTE);
        let id = task_id(&format!("t{i}"));
        calls.spawn(async move { broker.acquire_token("mail", 7, &id, until, MINUTE, false).await.unwrap().is_some() });
    }
    assert_eq!(calls.join_all().await.into_iter().filter(|got| *got).count(), 7);
}

//! Contracts `Settle` and `Inspect`: the failures of a task's last attempts.

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, BulkAction, Failure, Settled},
    task::{Extra, TaskMessage},
};
use asynq_tests::{
    Build as _, Seeded as _, archive, complete, default_queue, done, queue, requeue, retry, snooze, task, task_id,
};

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

async fn failures(t: &Fixture, id: &str) -> Vec<Failure> {
    t.broker().failures(&default_queue(), &task_id(id)).await.unwrap()
}

/// The number and the text of each failure.
async fn numbered_texts(t: &Fixture, id: &str) -> Vec<(u32, String)> {
    failures(t, id).await.into_iter().map(|failure| (failure.number, failure.error)).collect()
}

fn expected(of: &[(u32, &str)]) -> Vec<(u32, String)> {
    of.iter().map(|(number, error)| (*number, (*error).to_owned())).collect()
}

/// Takes the only task and ends its run; a second later it can be taken again.
async fn end(t: &Fixture, action: Action) {
    let run = t.take_one().await;
    assert_eq!(t.settle(&run, action).await, Settled::Ok);
    t.advance(SECOND);
    t.forward().await;
}

async fn fail(t: &Fixture, error: &str) {
    end(t, retry(Duration::ZERO, error)).await;
}

fn uncounted(error: &str) -> Action {
    Action::Retry { delay: Duration::ZERO, error: Some(error.into()), counted: false, extra: Extra::default() }
}

#[tokio::test]
async fn a_task_that_never_failed_has_no_failures() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    assert!(failures(&t, "t1").await.is_empty());
    assert!(failures(&t, "nobody").await.is_empty());
    assert!(t.broker().failures(&queue("none"), &task_id("t1")).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_newest_failure_comes_first_with_its_time() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let began = t.now().timestamp_millis();
    for error in ["one", "two", "three"] {
        fail(&t, error).await;
    }
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(3, "three"), (2, "two"), (1, "one")]));
    let times: Vec<i64> =
        failures(&t, "t1").await.iter().map(|failure| failure.at.timestamp_millis() - began).collect();
    assert_eq!(times, [2000, 1000, 0]);
}

#[tokio::test]
async fn only_the_last_ten_are_kept() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    for n in 1..=13 {
        fail(&t, &format!("error {n}")).await;
    }
    let numbers: Vec<u32> = failures(&t, "t1").await.iter().map(|failure| failure.number).collect();
    assert_eq!(numbers, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
    assert!(failures(&t, "t1").await.iter().all(|failure| failure.error == format!("error {}", failure.number)));
}

#[tokio::test]
async fn the_error_of_an_archive_is_the_last_one() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    fail(&t, "one").await;
    end(&t, archive("the end")).await;
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(2, "the end"), (1, "one")]));
}

#[tokio::test]
async fn a_failure_that_spends_no_retry_is_one_all_the_same() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    end(&t, uncounted("not mine")).await;
    fail(&t, "mine").await;
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(2, "mine"), (1, "not mine")]));
}

#[tokio::test]
async fn a_requeued_or_deferred_task_has_no_failure() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    end(&t, snooze(Duration::ZERO, Extra::default())).await;
    end(&t, requeue()).await;
    assert!(failures(&t, "t1").await.is_empty());
}

#[tokio::test]
async fn the_death_of_a_worker_is_not_a_failure() {
    let t = Fixture::start().await;
    t.seed_active("t1").await;
    t.let_leases_pass();
    assert_eq!(t.recover().await, ["t1"]);
    assert!(failures(&t, "t1").await.is_empty());
}

#[tokio::test]
async fn counting_goes_on_when_an_operator_runs_the_task_again() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    end(&t, archive("one")).await;
    t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Run).await.unwrap();
    end(&t, archive("two")).await;
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(2, "two"), (1, "one")]));
}

#[tokio::test]
async fn a_success_keeps_them_and_an_end_takes_them_along() {
    let t = Fixture::start().await;
    t.enqueue(task("t1").with_retention(60)).await;
    fail(&t, "one").await;
    end(&t, complete("42")).await;
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(1, "one")]));
    t.broker().change_task(&default_queue(), &task_id("t1"), None, BulkAction::Delete).await.unwrap();
    assert!(failures(&t, "t1").await.is_empty());

    t.enqueue(task("t1")).await;
    fail(&t, "anew").await;
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(1, "anew")]), "another task of the same id begins at 1");
    end(&t, done()).await;
    assert!(failures(&t, "t1").await.is_empty());
}

#[tokio::test]
async fn any_text_is_kept_as_it_is() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    let texts = ["", " two  spaces ", "lines\nand\r\ttabs", "1 2 3", "grün \u{1f980} \0"];
    for text in texts {
        fail(&t, text).await;
    }
    let seen: Vec<String> = failures(&t, "t1").await.into_iter().rev().map(|failure| failure.error).collect();
    assert_eq!(seen, texts);
}

#[tokio::test]
async fn a_long_text_is_cut_to_4_kib() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    fail(&t, &"ä".repeat(5000)).await;
    assert_eq!(failures(&t, "t1").await[0].error, "ä".repeat(2048));
}

#[tokio::test]
async fn a_repeated_outcome_is_one_failure_and_a_fenced_one_is_none() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    assert_eq!(t.settle(&run, retry(Duration::ZERO, "once")).await, Settled::Ok);
    assert_eq!(t.resend(&run, retry(Duration::ZERO, "once")).await, Settled::Ok);
    assert_eq!(t.settle(&run, archive("otherwise")).await, Settled::Fenced);
    t.advance(SECOND);
    t.forward().await;
    let lost = t.take_one().await;
    t.let_leases_pass();
    t.recover().await;
    let newer = t.take_one().await;
    assert_eq!(t.settle(&lost, archive("late")).await, Settled::Fenced);
    assert_eq!(t.settle(&newer, archive("end")).await, Settled::Ok);
    assert_eq!(numbered_texts(&t, "t1").await, expected(&[(2, "end"), (1, "once")]));
}

#[tokio::test]
async fn failures_of_a_batch_are_kept_each_with_its_task() {
    let t = Fixture::start().await;
    let names: Vec<String> = (0..70).map(|n| format!("t{n}")).collect();
    t.seed_pending(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut batch = Vec::new();
    for run in t.take(70).await {
        batch.push(run.ends_with(retry(SECOND, &format!("of {}", run.key.id))));
    }
    assert!(t.broker().settle(&batch).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    for name in &names {
        assert_eq!(numbered_texts(&t, name).await, expected(&[(1, &format!("of {name}"))]));
    }
}

#[tokio::test]
async fn an_attempt_that_a_go_worker_saw_counts() {
    let t = Fixture::start().await;
    let Some(go) = t.go() else { return };
    t.seed_pending(&["t1"]).await;
    fail(&t, "ours").await;
    let now = t.now().timestamp();
    go.dequeue(now + 30);
    go.recover("t1", now);
    assert_eq!(
        numbered_texts(&t, "t1").await,
        expected(&[(2, "asynq: task lease expired"), (1, "ours")]),
        "its last error"
    );
    t.forward().await;
    t.advance(SECOND);
    fail(&t, "ours again").await;
    assert_eq!(
        numbered_texts(&t, "t1").await,
        expected(&[(3, "ours again"), (1, "ours")]),
        "of Go's attempt no text is left"
    );
    let message = TaskMessage::decode(t.take_one().await.text().encode().into()).unwrap();
    assert_eq!(message.retried, 3);
}

#[tokio::test]
async fn only_the_newest_text_is_whole() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    // Two bytes a character: the limit of 256 bytes is between two characters, and after an odd byte it is within one.
    let texts = [format!("{}x", "ä".repeat(2047)), format!("x{}", "ä".repeat(2047))];
    for n in 0..12 {
        fail(&t, &texts[n % 2]).await;
        let failures = failures(&t, "t1").await;
        let bytes: Vec<usize> = failures.iter().map(|failure| failure.error.len()).collect();
        assert_eq!(bytes[0], 4095, "{bytes:?}");
        assert!(bytes[1..].iter().all(|&bytes| bytes == 255 || bytes == 256), "{bytes:?}");
        assert_eq!(bytes.len(), (n + 1).min(10));
        for (failure, text) in failures.iter().zip(texts.iter().cycle().skip(n % 2)) {
            assert!(text.starts_with(&failure.error), "the beginning is kept");
        }
    }
    let all: usize = failures(&t, "t1").await.iter().map(|failure| failure.error.len()).sum();
    assert!(all <= 4095 + 9 * 256, "{all} bytes");
    // A short text is kept unchanged.
    fail(&t, "short").await;
    fail(&t, "shorter").await;
    assert_eq!(numbered_texts(&t, "t1").await[1].1, "short");
}

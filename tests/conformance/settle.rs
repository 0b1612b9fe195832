//! Contract `Settle`: the effect of each outcome on a task, its neighbours and the counters.

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, QueueStats, Settled},
    task::{Ending, Extra, Progress, TaskState, Unknown},
};
use asynq_tests::{
    Build as _, Entry, Seeded as _, archive, archive_with, complete, done, lock_key, requeue, retry, snooze, task,
    task_id,
};
use bytes::Bytes;
use chrono::TimeDelta;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The numbers of processed and failed tasks: today's, then the totals.
fn counters(stats: &QueueStats) -> [u64; 4] {
    [stats.processed, stats.failed, stats.processed_total, stats.failed_total]
}

#[tokio::test]
async fn done_deletes_the_task_and_counts_it() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;

    assert_eq!(t.settle(&run, done()).await, Settled::Ok);

    let seen = t.snapshot().await;
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(t.info("t1").await, None);
    assert_eq!(counters(&seen.stats), [1, 0, 1, 0]);
}

#[tokio::test]
async fn done_takes_a_written_result_with_it() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"42")).await.unwrap();
    t.settle(&run, done()).await;
    t.start_run(task("t1").with_retention(60)).await;
    assert_eq!(t.snapshot().await.active[0].result, None, "a task of the same id starts afresh");
}

#[tokio::test]
async fn complete_keeps_the_task_with_its_result_and_counts_it() {
    let t = Fixture::start().await;
    let new = task("t1").with_retention(3600);
    let run = t.start_run(new.clone()).await;
    t.advance(Duration::from_secs(3));

    assert_eq!(t.settle(&run, complete("42")).await, Settled::Ok);

    let seen = t.snapshot().await;
    assert_eq!(seen.completed, [Entry::of(&new).result("42").completed(t.now())]);
    assert_eq!(seen.len(), 1);
    assert_eq!(counters(&seen.stats), [1, 0, 1, 0]);
}

#[tokio::test]
async fn complete_without_a_result_leaves_the_one_written_before() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"41")).await.unwrap();
    t.settle(&run, Action::Complete { result: None }).await;
    assert_eq!(t.snapshot().await.completed[0].result.as_deref(), Some(&b"41"[..]));
}

#[tokio::test]
async fn complete_with_a_result_replaces_the_one_written_before() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600)).await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"41")).await.unwrap();
    t.settle(&run, complete("42")).await;
    assert_eq!(t.snapshot().await.completed[0].result.as_deref(), Some(&b"42"[..]));
}

#[tokio::test]
async fn a_revoked_task_is_kept_without_a_result_that_was_written_before() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(3600).locked(&lock_key("k"), 600)).await;
    t.broker().write_result(&run.key, &Bytes::from_static(b"41")).await.unwrap();
    let extra = Extra { awaited: true, ending: Ending::Revoked.into(), ..Extra::default() };
    assert_eq!(t.settle(&run, Action::Revoke { extra }).await, Settled::Ok);
    let seen = t.snapshot().await;
    assert_eq!(seen.completed[0].result, None);
    assert_eq!(counters(&seen.stats), [1, 0, 1, 0], "it counts as a success");
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn retry_moves_the_task_and_counts_the_failure() {
    let t = Fixture::start().await;
    let new = task("t1");
    let run = t.start_run(new.clone()).await;
    t.advance(Duration::from_secs(2));

    assert_eq!(t.settle(&run, retry(MINUTE, "smtp down")).await, Settled::Ok);

    let seen = t.snapshot().await;
    let expected = Entry::of(&new).retried(1).error("smtp down", t.now()).due(t.now() + MINUTE);
    assert_eq!(seen.retry, [expected]);
    assert_eq!(seen.len(), 1);
    assert_eq!(counters(&seen.stats), [1, 1, 1, 1]);
}

#[tokio::test]
async fn retry_is_due_to_the_millisecond() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    t.settle(&run, retry(Duration::from_millis(1_234), "boom")).await;
    let due = t.snapshot().await.retry[0].due.unwrap();
    let wanted = t.now() + TimeDelta::milliseconds(1_234);
    assert!((due - wanted).abs() < TimeDelta::milliseconds(1), "{due} is not {wanted}");
}

#[tokio::test]
async fn a_retry_or_snooze_for_ever_is_due_before_years_have_five_digits() {
    let t = Fixture::start().await;
    for (id, action) in [("t1", retry(Duration::MAX, "boom")), ("t2", snooze(Duration::MAX, Extra::default()))] {
        let run = t.seed_active(id).await;
        assert_eq!(t.settle(&run, action).await, Settled::Ok);
        let due = t.snapshot().await.retry.into_iter().find(|entry| entry.id == id).unwrap().due.unwrap();
        let left = (due - t.now()).num_days() / 365;
        assert!((291..=293).contains(&left), "{id}: {due}");
    }
}

#[tokio::test]
async fn a_retry_that_is_not_counted_spends_and_counts_nothing() {
    let t = Fixture::start().await;
    let new = task("t1");
    let run = t.start_run(new.clone()).await;
    t.settle(&run, snooze(MINUTE, Extra::default())).await;
    let seen = t.snapshot().await;
    assert_eq!(seen.retry, [Entry::of(&new).due(t.now() + MINUTE)], "the message stays as it is");
    assert_eq!(t.state_of("t1").await, Some(TaskState::Retry));
    assert_eq!(t.resend(&run, snooze(MINUTE, Extra::default())).await, Settled::Ok, "it leaves a receipt");
    assert_eq!(counters(&seen.stats), [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_run_that_could_not_begin_leaves_the_crashes_of_its_task_as_they_are() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    for crashes in 1..=2 {
        t.take_one().await;
        t.let_leases_pass();
        assert_eq!(t.recover().await.len(), 1);
        for (error, extra) in
            [(None, Extra::default()), (Some("no job".to_owned()), Extra { max_crashes: Some(9), ..Extra::default() })]
        {
            let run = t.take_one().await;
            assert_eq!(run.crashes, crashes);
            t.settle(&run, Action::Defer { delay: SECOND, error, extra }).await;
            let seen = t.snapshot().await;
            assert_eq!((seen.ids(TaskState::Retry), counters(&seen.stats)), (vec!["t1"], [0, 0, 0, 0]));
            t.advance(2 * SECOND);
            t.forward().await;
        }
    }
    let run = t.take_one().await;
    assert_eq!(run.extra.max_crashes, Some(9));
    t.settle(&run, snooze(SECOND, Extra::default())).await;
    t.advance(2 * SECOND);
    t.forward().await;
    assert_eq!(t.take_one().await.crashes, 0, "a run that ended shows that it kills no worker");
}

#[tokio::test]
async fn a_retry_that_is_not_counted_may_still_say_why() {
    let t = Fixture::start().await;
    let new = task("t1");
    let run = t.start_run(new.clone()).await;
    let action =
        Action::Retry { delay: MINUTE, error: Some("rate limited".into()), counted: false, extra: Extra::default() };
    t.settle(&run, action).await;
    let expected = Entry::of(&new).error("rate limited", t.now()).due(t.now() + MINUTE);
    assert_eq!(t.snapshot().await.retry, [expected]);
    t.advance(MINUTE);
    t.forward().await;
    let run = t.take_one().await;
    t.settle(&run, snooze(MINUTE, Extra::default())).await;
    assert_eq!(t.snapshot().await.retry[0].error.as_deref(), Some("rate limited"), "without another it stays");
}

#[tokio::test]
async fn failures_add_up() {
    let t = Fixture::start().await;
    t.seed_pending(&["t1"]).await;
    for failed in 1..=3 {
        let run = t.take_one().await;
        t.settle(&run, retry(Duration::from_secs(1), &format!("no. {failed}"))).await;
        assert_eq!(t.snapshot().await.retry[0].retried, failed);
        t.advance(Duration::from_secs(2));
        t.forward().await;
    }
    assert_eq!(counters(&t.snapshot().await.stats), [3, 3, 3, 3]);
}

#[tokio::test]
async fn archive_keeps_the_task_with_the_reason_and_counts_the_failure() {
    let t = Fixture::start().await;
    let new = task("t1");
    let run = t.start_run(new.clone()).await;
    t.advance(Duration::from_secs(2));

    assert_eq!(t.settle(&run, archive("no such address")).await, Settled::Ok);

    let seen = t.snapshot().await;
    assert_eq!(seen.archived, [Entry::of(&new).error("no such address", t.now())], "`retried` stays");
    assert_eq!(seen.len(), 1);
    assert_eq!(counters(&seen.stats), [1, 1, 1, 1]);
}

#[tokio::test]
async fn requeue_puts_the_task_back_as_if_nothing_had_happened() {
    let t = Fixture::start().await;
    let new = task("t1");
    let run = t.start_run(new.clone()).await;

    assert_eq!(t.settle(&run, requeue()).await, Settled::Ok);

    let seen = t.snapshot().await;
    assert_eq!(seen.pending, [Entry::of(&new)]);
    assert_eq!(seen.len(), 1);
    assert_eq!(counters(&seen.stats), [0, 0, 0, 0]);
}

#[tokio::test]
async fn requeue_puts_the_task_at_the_head() {
    let t = Fixture::start().await;
    let run = t.seed_active("first").await;
    t.seed_pending(&["second", "third"]).await;
    t.settle(&run, requeue()).await;
    assert_eq!(t.drain().await, ["first", "second", "third"]);
}

#[tokio::test]
async fn a_requeued_task_is_ahead_of_one_enqueued_at_the_same_instant() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b", "c"]).await;
    let runs = t.take(2).await;
    t.settle(&runs[1], requeue()).await;
    t.settle(&runs[0], requeue()).await;
    assert_eq!(t.drain().await, ["a", "b", "c"]);
}

/// More than one call of the script takes, from more than one dequeue.
#[tokio::test]
async fn of_many_that_are_requeued_at_once_the_last_is_the_next_to_be_taken() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..150).map(|n| format!("t{n:03}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    t.seed_pending(&ids).await;
    let mut runs = t.take(100).await;
    runs.extend(t.take(40).await);
    let back: Vec<_> = runs.iter().rev().map(|run| run.ends_with(requeue())).collect();
    assert!(t.broker().settle(&back).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
    let again = t.take(150).await;
    assert_eq!(again.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn of_two_that_are_requeued_at_once_the_last_is_the_next_to_be_taken_whichever_came_in_first() {
    for order in [[0, 1], [1, 0]] {
        let t = Fixture::start().await;
        t.seed_pending(&["a", "b", "c"]).await;
        let runs = t.take(2).await;
        let back = order.map(|run: usize| runs[run].ends_with(requeue()));
        assert!(t.broker().settle(&back).await.into_iter().all(|settled| settled.unwrap() == Settled::Ok));
        let [first, last] = order.map(|run| runs[run].key.id.to_string());
        assert_eq!(t.drain().await, [last, first, "c".to_owned()]);
    }
}

#[tokio::test]
async fn requeue_keeps_the_task_that_dequeue_gave() {
    let t = Fixture::start().await;
    let extra = Extra { max_crashes: Some(9), ..Extra::default() };
    let run = t.start_run(task("t1").with_extra(extra.clone())).await;
    t.settle(&run, requeue()).await;
    assert_eq!(t.take_one().await.extra, extra);
}

#[tokio::test]
async fn retry_and_archive_replace_the_extra_facts() {
    let t = Fixture::start().await;
    let old = Extra { max_crashes: Some(9), ..Extra::default() };
    let new = Extra {
        max_crashes: Some(9),
        unknown: Some(Unknown { since_ms: 77, times: 2, retried: Some(1) }),
        ..Extra::default()
    };
    let run = t.start_run(task("t1").with_extra(old)).await;

    t.settle(&run, snooze(Duration::ZERO, new.clone())).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    let again = t.take_one().await;
    assert_eq!(again.extra, new);

    t.settle(&again, snooze(Duration::ZERO, Extra::default())).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    let last = t.take_one().await;
    assert_eq!(last.extra, Extra::default());
    assert_eq!(t.settle(&last, archive_with("fatal", new)).await, Settled::Ok);
}

#[tokio::test]
async fn a_retry_keeps_the_extra_facts_of_a_newer_version() {
    let t = Fixture::start().await;
    // Field 100 with a text.
    let extra = Extra::from_bytes(b"\xa2\x06\x02eu");
    let run = t.start_run(task("t1").with_extra(extra.clone())).await;
    t.settle(&run, snooze(Duration::ZERO, Extra { deferrals: 1, ..run.extra.clone() })).await;
    t.advance(Duration::from_secs(1));
    t.forward().await;
    assert_eq!(t.take_one().await.extra, Extra { deferrals: 1, ..extra });
}

#[tokio::test]
async fn every_run_is_counted_on_its_day() {
    let t = Fixture::start().await;
    let (first, second) = (t.seed_active("t1").await, t.seed_active("t2").await);
    t.settle(&first, done()).await;
    t.advance(Duration::from_secs(86_400));
    t.settle(&second, archive("fatal")).await;
    assert_eq!(counters(&t.snapshot().await.stats), [1, 1, 2, 1]);
}

#[tokio::test]
async fn a_batch_has_one_answer_per_outcome_in_order() {
    let t = Fixture::start().await;
    t.seed_pending(&["d", "c", "r", "a", "q", "gone"]).await;
    t.enqueue(task("other").in_queue("low")).await;
    let runs = t.take(10).await;
    let low = asynq_runtime::broker::Wanted { queue: asynq_tests::queue("low"), n: 1 };
    let low = t.broker().dequeue(t.member(), &[low]).await.unwrap().remove(0);
    t.settle(&runs[5], done()).await;
    let batch = [
        runs[0].ends_with(done()),
        runs[5].ends_with(archive("late")),
        runs[1].ends_with(complete("42")),
        low.ends_with(retry(MINUTE, "low")),
        runs[2].ends_with(retry(MINUTE, "boom")),
        runs[3].ends_with(archive("fatal")),
        runs[4].ends_with(requeue()),
    ];

    let answers: Vec<Settled> = t.broker().settle(&batch).await.into_iter().map(Result::unwrap).collect();

    use Settled::{Gone, Ok};
    assert_eq!(answers, [Ok, Gone, Ok, Ok, Ok, Ok, Ok]);
    let seen = t.snapshot().await;
    for (state, id) in
        [(TaskState::Completed, "c"), (TaskState::Retry, "r"), (TaskState::Archived, "a"), (TaskState::Pending, "q")]
    {
        assert_eq!(seen.ids(state), [id]);
    }
    assert_eq!(seen.len(), 4);
    assert_eq!(counters(&seen.stats), [5, 2, 5, 2]);
    let low = t.broker().queue_stats(&asynq_tests::queue("low")).await.unwrap();
    assert_eq!((low.retry, counters(&low)), (1, [1, 1, 1, 1]));
}

#[tokio::test]
async fn two_hundred_outcomes_at_once_are_all_settled() {
    let t = Fixture::start().await;
    let ids: Vec<String> = (0..200).map(|i| format!("t{i}")).collect();
    assert!(t.broker().enqueue(ids.iter().map(|id| task(id)).collect()).await.iter().all(Result::is_ok));
    let runs = t.take_exactly(200).await;
    let batch: Vec<_> = runs.iter().rev().map(|run| run.ends_with(done())).collect();
    let answers = t.broker().settle(&batch).await;
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Settled::Ok))), "{answers:?}");
    let seen = t.snapshot().await;
    assert!(seen.is_empty());
    assert_eq!(counters(&seen.stats), [200, 0, 200, 0]);
}

#[tokio::test]
async fn an_empty_batch_has_no_answers() {
    let t = Fixture::start().await;
    assert!(t.broker().settle(&[]).await.is_empty());
}

#[tokio::test]
async fn tasks_requeued_together_are_all_ahead_of_those_that_waited() {
    let t = Fixture::start().await;
    t.seed_pending(&["a", "b", "c", "d"]).await;
    let runs = t.take(3).await;
    let batch: Vec<_> = runs.iter().map(|run| run.ends_with(requeue())).collect();
    assert!(t.broker().settle(&batch).await.iter().all(|answer| matches!(answer, Ok(Settled::Ok))));
    let mut order = t.drain().await;
    assert_eq!(order.pop().unwrap(), "d");
    order.sort();
    assert_eq!(order, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_result_shows_while_the_task_runs() {
    let t = Fixture::start().await;
    let run = t.start_run(task("t1").with_retention(60)).await;
    let write = async |bytes| t.broker().write_result(&run.key, &Bytes::from_static(bytes)).await.unwrap();
    assert_eq!(write(b"1").await, Settled::Ok);
    assert_eq!(write(b"\x00\xff").await, Settled::Ok);
    assert_eq!(t.snapshot().await.active[0].result.as_deref(), Some(&b"\x00\xff"[..]));
}

#[tokio::test]
async fn progress_shows_while_the_task_runs() {
    let t = Fixture::start().await;
    let run = t.seed_active("t1").await;
    for (fraction, note) in [(0.25, "a quarter"), (0.5, "half ✓ | of it")] {
        assert_eq!(t.broker().write_progress(&run.key, &Progress::new(fraction, note)).await.unwrap(), Settled::Ok);
        assert_eq!(t.snapshot().await.active[0].progress, Some((fraction, note.to_owned())));
    }
}

#[tokio::test]
async fn progress_is_not_shown_after_its_run() {
    for action in [complete("1"), retry(MINUTE, "x"), archive("x"), requeue()] {
        let t = Fixture::start().await;
        let run = t.start_run(task("t1").with_retention(60)).await;
        t.broker().write_progress(&run.key, &Progress::new(0.9, "row 9 of 10")).await.unwrap();
        assert_eq!(t.settle(&run, action.clone()).await, Settled::Ok);
        let ended = t.info("t1").await.unwrap();
        assert_eq!(ended.progress, None, "{action:?}");
    }
}

#[tokio::test]
async fn an_outcome_of_a_task_that_never_was_is_gone() {
    let t = Fixture::start().await;
    let mut run = t.seed_active("t1").await;
    run.key.id = task_id("never");
    run.key.row += 1_000_000;
    for action in [done(), complete("1"), retry(MINUTE, "x"), archive("x"), requeue()] {
        assert_eq!(t.settle(&run, action).await, Settled::Gone);
    }
    assert_eq!(t.snapshot().await.len(), 1);
}

#[tokio::test]
async fn an_error_text_of_any_characters_is_kept() {
    let t = Fixture::start().await;
    let text = "\u{1f4a5} <b>&amp;\t%s%n \u{202e} \0 end";
    let run = t.seed_active("t1").await;
    assert_eq!(t.settle(&run, retry(MINUTE, text)).await, Settled::Ok);
    assert_eq!(t.snapshot().await.retry[0].error.as_deref(), Some(text));
}

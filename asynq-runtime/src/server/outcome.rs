//! Decides the action for a task whose attempt has ended: a pure function, tested as a table.

use std::time::Duration;

use asynq_grammar::duration;
use bytes::Bytes;

use super::{config::OnUnknown, retry_delay::default_retry_delay};
use crate::{
    broker::{Action, shortened},
    job::{Policy, RESULT_LIMIT, TooLarge},
    pause::doubled,
    task::{Ending, Extra, TaskMessage, Unknown},
};

/// A task of an unknown type is requeued after this time at first, and after twice as long each further time.
const FIRST_REQUEUE_DELAY: Duration = Duration::from_secs(5);
/// The longest delay before a task of an unknown type is requeued.
const LONGEST_REQUEUE_DELAY: Duration = Duration::from_secs(600);
/// The delay of a task for which this server had no thread.
const AFTER_NO_BEGIN: Duration = Duration::from_secs(60);
/// How many attempts in a row may end with "not a failure", or without having begun.
const MOST_DEFERRALS: u32 = 25;
/// A task whose type stays unknown for so long is archived, unless the server is configured otherwise.
const GIVE_UP_UNKNOWN: Duration = Duration::from_secs(24 * 3600);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    /// The job returned, with this result.
    Succeeded(Option<Bytes>),
    /// The job returned an error, panicked, took too long, or was cancelled.
    Failed { policy: Policy, error: String },
    /// The server is leaving.
    Interrupted,
    /// The attempt did not start, and may start after this time; with the reason, if people should see one.
    Deferred(Duration, Option<String>),
    /// The job waited for all of its time and did not begin: this server had no thread for it.
    NeverBegan(String),
    /// The attempt did not start: this server does not know the task's type or the shape of its arguments.
    Unknown(String),
    /// The attempt did not start, or the task must not start again, and no retry can change that.
    Hopeless(String),
    /// The attempt did not start, because the task had expired.
    Expired(String),
}

impl Ended {
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::Failed { policy: Policy::Fail, error: error.into() }
    }
}

/// The facts on which the decision depends beside the end of the attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) message: &'a TaskMessage,
    pub(crate) extra: &'a Extra,
    pub(crate) on_unknown: OnUnknown,
    /// The broker's time, in Unix milliseconds.
    pub(crate) now_ms: i64,
    /// Which of 30 steps of jitter is added to the retry delay.
    pub(crate) jitter_step: u32,
}

/// Returns the action for the task. The delay of a failed one is that of its error, or by asynq's formula.
pub(crate) fn decide(ended: Ended, facts: Facts<'_>) -> Action {
    match ended {
        Ended::Succeeded(Some(result)) if facts.message.retention > 0 && result.len() > RESULT_LIMIT => {
            archive(TooLarge { what: "result", size: result.len() }.to_string(), facts)
        }
        Ended::Succeeded(result) if facts.message.retention > 0 => Action::Complete { result },
        Ended::Succeeded(_) => Action::Done,
        Ended::Interrupted => Action::Requeue,
        Ended::Deferred(delay, error) => Action::Defer { delay, error, extra: facts.extra.clone() },
        Ended::NeverBegan(error) if facts.extra.deferrals < MOST_DEFERRALS => {
            let extra = Extra { deferrals: facts.extra.deferrals + 1, ..facts.extra.clone() };
            Action::Defer { delay: AFTER_NO_BEGIN, error: Some(error), extra }
        }
        Ended::NeverBegan(error) => failed(Policy::Fail, error, facts),
        Ended::Hopeless(error) => archive(error, facts),
        Ended::Expired(error) => {
            Action::Archive { error, extra: Extra { ending: Ending::Expired.into(), ..known(facts.extra) } }
        }
        Ended::Unknown(error) => unknown(error, facts),
        Ended::Failed { policy, error } => failed(policy, error, facts),
    }
}

fn failed(policy: Policy, error: String, facts: Facts<'_>) -> Action {
    let retried = facts.message.spent_retries();
    let is_last = facts.message.retried >= facts.message.retry;
    match policy {
        Policy::Revoke if facts.extra.awaited && facts.message.retention > 0 => {
            Action::Revoke { extra: Extra { ending: Ending::Revoked.into(), ..known(facts.extra) } }
        }
        Policy::Revoke => Action::Done,
        // This precedes the check of the retry limit: a snooze is not a failure, and asynq has no rule for it.
        Policy::Snooze(delay) => Action::Retry { delay, error: None, counted: false, extra: known(facts.extra) },
        Policy::SkipRetry => archive(error, facts),
        Policy::NotAFailure if facts.extra.deferrals < MOST_DEFERRALS => not_a_failure(error, facts),
        _ if is_last => archive(error, facts),
        Policy::RetryIn(delay) => retry(delay, error, facts),
        _ => retry(default_retry_delay(retried, facts.jitter_step), error, facts),
    }
}

/// Returns the action for a task of a type that no job here has. During a deploy another worker may have it.
fn unknown(error: String, facts: Facts<'_>) -> Action {
    match facts.on_unknown {
        OnUnknown::Archive => archive(error, facts),
        OnUnknown::Retry => failed(Policy::Fail, error, facts),
        OnUnknown::Requeue => requeue_unknown(error, GIVE_UP_UNKNOWN, facts),
        OnUnknown::RequeueFor(limit) => requeue_unknown(error, limit, facts),
    }
}

fn requeue_unknown(error: String, limit: Duration, facts: Facts<'_>) -> Action {
    let retried = facts.message.spent_retries();
    // A worker of Go that has failed the task since knew it.
    let before = facts.extra.unknown.filter(|unknown| unknown.retried.is_none_or(|known| known == retried));
    let Unknown { since_ms, times, .. } = before.unwrap_or(Unknown { since_ms: facts.now_ms, times: 0, retried: None });
    let unknown_for = Duration::from_millis(u64::try_from(facts.now_ms.saturating_sub(since_ms)).unwrap_or(0));
    if unknown_for >= limit {
        let limit = if limit == GIVE_UP_UNKNOWN { "a day".to_owned() } else { duration::format(limit) };
        return archive(format!("{error} (no worker has known it for {limit}, requeued {times} times)"), facts);
    }
    let delay = doubled(FIRST_REQUEUE_DELAY, times, LONGEST_REQUEUE_DELAY);
    let unknown = Unknown { since_ms, times: times.saturating_add(1), retried: Some(retried) };
    let extra = Extra { unknown: Some(unknown), ..facts.extra.clone() };
    // The task shows why it waits, as in asynq. The reason is noted once, so that the last ten failures stay.
    let error = (facts.message.error_msg != shortened(&error)).then_some(error);
    Action::Defer { delay, error, extra }
}

/// Returns the action for asynq's `IsFailure` = false: not counted, also on the last retry, but not for ever.
fn not_a_failure(error: String, facts: Facts<'_>) -> Action {
    let deferrals = facts.extra.deferrals;
    let retried = facts.message.spent_retries();
    let delay = default_retry_delay(retried.saturating_add(deferrals), facts.jitter_step);
    let extra = Extra { deferrals: deferrals + 1, unknown: None, replaced_since_ms: None, ..facts.extra.clone() };
    Action::Retry { delay, error: Some(error), counted: false, extra }
}

fn retry(delay: Duration, error: String, facts: Facts<'_>) -> Action {
    Action::Retry { delay, error: Some(error), counted: true, extra: known(facts.extra) }
}

fn archive(error: String, facts: Facts<'_>) -> Action {
    Action::Archive { error, extra: known(facts.extra) }
}

/// Returns the extra facts without those that an end of another kind resets, and without the beginning of the enqueues that replaced
/// each other (`debounce_max`): those behind an attempt have all of that time again.
fn known(extra: &Extra) -> Extra {
    Extra { unknown: None, deferrals: 0, ending: Ending::Plain.into(), replaced_since_ms: None, ..extra.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;
    const DAY: i64 = 24 * 3600 * 1000;

    fn decide_with(
        ended: Ended,
        (retried, retry): (i32, i32),
        retention: i64,
        on_unknown: OnUnknown,
        extra: Extra,
    ) -> Action {
        let message = TaskMessage { retried, retry, retention, ..TaskMessage::default() };
        decide(ended, Facts { message: &message, extra: &extra, on_unknown, now_ms: NOW, jitter_step: 0 })
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn fails(policy: Policy) -> Ended {
        Ended::Failed { policy, error: "why".into() }
    }

    fn archived() -> Action {
        Action::Archive { error: "why".into(), extra: Extra::default() }
    }

    fn retried_in(delay: u64) -> Action {
        Action::Retry { delay: secs(delay), error: Some("why".into()), counted: true, extra: Extra::default() }
    }

    #[test]
    fn a_job_without_a_thread_is_deferred_and_fails_only_after_many_times() {
        let ended = |deferrals| {
            let extra = Extra { deferrals, ..Extra::default() };
            decide_with(Ended::NeverBegan("why".into()), (0, 3), 0, OnUnknown::Requeue, extra)
        };
        let expected = Extra { deferrals: 25, ..Extra::default() };
        assert_eq!(ended(24), Action::Defer { delay: secs(60), error: Some("why".into()), extra: expected });
        assert!(matches!(ended(25), Action::Retry { counted: true, .. }));
    }

    #[test]
    fn every_ending_has_its_action() {
        let result = || Some(Bytes::from_static(b"r"));
        let bytes = |size: usize| Some(Bytes::from(vec![0; size]));
        let too_large =
            |size| Action::Archive { error: TooLarge { what: "result", size }.to_string(), extra: Extra::default() };
        let snoozed = || Action::Retry { delay: secs(9), error: None, counted: false, extra: Extra::default() };
        let table = [
            // end                                   retried, max   kept   action
            (Ended::Succeeded(None), (0, 25), 0, Action::Done),
            (Ended::Succeeded(result()), (0, 25), 0, Action::Done),
            (Ended::Succeeded(result()), (25, 25), 60, Action::Complete { result: result() }),
            (Ended::Succeeded(None), (0, 25), 60, Action::Complete { result: None }),
            // A result that is not kept may be of any size; a retry would return the same.
            (Ended::Succeeded(bytes(RESULT_LIMIT + 1)), (0, 25), 0, Action::Done),
            (Ended::Succeeded(bytes(RESULT_LIMIT)), (0, 25), 60, Action::Complete { result: bytes(RESULT_LIMIT) }),
            (Ended::Succeeded(bytes(RESULT_LIMIT + 1)), (0, 25), 60, too_large(RESULT_LIMIT + 1)),
            (Ended::Interrupted, (25, 25), 60, Action::Requeue),
            (fails(Policy::Fail), (0, 25), 0, retried_in(15)),
            (fails(Policy::Fail), (3, 25), 60, retried_in(96)),
            (fails(Policy::Fail), (24, 25), 0, retried_in(331_791)),
            (fails(Policy::Fail), (25, 25), 0, archived()),
            (fails(Policy::Fail), (26, 25), 0, archived()),
            (fails(Policy::Fail), (0, 0), 0, archived()),
            (fails(Policy::SkipRetry), (0, 25), 60, archived()),
            (fails(Policy::SkipRetry), (25, 25), 0, archived()),
            (fails(Policy::Revoke), (0, 25), 60, Action::Done),
            (fails(Policy::Revoke), (0, 0), 0, Action::Done),
            (fails(Policy::RetryIn(secs(9))), (0, 25), 0, retried_in(9)),
            (fails(Policy::RetryIn(secs(9))), (25, 25), 0, archived()),
            (fails(Policy::RetryIn(Duration::ZERO)), (0, 25), 0, retried_in(0)),
            (fails(Policy::Snooze(secs(9))), (0, 25), 0, snoozed()),
            (fails(Policy::Snooze(secs(9))), (25, 25), 0, snoozed()),
            (fails(Policy::Snooze(secs(9))), (0, 0), 0, snoozed()),
            (Ended::Hopeless("why".into()), (0, 25), 60, archived()),
        ];
        for (ended, counters, retention, expected) in table {
            let case = format!("{ended:?} {counters:?} {retention}");
            assert_eq!(
                decide_with(ended, counters, retention, OnUnknown::Requeue, Extra::default()),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn an_end_that_the_state_does_not_show_is_marked() {
        let extra =
            |awaited, ending: Ending| Extra { awaited, ending: ending.into(), deferrals: 3, ..Extra::default() };
        let marked = |awaited, ending: Ending| Extra { awaited, ending: ending.into(), ..Extra::default() };
        let archive = |awaited, ending| Action::Archive { error: "why".into(), extra: marked(awaited, ending) };
        for (ended, retention, awaited, expected) in [
            (fails(Policy::Revoke), 60, true, Action::Revoke { extra: marked(true, Ending::Revoked) }),
            (fails(Policy::Revoke), 60, false, Action::Done),
            // This task cannot be kept: an older program, or an edit by a person, left no retention.
            (fails(Policy::Revoke), 0, true, Action::Done),
            (Ended::Expired("why".into()), 0, false, archive(false, Ending::Expired)),
            (Ended::Expired("why".into()), 60, true, archive(true, Ending::Expired)),
            // The next end removes the mark of an earlier one.
            (Ended::Hopeless("why".into()), 60, true, archive(true, Ending::Plain)),
        ] {
            let case = format!("{ended:?} {retention} {awaited}");
            let decided = decide_with(ended, (0, 25), retention, OnUnknown::Requeue, extra(awaited, Ending::Expired));
            assert_eq!(decided, expected, "{case}");
        }
    }

    #[test]
    fn an_unknown_task_is_requeued_ever_later_and_archived_after_a_day() {
        let extra_at = |retried, since_ms, times| Extra {
            max_crashes: Some(7),
            unknown: Some(Unknown { since_ms, times, retried: Some(retried) }),
            ..Extra::default()
        };
        let extra = |since_ms, times| extra_at(25, since_ms, times);
        let table = [
            (Extra { max_crashes: Some(7), ..Extra::default() }, 5, extra(NOW, 1)),
            (extra(NOW - 5_000, 1), 10, extra(NOW - 5_000, 2)),
            (extra(NOW - 9_000, 2), 20, extra(NOW - 9_000, 3)),
            (extra(NOW - 9_000, 6), 320, extra(NOW - 9_000, 7)),
            (extra(NOW - 9_000, 7), 600, extra(NOW - 9_000, 8)),
            (extra(NOW - DAY + 1, u32::MAX), 600, extra(NOW - DAY + 1, u32::MAX)),
            // A worker of Go knew the task since, and failed.
            (extra_at(24, NOW - 2 * DAY, 150), 5, extra(NOW, 1)),
        ];
        for (before, delay, after) in table {
            let action = decide_with(Ended::Unknown("why".into()), (25, 25), 0, OnUnknown::Requeue, before);
            let error = Some("why".to_owned());
            assert_eq!(action, Action::Defer { delay: secs(delay), error, extra: after });
        }
        let action = decide_with(Ended::Unknown("why".into()), (25, 25), 0, OnUnknown::Requeue, extra(NOW - DAY, 150));
        let Action::Archive { error, extra } = action else { panic!("{action:?}") };
        assert!(error.starts_with("why (no worker has known it for a day"), "{error}");
        assert_eq!(extra, Extra { max_crashes: Some(7), ..Extra::default() });
    }

    /// A worker of an older version writes the record without the retries.
    #[test]
    fn a_day_in_which_an_older_worker_requeued_the_task_ends() {
        let before =
            |since_ms| Extra { unknown: Some(Unknown { since_ms, times: 150, retried: None }), ..Extra::default() };
        let act =
            |since_ms| decide_with(Ended::Unknown("why".into()), (3, 25), 0, OnUnknown::Requeue, before(since_ms));
        assert!(matches!(act(NOW - DAY), Action::Archive { .. }));
        let Action::Defer { extra, .. } = act(NOW - DAY + 1) else { panic!("the day is not over") };
        assert_eq!(extra.unknown, Some(Unknown { since_ms: NOW - DAY + 1, times: 151, retried: Some(3) }));
    }

    #[test]
    fn a_server_sets_for_how_long_an_unknown_task_is_requeued() {
        let unknown =
            |since_ms| Extra { unknown: Some(Unknown { since_ms, times: 1, retried: Some(0) }), ..Extra::default() };
        let act = |limit, since_ms| {
            let policy = OnUnknown::RequeueFor(limit);
            decide_with(Ended::Unknown("why".into()), (0, 25), 0, policy, unknown(since_ms))
        };
        let week = Duration::from_secs(7 * 86_400);
        assert!(matches!(act(week, NOW - 7 * DAY + 1), Action::Defer { .. }));
        let Action::Archive { error, .. } = act(week, NOW - 7 * DAY) else { panic!("a week is over") };
        assert_eq!(error, "why (no worker has known it for 7d, requeued 1 times)");
        assert!(matches!(act(Duration::MAX, i64::MIN), Action::Defer { .. }));
        assert!(matches!(act(Duration::ZERO, NOW + DAY), Action::Archive { .. }));
    }

    #[test]
    fn the_reason_of_a_requeue_is_written_once() {
        let long = "ä".repeat(4096);
        for (known, error, written) in [
            ("", "why", true),
            ("mail server away", "why", true),
            ("why", "why", false),
            (crate::broker::shortened(&long), long.as_str(), false),
        ] {
            let message = TaskMessage { error_msg: known.to_owned(), ..TaskMessage::default() };
            let extra = Extra::default();
            let facts =
                Facts { message: &message, extra: &extra, on_unknown: OnUnknown::Requeue, now_ms: NOW, jitter_step: 0 };
            let action = decide(Ended::Unknown(error.to_owned()), facts);
            let Action::Defer { error: stored, .. } = action else { panic!("{action:?}") };
            assert_eq!(stored.as_deref(), written.then_some(error), "after {known:.20}");
        }
    }

    #[test]
    fn an_error_that_is_not_a_failure_is_deferred_ever_longer_and_counts_at_last() {
        let deferrals = |deferrals| Extra { max_crashes: Some(7), deferrals, ..Extra::default() };
        let table = [
            // retried, max    in a row    delay
            ((0, 25), 0, 15),
            ((0, 25), 3, 96),
            ((3, 25), 0, 96),
            // asynq archives these two.
            ((25, 25), 1, 456_991),
            ((0, 0), 24, 331_791),
        ];
        for (counters, before, delay) in table {
            let action = decide_with(fails(Policy::NotAFailure), counters, 0, OnUnknown::Requeue, deferrals(before));
            let expected = Action::Retry {
                delay: secs(delay),
                error: Some("why".into()),
                counted: false,
                extra: deferrals(before + 1),
            };
            assert_eq!(action, expected, "{counters:?} {before}");
        }
        let at_last =
            |counters| decide_with(fails(Policy::NotAFailure), counters, 0, OnUnknown::Requeue, deferrals(25));
        let Action::Retry { counted: true, extra, .. } = at_last((0, 25)) else { panic!("it counts") };
        assert_eq!(extra, deferrals(0));
        assert_eq!(at_last((25, 25)), Action::Archive { error: "why".into(), extra: deferrals(0) });
        // An end of another kind resets the count.
        let action = decide_with(fails(Policy::Fail), (0, 25), 0, OnUnknown::Requeue, deferrals(9));
        let Action::Retry { extra, .. } = action else { panic!("{action:?}") };
        assert_eq!(extra, deferrals(0));
    }

    #[test]
    fn a_task_that_did_not_start_is_deferred_as_it_is() {
        let extra = Extra { deferrals: 3, unique_extend: true, ..Extra::default() };
        let action = decide_with(Ended::Deferred(secs(5), None), (25, 25), 0, OnUnknown::Requeue, extra.clone());
        assert_eq!(action, Action::Defer { delay: secs(5), error: None, extra });
    }

    #[test]
    fn other_policies_treat_an_unknown_task_as_a_failure() {
        let act = |counters, policy| decide_with(Ended::Unknown("why".into()), counters, 0, policy, Extra::default());
        assert_eq!(act((0, 25), OnUnknown::Archive), archived());
        assert_eq!(act((0, 25), OnUnknown::Retry), retried_in(15));
        assert_eq!(act((25, 25), OnUnknown::Retry), archived());
    }

    #[test]
    fn a_task_that_is_known_again_forgets_that_it_was_not() {
        let extra = Extra {
            max_crashes: Some(1),
            unknown: Some(Unknown { since_ms: 1, times: 3, retried: Some(0) }),
            ..Extra::default()
        };
        let Action::Retry { extra, .. } = decide_with(fails(Policy::Fail), (0, 1), 0, OnUnknown::Requeue, extra) else {
            panic!("a first failure is retried")
        };
        assert_eq!(extra, Extra { max_crashes: Some(1), ..Extra::default() });
    }

    #[test]
    fn an_attempt_ends_the_burst_of_enqueues_before_it() {
        let since = |ended| {
            let extra = Extra { replaced_since_ms: Some(5), ..Extra::default() };
            match decide_with(ended, (0, 1), 0, OnUnknown::Requeue, extra) {
                Action::Retry { extra, .. } | Action::Defer { extra, .. } | Action::Archive { extra, .. } => {
                    extra.replaced_since_ms
                }
                action => panic!("{action:?}"),
            }
        };
        for policy in [Policy::Fail, Policy::NotAFailure, Policy::Snooze(secs(9)), Policy::SkipRetry] {
            assert_eq!(since(fails(policy)), None, "{policy:?}");
        }
        assert_eq!(since(Ended::Deferred(secs(5), None)), Some(5), "this attempt did not begin");
    }
}

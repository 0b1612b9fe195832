//! The life of a task as far as it is known: its past, and the times to come.

use asynq_runtime::{
    TaskInfo, TaskState,
    task::{Ending, Timestamp},
};
use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::{
    super::{format::when, part::tasks::kept_until},
    View,
};

/// One moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    /// `None` if it is not known.
    at: Option<DateTime<Utc>>,
    text: String,
    /// The state that the moment led to, which gives the moment its mark.
    state: Option<TaskState>,
}

/// Renders the moments in the order of time.
pub(super) fn render(view: &View) -> Markup {
    let since = view.runs_at.as_ref().and_then(|(_, worker)| worker.start_time).and_then(Timestamp::to_datetime);
    let failed: Vec<_> = view.attempts.iter().map(|attempt| (attempt.number, attempt.at)).collect();
    html! {
        ol.line {
            @for event in events(&view.task, &failed, since) {
                li class=[event.state.map(|state| format!("s-{state}"))] {
                    (event.text) @if let Some(at) = event.at { " " span.soft { (when(view.now, at)) } }
                }
            }
        }
    }
}

fn events(task: &TaskInfo, failed: &[(u32, DateTime<Utc>)], since: Option<DateTime<Utc>>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |at: Option<DateTime<Utc>>, text: &str, state| {
        events.extend(at.map(|_| Event { at, text: text.to_owned(), state }));
    };
    add(born(task.id.as_str()), "Created", Some(TaskState::Pending));
    for &(number, at) in failed {
        add(Some(at), &format!("Attempt {number} failed"), Some(TaskState::Retry));
    }
    // Our own servers keep attempts; of attempts on Go's servers only the last is known, to the second.
    let is_known = |at: DateTime<Utc>| failed.iter().any(|(_, known)| known.timestamp() == at.timestamp());
    add(task.last_failed_at.filter(|&at| !is_known(at)), "Failed last", Some(TaskState::Retry));
    add(since, "This attempt began", Some(TaskState::Active));
    let completed = if task.ending == Ending::Revoked { "Revoked by its job" } else { "Completed" };
    add(task.completed_at, completed, Some(TaskState::Completed));
    match task.state {
        TaskState::Scheduled => add(task.next_process_at, "Due", Some(TaskState::Scheduled)),
        TaskState::Retry => add(task.next_process_at, "Next attempt", Some(TaskState::Scheduled)),
        TaskState::Active => add(task.lease_until, "Its lease ends unless the worker extends it", None),
        _ => {}
    }
    add(kept_until(task), "Deleted", None);
    add(task.expires, "No attempt begins after this", None);
    add(task.deadline, "No attempt may run after this", None);
    events.sort_by_key(|event| event.at);
    if task.state == TaskState::Archived {
        // It follows what the task went through, although Redis keeps its time in whole seconds; a deadline may be yet to come.
        let at = task.archived_at;
        let place = events.iter().rposition(|event| event.state.is_some() || event.at <= at).map_or(0, |last| last + 1);
        events.insert(place, Event { at, text: "Archived".to_owned(), state: Some(TaskState::Archived) });
    }
    events
}

/// Returns when an id of ours was made: a UUID v7 begins with the time.
fn born(id: &str) -> Option<DateTime<Utc>> {
    let (seconds, nanos) =
        uuid::Uuid::try_parse(id).ok().filter(|id| id.get_version_num() == 7)?.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::TaskMessage;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_893_553_445 + seconds, 0).unwrap_or_default()
    }

    #[test]
    fn events_come_in_the_order_of_time() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Retry);
        (task.last_failed_at, task.next_process_at) = (Some(at(20)), Some(at(60)));
        let texts = |task: &TaskInfo, failed: &[_], since| -> Vec<String> {
            events(task, failed, since).into_iter().map(|event| event.text).collect()
        };
        assert_eq!(
            texts(&task, &[(2, at(20)), (1, at(10))], None),
            ["Attempt 1 failed", "Attempt 2 failed", "Next attempt"]
        );
        assert_eq!(texts(&task, &[], None), ["Failed last", "Next attempt"]);
        (task.expires, task.deadline) = (Some(at(40)), Some(at(50)));
        assert_eq!(
            texts(&task, &[], None),
            ["Failed last", "No attempt begins after this", "No attempt may run after this", "Next attempt"]
        );
        (task.expires, task.deadline) = (None, None);
        task.state = TaskState::Archived;
        assert_eq!(texts(&task, &[(1, at(20))], None), ["Attempt 1 failed", "Archived"]);
        task.state = TaskState::Active;
        assert_eq!(texts(&task, &[(1, at(20))], Some(at(30))), ["Attempt 1 failed", "This attempt began"]);
    }

    #[test]
    fn a_task_is_archived_after_what_it_went_through() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Archived);
        task.deadline = Some(at(90));
        let deadline = "No attempt may run after this";
        type Failed = &'static [(u32, i64)];
        type Shown = [(&'static str, Option<i64>)];
        // seconds of the archiving, failed attempts, expected: text and seconds
        let cases: [(Option<i64>, Failed, &Shown); 5] = [
            (Some(20), &[], &[("Archived", Some(20)), (deadline, Some(90))]),
            (Some(20), &[(1, 10)], &[("Attempt 1 failed", Some(10)), ("Archived", Some(20)), (deadline, Some(90))]),
            (Some(95), &[(1, 10)], &[("Attempt 1 failed", Some(10)), (deadline, Some(90)), ("Archived", Some(95))]),
            // Redis leaves out the fraction of the second in which the failure archived the task.
            (Some(9), &[(1, 10)], &[("Attempt 1 failed", Some(10)), ("Archived", Some(9)), (deadline, Some(90))]),
            (None, &[(1, 10)], &[("Attempt 1 failed", Some(10)), ("Archived", None), (deadline, Some(90))]),
        ];
        for (archived, failed, expected) in cases {
            task.archived_at = archived.map(at);
            let failed: Vec<_> = failed.iter().map(|&(number, seconds)| (number, at(seconds))).collect();
            let shown: Vec<_> = events(&task, &failed, None).into_iter().map(|event| (event.text, event.at)).collect();
            let expected: Vec<_> = expected.iter().map(|&(text, seconds)| (text.to_owned(), seconds.map(at))).collect();
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_task_that_its_job_revoked_does_not_look_like_a_success() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Completed);
        task.completed_at = Some(at(20));
        for (ending, expected) in [(Ending::Plain, "Completed"), (Ending::Revoked, "Revoked by its job")] {
            task.ending = ending;
            assert_eq!(events(&task, &[], None)[0].text, expected);
        }
    }

    #[test]
    fn only_a_task_that_is_completed_is_deleted_when_its_retention_ends() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Completed);
        (task.completed_at, task.retention) = (Some(at(20)), Some(std::time::Duration::from_secs(60)));
        for state in TaskState::ALL {
            task.state = state;
            let deleted = events(&task, &[], None).into_iter().find(|event| event.text == "Deleted");
            let expected = (state == TaskState::Completed).then(|| at(80));
            assert_eq!(deleted.and_then(|event| event.at), expected, "{state}");
        }
    }

    #[test]
    fn an_id_of_ours_knows_its_time() {
        assert_eq!(
            born("0190a5a0-8e00-7000-8000-000000000000").map(|at| at.timestamp_millis()),
            Some(0x0190_a5a0_8e00)
        );
        assert_eq!(born("b9410bfb-e0d3-4ede-9abb-9f7d6e314a6a"), None);
        assert_eq!(born("mine"), None);
    }
}

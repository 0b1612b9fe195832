//! One task with all known facts.

use asynq_runtime::{TaskInfo, TaskState, broker::Failure, task::Progress};
use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::Rect,
    style::{Style, Stylize as _},
    text::{Line, Span, StyledGrapheme},
    widgets::Paragraph,
};

use super::parts::colour;
use crate::show::{about, ago, clean, distance, full, until};

/// Most bytes of arguments and result that are shown.
const BYTES: usize = 8 * 1024;

/// Draws the lines from `first` on, and returns how many lines the area has no room for.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    task: Option<&(TaskInfo, Vec<Failure>)>,
    first: usize,
    now: DateTime<Utc>,
) -> usize {
    let Some((task, failures)) = task else {
        frame.render_widget(Paragraph::new("The task is not there any more.").dim(), area);
        return 0;
    };
    let facts = lines(task, failures, now);
    let lines: Vec<Line<'_>> = facts.iter().flat_map(|line| wrapped(line, area.width.into())).collect();
    let beyond = lines.len().saturating_sub(area.height.into());
    let visible: Vec<Line<'_>> = lines.into_iter().skip(first.min(beyond)).collect();
    frame.render_widget(Paragraph::new(visible), area);
    beyond
}

/// Breaks a line into lines of at most `width` cells. `Paragraph::line_count` of ratatui, which tells how many lines a paragraph
/// wraps to, is an unstable feature.
fn wrapped<'a>(line: &'a Line<'_>, width: usize) -> Vec<Line<'a>> {
    let mut lines = vec![Line::default()];
    let mut used = 0;
    for StyledGrapheme { symbol, style } in line.styled_graphemes(Style::default()) {
        let part = Span::styled(symbol, style);
        if used > 0 && used + part.width() > width {
            lines.push(Line::default());
            used = 0;
        }
        used += part.width();
        if let Some(last) = lines.last_mut() {
            last.push_span(part);
        }
    }
    lines
}

fn lines(task: &TaskInfo, failures: &[Failure], now: DateTime<Utc>) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut fact = |label: &str, value: Option<Span<'static>>| {
        lines.extend(value.map(|value| Line::from(vec![Span::from(format!("{label:<14}")).dim(), value])));
    };
    fact("type", Some(Span::from(clean(&task.r#type)).bold()));
    fact("state", Some(Span::from(task.state.to_string()).fg(colour(task.state))));
    fact("ending", task.ending.as_str().map(Span::from));
    fact("attempts", Some(format!("{} failed, {} retries at most", task.retried, task.max_retry).into()));
    fact("crashes", (task.crashes > 0).then(|| format!("{} workers died while it ran", task.crashes).red()));
    fact("due", task.next_process_at.map(|at| until(now, at).into()));
    fact("timeout", task.timeout.map(|timeout| about(timeout).into()));
    fact("deadline", task.deadline.map(|at| distance(now, at).into()));
    fact("expires", task.expires.map(|at| distance(now, at).into()));
    fact("lease ends", task.lease_until.map(|at| distance(now, at).into()));
    fact("retention", task.retention.map(|retention| about(retention).into()));
    let progress = |p: &Progress| format!("{:.0} % {}", p.fraction * 100.0, clean(&p.note)).into();
    fact("progress", task.progress.as_ref().map(progress));
    fact("group", task.group.as_ref().map(|group| clean(group).into()));
    fact("unique key", task.unique_key.as_ref().map(|key| clean(key).into()));
    let ended = match task.state {
        TaskState::Completed => task.completed_at,
        TaskState::Archived => task.archived_at,
        _ => None,
    };
    fact("ended", ended.map(|at| ago(now, at).into()));
    for (name, value) in &task.headers {
        fact("header", Some(format!("{}: {}", clean(name), clean(value)).into()));
    }
    for failure in failures {
        let text = format!("{} (attempt {}): {}", ago(now, failure.at), failure.number, clean(&failure.error));
        fact("error", Some(text.red()));
    }
    fact("last failed", task.last_failed_at.filter(|_| failures.is_empty()).map(|at| ago(now, at).into()));
    fact("error", task.last_error.as_ref().filter(|_| failures.is_empty()).map(|error| clean(error).red()));
    for (label, bytes) in [("Arguments", Some(&task.payload)), ("Result", task.result.as_ref())] {
        let Some(bytes) = bytes else { continue };
        lines.push(Line::default());
        lines.push(Line::from(label).bold());
        lines.extend(full(bytes, BYTES, "asynq task inspect ").lines().map(|line| Line::from(line.to_owned())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::TaskMessage;
    use chrono::TimeDelta;

    use super::*;

    /// Returns the value that is shown with a label.
    fn shown(task: &TaskInfo, label: &str) -> Option<String> {
        let lines = lines(task, &[], DateTime::UNIX_EPOCH);
        let mut texts = lines.iter().map(ToString::to_string);
        texts.find_map(|text| text.strip_prefix(label).map(|value| value.trim().to_owned()))
    }

    #[test]
    fn a_limit_that_has_passed_is_not_now() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Active);
        for (at, expected) in [(-3_600, "1h ago"), (60, "in 1m")] {
            let at = Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(at));
            (task.deadline, task.expires, task.lease_until) = (at, at, at);
            for label in ["deadline", "expires", "lease ends"] {
                assert_eq!(shown(&task, label).as_deref(), Some(expected), "{label}");
            }
        }
    }

    #[test]
    fn an_earlier_completion_is_not_the_end_of_a_task() {
        let mut task = TaskInfo::from_message(&TaskMessage::default(), TaskState::Completed);
        task.completed_at = Some(DateTime::UNIX_EPOCH - TimeDelta::hours(3));
        task.archived_at = Some(DateTime::UNIX_EPOCH - TimeDelta::hours(1));
        for (state, expected) in [
            (TaskState::Completed, Some("3h ago")),
            (TaskState::Archived, Some("1h ago")),
            (TaskState::Retry, None),
            (TaskState::Pending, None),
        ] {
            task.state = state;
            assert_eq!(shown(&task, "ended").as_deref(), expected, "{state}");
        }
    }
}

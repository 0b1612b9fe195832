//! One task with all known facts.

use asynq_runtime::{TaskInfo, broker::Failure};
use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::Rect,
    style::Stylize as _,
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::parts::colour;
use crate::show::{about, ago, clean, full, until};

/// Most bytes of arguments and result that are shown.
const BYTES: usize = 8 * 1024;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, task: Option<&(TaskInfo, Vec<Failure>)>, now: DateTime<Utc>) {
    let Some((task, failures)) = task else {
        frame.render_widget(Paragraph::new("The task is not there any more.").dim(), area);
        return;
    };
    let text = Paragraph::new(lines(task, failures, now)).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}

fn lines(task: &TaskInfo, failures: &[Failure], now: DateTime<Utc>) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut fact = |label: &str, value: Span<'static>| {
        lines.push(Line::from(vec![Span::from(format!("{label:<14}")).dim(), value]));
    };
    fact("type", Span::from(clean(&task.r#type)).bold());
    fact("state", Span::from(task.state.to_string()).fg(colour(task.state)));
    fact("attempts", format!("{} failed, {} retries at most", task.retried, task.max_retry).into());
    if task.crashes > 0 {
        fact("crashes", format!("{} workers died while it ran", task.crashes).red());
    }
    if let Some(at) = task.next_process_at {
        fact("due", until(now, at).into());
    }
    if let Some(timeout) = task.timeout {
        fact("timeout", about(timeout).into());
    }
    if let Some(at) = task.deadline {
        fact("deadline", until(now, at).into());
    }
    if let Some(progress) = &task.progress {
        fact("progress", format!("{:.0} % {}", progress.fraction * 100.0, clean(&progress.note)).into());
    }
    if let Some(group) = &task.group {
        fact("group", clean(group).into());
    }
    if let Some(key) = &task.unique_key {
        fact("unique key", clean(key).into());
    }
    if let Some(at) = task.completed_at {
        fact("ended", ago(now, at).into());
    }
    for (name, value) in &task.headers {
        fact("header", format!("{}: {}", clean(name), clean(value)).into());
    }
    for failure in failures {
        let text = format!("{} (attempt {}): {}", ago(now, failure.at), failure.number, clean(&failure.error));
        fact("error", text.red());
    }
    if failures.is_empty()
        && let Some(error) = &task.last_error
    {
        fact("error", clean(error).red());
    }
    for (label, bytes) in [("Arguments", Some(&task.payload)), ("Result", task.result.as_ref())] {
        let Some(bytes) = bytes else { continue };
        lines.push(Line::default());
        lines.push(Line::from(label).bold());
        lines.extend(full(bytes, BYTES).lines().map(|line| Line::from(line.to_owned())));
    }
    lines
}

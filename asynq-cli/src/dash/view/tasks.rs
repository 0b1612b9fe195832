//! The tasks of one queue in one state.

use asynq_runtime::{
    TaskInfo, TaskState,
    broker::{GroupStats, QueueStats},
    inspector::ListTasks,
};
use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Stylize as _,
    text::{Line, Span},
    widgets::{Paragraph, Row},
};

use super::{
    super::{load::Listing, model::TABS},
    parts::{REST, cells, colour, is_narrow, list},
};
use crate::show::{about, ago, brief, clean, cut, number, until};

/// The content of the screen.
pub(super) struct TaskPage<'a> {
    pub(super) listing: &'a Listing,
    pub(super) stats: &'a QueueStats,
    pub(super) tasks: &'a [TaskInfo],
    pub(super) groups: &'a [GroupStats],
    pub(super) row: usize,
    pub(super) now: DateTime<Utc>,
}

/// Lines that are not rows: facts, tabs, a space, headings, the number of the page.
const AROUND: u16 = 5;

/// Returns how many tasks `area` has room for, at least one and at most as many as one list has.
pub(super) fn room(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(AROUND)).clamp(1, ListTasks::MOST)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &TaskPage<'_>) {
    let TaskPage { listing, stats, tasks, groups, row, .. } = view;
    let line = Constraint::Length(1);
    let [facts, tabs, _, table, page] = Layout::vertical([line, line, line, Constraint::Min(1), line]).areas(area);
    frame.render_widget(about_queue(stats), facts);
    frame.render_widget(tab_line(tabs, listing.state, stats), tabs);
    if tasks.is_empty() {
        frame.render_widget(Paragraph::new(format!("no {} tasks", listing.state)).dim(), table);
    } else {
        let rows = tasks.iter().map(|task| row_of(task, view)).collect();
        let [third, fourth] = headings(listing.state);
        let widths = [cells(table, 36, 18), cells(table, 24, 14), cells(table, 22, 20), REST];
        list(frame, table, ["ID", "TYPE", third, fourth], widths, rows, Some(*row));
    }
    let first = (listing.page - 1).saturating_mul(listing.size);
    let mut line = match tasks.len() {
        0 => String::new(),
        n => format!(
            "{}-{} of {}",
            number(first as u64 + 1),
            number((first + n) as u64),
            number(stats.count(listing.state))
        ),
    };
    if !groups.is_empty() {
        let names: Vec<String> =
            groups.iter().map(|group| format!("{} {}", clean(group.group.as_str()), group.size)).collect();
        line.push_str(&format!("   groups: {}", names.join(", ")));
    }
    frame.render_widget(Line::from(line).dim(), page);
}

fn about_queue(stats: &QueueStats) -> Line<'static> {
    let state = if stats.paused { Span::from("paused").yellow() } else { Span::from("runs").green() };
    let waits =
        if stats.latency.is_zero() { "none waits".into() } else { format!("next waits {}", about(stats.latency)) };
    let numbers = format!(
        "   {} tasks   {waits}   today {} runs, {} failed",
        number(stats.size),
        number(stats.processed),
        number(stats.failed)
    );
    Line::from(vec![state, Span::from(numbers)])
}

/// Returns the tabs without the first of them, where that makes room in `area` for the chosen one.
fn tab_line(area: Rect, chosen: TaskState, stats: &QueueStats) -> Line<'static> {
    let between = if is_narrow(area) { " " } else { "   " };
    let mut tabs: Vec<_> = TABS.map(|state| (state, format!("{state} {}", number(stats.count(state))))).into();
    let width = |(_, tab): &(TaskState, String)| tab.len() + between.len();
    while let Some(before) = tabs.iter().position(|(state, _)| *state == chosen).filter(|&before| before > 0)
        && tabs[..before].iter().map(width).sum::<usize>() + tabs[before].1.len() > area.width.into()
    {
        tabs.remove(0);
    }
    Line::from_iter(tabs.into_iter().flat_map(|(state, tab)| {
        let tab = Span::from(tab).fg(colour(state));
        [if state == chosen { tab.bold().underlined() } else { tab.dim() }, Span::from(between)]
    }))
}

fn headings(state: TaskState) -> [&'static str; 2] {
    match state {
        TaskState::Active | TaskState::Pending => ["ATTEMPT", "PAYLOAD"],
        TaskState::Aggregating => ["GROUP", "PAYLOAD"],
        TaskState::Scheduled => ["DUE", "PAYLOAD"],
        TaskState::Retry => ["NEXT ATTEMPT", "LAST ERROR"],
        TaskState::Archived => ["ARCHIVED", "LAST ERROR"],
        TaskState::Completed => ["ENDED", "RESULT"],
    }
}

fn row_of(task: &TaskInfo, view: &TaskPage<'_>) -> Row<'static> {
    const WIDE: usize = 200;
    let due = || task.next_process_at.map_or_else(|| "-".into(), |at| until(view.now, at));
    let since = |at: Option<DateTime<Utc>>| at.map_or_else(|| "-".into(), |at| ago(view.now, at));
    let attempt = format!("{} of {}", u64::from(task.retried) + 1, u64::from(task.max_retry) + 1);
    let error = || cut(&clean(task.last_error.as_deref().unwrap_or("-")), WIDE);
    let payload = || brief(&task.payload, WIDE);
    let (third, fourth) = match view.listing.state {
        TaskState::Active | TaskState::Pending => (attempt, payload()),
        TaskState::Aggregating => (clean(task.group.as_deref().unwrap_or("-")), payload()),
        TaskState::Scheduled => (due(), payload()),
        TaskState::Retry => (format!("{}, {attempt}", due()), error()),
        TaskState::Archived => (since(task.archived_at), error()),
        TaskState::Completed => {
            (since(task.completed_at), task.result.as_ref().map_or_else(|| "-".into(), |result| brief(result, WIDE)))
        }
    };
    Row::new([clean(task.id.as_str()), cut(&clean(&task.r#type), 24), third, fourth])
}

//! Widgets that several screens share.

use asynq_runtime::{TaskState, broker::QueueStats};
use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Row, Table, TableState},
};

use super::super::model::TABS;

/// Returns a state's colour; the state's name always stands beside it.
pub(super) fn colour(state: TaskState) -> Color {
    match state {
        TaskState::Active => Color::Green,
        TaskState::Pending => Color::Blue,
        TaskState::Aggregating => Color::Magenta,
        TaskState::Scheduled => Color::Cyan,
        TaskState::Retry => Color::Yellow,
        TaskState::Archived => Color::Red,
        TaskState::Completed => Color::DarkGray,
    }
}

/// The columns that the widest list needs.
const WIDE: u16 = 112;

/// The width of the column that takes all cells that the others leave.
pub(super) const REST: Constraint = Constraint::Min(12);

/// Returns whether a list in `area` has its short columns, which leave room for the rest on a terminal of 80 columns.
pub(super) fn is_narrow(area: Rect) -> bool {
    area.width < WIDE
}

/// Returns the width of a column of a list in `area`, in cells.
pub(super) fn cells(area: Rect, wide: u16, narrow: u16) -> Constraint {
    Constraint::Length(if is_narrow(area) { narrow } else { wide })
}

/// Draws a list of rows under headings, one of them chosen where the user can choose.
pub(super) fn list<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: [&str; N],
    widths: [Constraint; N],
    rows: Vec<Row<'_>>,
    chosen: Option<usize>,
) {
    let headings = Row::new(headings.map(|heading| Line::from(heading.to_owned()))).style(Style::new().bold().dim());
    let table = Table::new(rows, widths)
        .header(headings)
        .column_spacing(if is_narrow(area) { 1 } else { 2 })
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns a number at the right of its column; a zero is dim.
pub(super) fn count(n: u64) -> Line<'static> {
    let line = Line::from(crate::show::number(n)).right_aligned();
    if n == 0 { line.dim() } else { line }
}

/// Returns a bar of a queue's tasks by state, in at most `width` cells. `most` is the size of the largest queue, which
/// fills the width; a state that has tasks has a cell.
pub(super) fn bar(queue: &QueueStats, most: u64, width: u16) -> Line<'static> {
    let mut spans = Vec::new();
    let mut left = u64::from(width);
    for state in TABS {
        let n = queue.count(state);
        if n == 0 || most == 0 {
            continue;
        }
        let cells = n.saturating_mul(u64::from(width)).div_ceil(most).min(left);
        left -= cells;
        spans.push(Span::from("█".repeat(usize::try_from(cells).unwrap_or(0))).fg(colour(state)));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;

    use super::*;

    #[test]
    fn a_bar_shows_every_state_that_has_tasks_and_never_overflows() {
        let mut queue = QueueStats::empty(QueueName::from_wire("q"), Default::default());
        assert_eq!(bar(&queue, 0, 10).width(), 0);
        (queue.active, queue.pending, queue.archived) = (1, 98, 1);
        let line = bar(&queue, 100, 10);
        let cells: Vec<usize> = line.spans.iter().map(|span| span.content.chars().count()).collect();
        assert_eq!(cells, [1, 9, 0], "the bar is full before the last state");
        assert_eq!(bar(&queue, 1_000, 10).width(), 3, "a tenth, and no state is left out");
    }
}

//! Every queue with the numbers of its tasks.

use asynq_runtime::{broker::QueueStats, inspector::UnreadableQueue};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Stylize as _},
    text::{Line, Span},
    widgets::{Paragraph, Row, Wrap},
};

use super::{
    super::model::TABS,
    parts::{REST, bar, cells, colour, count, is_narrow, list},
};
use crate::{
    show::{about, clean, error_rate},
    unlisted::NO_QUEUE,
};

/// Cells of a bar, which a narrow list leaves out.
const BAR: u16 = 24;

/// Cells of all columns but the bar, with those between them.
const WHOLE: u16 = 71;

/// Most lines about queues that cannot be read.
const UNREADABLE: usize = 3;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    queues: &[QueueStats],
    unreadable: &[UnreadableQueue],
    chosen: usize,
) {
    let mut errors: Vec<Line<'_>> = unreadable.iter().take(UNREADABLE).map(broken).collect();
    if unreadable.len() > UNREADABLE {
        errors.push(Line::from(format!("and {} more cannot be read", unreadable.len() - UNREADABLE)).fg(Color::Red));
    }
    let height = u16::try_from(errors.len()).unwrap_or(0);
    let [area, below] = Layout::vertical([Constraint::Min(2), Constraint::Length(height)]).areas(area);
    frame.render_widget(Paragraph::new(errors), below);
    if queues.is_empty() {
        if unreadable.is_empty() {
            frame.render_widget(Paragraph::new(NO_QUEUE).wrap(Wrap { trim: true }).dim(), area);
        }
        return;
    }
    let has_bars = !is_narrow(area);
    let [table, legend] = Layout::vertical([Constraint::Min(2), Constraint::Length(has_bars.into())]).areas(area);
    let most = queues.iter().map(|queue| queue.size).max().unwrap_or(0);
    let rows = queues.iter().map(|queue| {
        let state = if queue.paused { Line::from("paused").fg(Color::Yellow) } else { Line::from("runs").dim() };
        let waits = if queue.latency.is_zero() { "-".to_owned() } else { about(queue.latency) };
        let failed = count(queue.failed);
        Row::new([
            Line::from(clean(queue.name.as_str())),
            state,
            bar(queue, most, BAR),
            count(queue.size),
            Line::from(waits).right_aligned(),
            count(queue.processed),
            if queue.failed > 0 { failed.fg(Color::Red) } else { failed },
            Line::from(error_rate(queue.processed, queue.failed)).right_aligned(),
        ])
    });
    // A number that is wider than its column loses its first digits, so that a list without room leaves whole columns out.
    let [runs, errors] = [11, 7].map(|cells| Constraint::Length(if table.width < WHOLE { 0 } else { cells }));
    let widths = [
        REST,
        Constraint::Length(6),
        cells(table, BAR, 0),
        Constraint::Length(10),
        Constraint::Length(9),
        runs,
        Constraint::Length(9),
        errors,
    ];
    let headings = ["QUEUE", "", "TASKS BY STATE", "      SIZE", "  WAITING", " RUNS TODAY", "   FAILED", " ERRORS"];
    list(frame, table, headings, widths, rows.collect(), Some(chosen));
    let legend_of =
        TABS.into_iter().flat_map(|state| [Span::from("█ ").fg(colour(state)), Span::from(format!("{state}  ")).dim()]);
    frame.render_widget(Line::from_iter(legend_of), legend);
}

/// Returns the line that says why a queue cannot be read.
fn broken(queue: &UnreadableQueue) -> Line<'static> {
    let name = clean(queue.name.as_str());
    Line::from(format!("queue {name} cannot be read: {}", clean(&queue.error))).fg(Color::Red)
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;
    use ratatui::{Terminal, backend::TestBackend, buffer::Cell};

    use super::*;

    #[test]
    fn a_narrow_list_leaves_columns_out_and_cuts_no_number() {
        let mut queue = QueueStats::empty(QueueName::from_wire("q"), Default::default());
        (queue.size, queue.failed, queue.processed) = (1_234_567, 1_204, 31_415_926);
        let queues = [queue];
        for width in [53, 56, 70, 71, 76, 111, 112] {
            let mut terminal = Terminal::new(TestBackend::new(width, 3)).unwrap();
            terminal.draw(|frame| draw(frame, frame.area(), &queues, &[], 0)).unwrap();
            let text: String = terminal.backend().buffer().content.iter().map(Cell::symbol).collect();
            assert!(text.contains(" 1,234,567 ") && text.contains(" 1,204"), "{width}: {text}");
            assert_eq!(text.contains("RUNS TODAY"), width >= WHOLE, "{width}: {text}");
            assert_eq!(text.contains(" 31,415,926 "), width >= WHOLE, "{width}: {text}");
        }
    }
}

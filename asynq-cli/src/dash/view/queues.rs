//! Every queue with the numbers of its tasks.

use asynq_runtime::{broker::QueueStats, inspector::UnreadableQueue};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Stylize as _},
    text::{Line, Span},
    widgets::{Paragraph, Row},
};

use super::{
    super::model::TABS,
    parts::{REST, bar, cells, colour, count, is_narrow, list},
};
use crate::show::{about, clean};

/// Cells of a bar, which a narrow list leaves out.
const BAR: u16 = 24;

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
    if queues.is_empty() && !unreadable.is_empty() {
        return;
    }
    if queues.is_empty() {
        frame.render_widget(Paragraph::new("no queues yet: nothing was ever enqueued here").dim(), area);
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
            Line::from(error_rate(queue)).right_aligned(),
        ])
    });
    let widths = [
        REST,
        Constraint::Length(6),
        cells(table, BAR, 0),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(11),
        Constraint::Length(9),
        Constraint::Length(7),
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

fn error_rate(queue: &QueueStats) -> String {
    match queue.processed {
        0 => "-".to_owned(),
        processed => format!("{:.1} %", queue.failed as f64 * 100.0 / processed as f64),
    }
}

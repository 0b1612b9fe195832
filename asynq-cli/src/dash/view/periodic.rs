//! Periodic entries with when they fire next.

use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::Rect,
    style::Stylize as _,
    text::Line,
    widgets::{Paragraph, Row, Wrap},
};

use super::parts::{REST, cells, list};
use crate::{
    entries::Entry,
    show::{ago, brief, clean, until},
    unlisted,
};

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    entries: &[Entry],
    hidden: Option<&str>,
    chosen: usize,
    now: DateTime<Utc>,
) {
    if entries.is_empty() {
        frame.render_widget(Paragraph::new(unlisted::no_entry(hidden)).wrap(Wrap { trim: true }).dim(), area);
        return;
    }
    let rows = entries.iter().map(|row| {
        let entry = &row.listed;
        let next = match row.next() {
            _ if row.error.is_some() => Line::from("unreadable").red(),
            _ if row.paused => Line::from("paused").yellow(),
            Some(at) => Line::from(until(now, at)),
            None => Line::from("never").dim(),
        };
        let previous = row.previous().map_or_else(|| "-".to_owned(), |at| ago(now, at));
        Row::new([
            Line::from(clean(&entry.spec)),
            Line::from(clean(&entry.task_type)).bold(),
            next,
            Line::from(previous),
            Line::from(brief(&entry.task_payload, 200)),
        ])
    });
    let widths = [cells(area, 34, 18), cells(area, 28, 16), cells(area, 14, 12), cells(area, 16, 12), REST];
    list(frame, area, ["SPEC", "TYPE", "NEXT", "PREVIOUS", "PAYLOAD"], widths, rows.collect(), Some(chosen));
}

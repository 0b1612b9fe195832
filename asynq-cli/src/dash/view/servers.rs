//! The servers that live, with what runs now.

use asynq_runtime::{broker::ServerState, task::Timestamp};
use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Stylize as _,
    text::Line,
    widgets::{Paragraph, Row},
};

use super::parts::list;
use crate::show::{about, brief, clean};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, servers: &[ServerState], chosen: usize, now: DateTime<Utc>) {
    if servers.is_empty() {
        frame.render_widget(Paragraph::new("no server is running").dim(), area);
        return;
    }
    let [above, label, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    let rows = servers.iter().map(|server| {
        let info = &server.info;
        let queues: Vec<String> = info
            .queues
            .iter()
            .map(|queue| format!("{}:{}", clean(queue.queue.as_deref().unwrap_or("")), queue.weight.unwrap_or(0)))
            .collect();
        Row::new([
            format!("{}:{}", clean(&info.host), info.pid),
            clean(&info.status),
            format!("{}/{}", server.workers.len(), info.concurrency),
            since(info.start_time, now),
            if info.is_gos() { "Go".into() } else { format!("Rust {}", clean(&info.rust_version)) },
            queues.join(" "),
        ])
    });
    let widths = [
        Constraint::Length(30),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    list(frame, above, ["HOST:PID", "STATUS", "BUSY", "UP", "LIBRARY", "QUEUES"], widths, rows.collect(), chosen);
    let Some(server) = servers.get(chosen) else { return };
    frame.render_widget(Paragraph::new(vec![Line::default(), Line::from("Runs now").bold()]), label);
    if server.workers.is_empty() {
        frame.render_widget(Paragraph::new("nothing").dim(), below);
        return;
    }
    let rows = server.workers.iter().map(|worker| {
        Row::new([
            clean(&worker.task_id),
            clean(&worker.task_type),
            clean(&worker.queue),
            since(worker.start_time, now),
            brief(&worker.task_payload, 200),
        ])
    });
    let widths = [
        Constraint::Length(36),
        Constraint::Length(24),
        Constraint::Length(16),
        Constraint::Length(10),
        Constraint::Fill(1),
    ];
    list(frame, below, ["TASK", "TYPE", "QUEUE", "FOR", "PAYLOAD"], widths, rows.collect(), usize::MAX);
}

fn since(start: Option<Timestamp>, now: DateTime<Utc>) -> String {
    let span = start.and_then(Timestamp::to_datetime).and_then(|start| (now - start).to_std().ok());
    span.map_or_else(|| "-".to_owned(), about)
}

//! The servers that live, with the tasks that they run now.

use asynq_runtime::{
    broker::ServerState,
    task::{Timestamp, WorkerInfo},
};
use chrono::{DateTime, Utc};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Stylize as _,
    text::Line,
    widgets::{Paragraph, Row, Wrap},
};

use super::parts::{REST, cells, list};
use crate::{
    show::{about, brief, clean},
    unlisted,
};

/// Cells of the short columns of the list of servers, with those between them.
const WHOLE: u16 = 72;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    servers: &[ServerState],
    hidden: Option<&str>,
    chosen: usize,
    now: DateTime<Utc>,
) {
    if servers.is_empty() {
        frame.render_widget(Paragraph::new(unlisted::no_server(hidden)).wrap(Wrap { trim: true }).dim(), area);
        return;
    }
    let [above, label, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    let rows = servers.iter().map(|server| {
        let info = &server.info;
        let weights = info.weights().into_iter();
        let queues: Vec<String> = weights.map(|(queue, weight)| format!("{}={weight}", clean(queue))).collect();
        // Stuck runs say more about a server than its status does.
        let status = match server.workers.iter().filter(|worker| worker.is_stuck(now)).count() {
            0 => Line::from(clean(&info.status)),
            stuck => Line::from(format!("{stuck} stuck")).red(),
        };
        Row::new([
            Line::from(format!("{}:{}", clean(&info.host), info.pid)),
            status,
            Line::from(format!("{}/{}", server.workers.len(), info.concurrency)),
            Line::from(since(info.start_time, now)),
            Line::from(if info.is_gos() { "Go".into() } else { format!("Rust {}", clean(&info.rust_version)) }),
            Line::from(queues.join(" ")),
        ])
    });
    // A column that is too narrow for its numbers cuts them, so that a list without room leaves whole columns out.
    let [up, library] = if above.width < WHOLE { [0, 0] } else { [7, 10] };
    let widths = [
        cells(above, 30, 22),
        Constraint::Length(9),
        cells(above, 9, 7),
        cells(above, 10, up),
        cells(above, 12, library),
        REST,
    ];
    list(frame, above, ["HOST:PID", "STATUS", "BUSY", "UP", "LIBRARY", "QUEUES"], widths, rows.collect(), Some(chosen));
    let Some(server) = servers.get(chosen) else { return };
    frame.render_widget(Paragraph::new(vec![Line::default(), Line::from("Runs now").bold()]), label);
    if server.workers.is_empty() {
        frame.render_widget(Paragraph::new("nothing").dim(), below);
        return;
    }
    // The list has no choice and does not scroll: the worst runs come first, then the longest.
    let mut runs: Vec<&WorkerInfo> = server.workers.iter().collect();
    runs.sort_by_key(|run| (!run.is_stuck(now), run.start_time.and_then(Timestamp::to_datetime)));
    let room = usize::from(below.height.saturating_sub(1));
    let left_out = if runs.len() > room { runs.len() - room.saturating_sub(1) } else { 0 };
    runs.truncate(runs.len() - left_out);
    let rows = runs.into_iter().map(|worker| {
        let lasts = since(worker.start_time, now);
        Row::new([
            Line::from(clean(&worker.task_id)),
            Line::from(clean(&worker.task_type)),
            Line::from(clean(&worker.queue)),
            if worker.is_stuck(now) { Line::from(format!("{lasts} stuck")).red() } else { Line::from(lasts) },
            Line::from(brief(&worker.task_payload, 200)),
        ])
    });
    let widths = [cells(below, 36, 18), cells(below, 24, 14), cells(below, 16, 12), Constraint::Length(13), REST];
    let more = (left_out > 0).then(|| Row::new([Line::from(format!("and {left_out} more")).dim()]));
    list(frame, below, ["TASK", "TYPE", "QUEUE", "FOR", "PAYLOAD"], widths, rows.chain(more).collect(), None);
}

fn since(start: Option<Timestamp>, now: DateTime<Utc>) -> String {
    let span = start.and_then(Timestamp::to_datetime).and_then(|start| (now - start).to_std().ok());
    span.map_or_else(|| "-".to_owned(), about)
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::ServerInfo;
    use chrono::TimeDelta;
    use ratatui::{
        Terminal,
        backend::TestBackend,
        buffer::{Buffer, Cell},
        style::Modifier,
    };

    use super::*;

    #[test]
    fn a_run_that_is_stuck_is_drawn_with_its_server() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let text_with = |left| {
            let at = |span| Some(Timestamp::from(now + span));
            let (start_time, deadline) = (at(TimeDelta::seconds(-754)), at(left));
            let run = WorkerInfo { task_id: "t1".into(), start_time, deadline, ..WorkerInfo::default() };
            text(&drawn(vec![run; 100], now))
        };
        let sound = text_with(TimeDelta::seconds(-5));
        assert!(sound.contains("active") && !sound.contains("stuck"), "{sound}");
        let stuck = text_with(TimeDelta::seconds(-60));
        assert!(stuck.contains("100 stuck") && stuck.contains("12m34s stuck"), "{stuck}");
    }

    #[test]
    fn of_many_runs_the_stuck_and_the_longest_are_drawn_and_none_is_marked() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let run = |n: i64| WorkerInfo {
            task_id: format!("t{n}."),
            start_time: Some(Timestamp::from(now - TimeDelta::minutes(n))),
            deadline: Some(Timestamp::from(now + TimeDelta::minutes(if n == 1 { -1 } else { 1 }))),
            ..WorkerInfo::default()
        };
        for (count, first, more) in [(2, ["t1.", "t2."], ""), (30, ["t1.", "t30."], "and 27 more")] {
            let drawn = drawn((1..=count).map(run).collect(), now);
            let text = text(&drawn);
            let (_, below) = text.split_once("Runs now").unwrap();
            let rows: Vec<&str> = below.lines().skip(2).collect();
            assert!(rows[0].starts_with(first[0]) && rows[1].starts_with(first[1]), "{text}");
            assert!(rows[2..].iter().any(|row| row.starts_with(more)), "{text}");
            let is_marked = |row: &&[Cell]| row.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
            assert_eq!(drawn.content.chunks(120).filter(is_marked).count(), 1, "only the server is chosen: {text}");
        }
    }

    #[test]
    fn servers_that_cannot_report_are_not_said_to_be_gone() {
        for (hidden, expected) in [(None, "no server is running"), (Some("x"), "no server is listed, but x")] {
            let mut terminal = Terminal::new(TestBackend::new(80, 3)).unwrap();
            terminal.draw(|frame| draw(frame, frame.area(), &[], hidden, 0, DateTime::UNIX_EPOCH)).unwrap();
            let text = text(terminal.backend().buffer());
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn a_narrow_list_leaves_columns_out_and_cuts_no_number() {
        let info = ServerInfo { status: "active".into(), concurrency: 100, ..ServerInfo::default() };
        let servers = [ServerState::new(info, vec![WorkerInfo::default(); 10])];
        for width in [55, 71, 72, 112] {
            let mut terminal = Terminal::new(TestBackend::new(width, 6)).unwrap();
            terminal.draw(|frame| draw(frame, frame.area(), &servers, None, 0, DateTime::UNIX_EPOCH)).unwrap();
            let text = text(terminal.backend().buffer());
            assert!(text.contains(" 10/100 "), "{width}: {text}");
            assert_eq!(text.contains("LIBRARY"), width >= WHOLE, "{width}: {text}");
        }
    }

    /// Draws a server with these runs, and returns the screen.
    fn drawn(runs: Vec<WorkerInfo>, now: DateTime<Utc>) -> Buffer {
        let info = ServerInfo { status: "active".into(), ..ServerInfo::default() };
        let mut terminal = Terminal::new(TestBackend::new(120, 12)).unwrap();
        let servers = [ServerState::new(info, runs)];
        terminal.draw(|frame| draw(frame, frame.area(), &servers, None, 0, now)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(screen: &Buffer) -> String {
        let line = |cells: &[Cell]| cells.iter().map(Cell::symbol).collect::<String>() + "\n";
        screen.content.chunks(usize::from(screen.area.width)).map(line).collect()
    }
}

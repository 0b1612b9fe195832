//! Draws the model.

mod dialog;
mod parts;
mod periodic;
mod queues;
mod servers;
mod task;
mod tasks;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, BorderType, Padding, Paragraph, Wrap},
};

use super::{
    load::{Content, Wanted},
    model::{Model, Note},
};
use crate::show::clean;

/// Most lines of a note.
const NOTE: u16 = 3;

/// Draws everything, and tells the model how many rows a list has room for, and how many lines of a task have none.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let rows = [Constraint::Length(1), Constraint::Min(3), Constraint::Length(foot_height(model, frame.area()))];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(heading(model), head);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .padding(Padding::horizontal(1))
        .title(Line::from(format!(" {} ", title(model))).bold());
    let inside = block.inner(body);
    frame.render_widget(block, body);
    // A long note takes no room of the list: a page of another length would begin with another task.
    let height = inside.height.saturating_add(foot.height.saturating_sub(1));
    model.room = room(model, Rect { height, ..inside });
    content(frame, inside, model);
    match &model.note {
        Some(note) => draw_note(frame, foot, note),
        None => frame.render_widget(keys(model, parts::is_narrow(foot)), foot),
    }
    if let Some(dialog) = &model.dialog {
        dialog::draw(frame, dialog);
    }
    // crossterm leaves colours out with NO_COLOR, but writes a sequence without any, which turns bold and reversed off, too.
    if !model.colours {
        for cell in &mut frame.buffer_mut().content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

/// Returns how many lines the foot has: those of the note, as far as the screen has room for them.
fn foot_height(model: &Model, area: Rect) -> u16 {
    let width = usize::from(area.width.saturating_sub(1));
    let lines = model.note.as_ref().map_or(1, |note| dialog::lines(&clean(&note.text), width));
    let most = area.height.saturating_sub(4).clamp(1, NOTE);
    u16::try_from(lines).map_or(most, |lines| lines.min(most))
}

fn heading(model: &Model) -> Line<'_> {
    let mut spans = vec![Span::from(" asynq ").bold().reversed(), Span::from("  ")];
    let here = match model.screen().wanted {
        Wanted::Servers => 1,
        Wanted::Periodic => 2,
        _ => 0,
    };
    for (n, name) in ["queues", "servers", "periodic"].into_iter().enumerate() {
        let tab = Span::from(format!("{} {name}", n + 1));
        spans.push(if n == here { tab.bold().underlined() } else { tab.dim() });
        spans.push(Span::from("  "));
    }
    spans.push(Span::from(clean(&model.broker)).dim());
    if let Some(now) = model.now {
        spans.push(Span::from(format!("  {} UTC", now.format("%H:%M:%S"))).dim());
    }
    Line::from(spans)
}

fn title(model: &Model) -> String {
    match &model.screen().wanted {
        Wanted::Queues => "Queues".to_owned(),
        Wanted::Tasks(listing) => format!("Queue {}", clean(listing.queue.as_str())),
        Wanted::Task(queue, id) => format!("Task {} of queue {}", clean(id.as_str()), clean(queue.as_str())),
        Wanted::Servers => "Servers".to_owned(),
        Wanted::Periodic => "Periodic entries".to_owned(),
    }
}

/// Returns how many rows a list has room for in `area`.
fn room(model: &Model, area: Rect) -> usize {
    match &model.screen().wanted {
        Wanted::Tasks(_) => tasks::room(area),
        // The headings, and the legend below.
        Wanted::Queues => usize::from(area.height.saturating_sub(2)),
        // The upper half, without its headings.
        Wanted::Servers => usize::from((area.height / 2).saturating_sub(2)),
        _ => usize::from(area.height.saturating_sub(1)),
    }
}

fn content(frame: &mut Frame<'_>, area: Rect, model: &mut Model) {
    let (now, wanted) = (model.now.unwrap_or_default(), model.wanted());
    let screen = model.screen();
    match &screen.content {
        None => frame.render_widget(Line::from("asking the broker …").dim(), area),
        Some(Content::Queues(queues, unreadable)) => queues::draw(frame, area, queues, unreadable, screen.row),
        Some(Content::Tasks { stats, tasks, groups }) => {
            if let Wanted::Tasks(listing) = &wanted {
                let view = tasks::TaskPage { listing, stats, tasks, groups, row: screen.row, now };
                tasks::draw(frame, area, &view);
            }
        }
        Some(Content::Task(task)) => {
            let beyond = task::draw(frame, area, task.as_deref(), screen.row, now);
            model.screen_mut().beyond = beyond;
        }
        Some(Content::Servers(servers, hidden)) => servers::draw(frame, area, servers, *hidden, screen.row, now),
        Some(Content::Periodic(entries, hidden)) => periodic::draw(frame, area, entries, *hidden, screen.row, now),
    }
}

fn draw_note(frame: &mut Frame<'_>, area: Rect, note: &Note) {
    let style = Style::new();
    let style = if note.is_error { style.fg(Color::Red).add_modifier(Modifier::BOLD) } else { style.fg(Color::Green) };
    let block = Block::new().padding(Padding::left(1));
    frame.render_widget(Paragraph::new(clean(&note.text)).wrap(Wrap { trim: true }).block(block).style(style), area);
}

fn keys(model: &Model, is_narrow: bool) -> Line<'_> {
    let keys = match &model.screen().wanted {
        Wanted::Queues => "enter open   p pause/resume   ? help   q quit",
        Wanted::Tasks(_) if is_narrow => {
            "esc back  n/N page  ←→ state  enter open  r run  a archive  d delete  c cancel"
        }
        Wanted::Tasks(_) => {
            "←→ state   enter open   r run   a archive   d delete   c cancel   p pause   n/N page   esc back"
        }
        Wanted::Task(..) => "↑↓ scroll   r run   a archive   d delete   c cancel   esc back",
        Wanted::Servers => "esc back   ? help",
        Wanted::Periodic => "r run now   p pause/resume   esc back   ? help",
    };
    Line::from(format!(" {keys}")).dim()
}

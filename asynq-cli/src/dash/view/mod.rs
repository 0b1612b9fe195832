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
    widgets::{Block, BorderType, Padding},
};

use super::{
    load::{Content, Wanted},
    model::Model,
};
use crate::show::clean;

/// Draws everything, and tells the model how many rows a list has room for, and how many lines of a task have none.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(heading(model), head);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .padding(Padding::horizontal(1))
        .title(Line::from(format!(" {} ", title(model))).bold());
    let inside = block.inner(body);
    frame.render_widget(block, body);
    content(frame, inside, model);
    frame.render_widget(footer(model, parts::is_narrow(foot)), foot);
    if let Some(dialog) = &model.dialog {
        dialog::draw(frame, dialog);
    }
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

fn content(frame: &mut Frame<'_>, area: Rect, model: &mut Model) {
    model.room = match &model.screen().wanted {
        Wanted::Tasks(_) => tasks::room(area),
        _ => usize::from(area.height.saturating_sub(1)),
    };
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

fn footer(model: &Model, is_narrow: bool) -> Line<'_> {
    if let Some(note) = &model.note {
        let text = Span::from(format!(" {}", clean(&note.text)));
        return Line::from(if note.is_error { text.fg(Color::Red).add_modifier(Modifier::BOLD) } else { text.green() });
    }
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

//! A dialog in front of a screen: the list of keys, or a question.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::Stylize as _,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap},
};

use super::super::model::Dialog;
use crate::show::clean;

/// The width of a box, in cells.
const WIDTH: u16 = 64;

const KEYS: [(&str, &str); 16] = [
    ("1 2 3", "queues, servers, periodic entries"),
    ("↑ ↓ j k", "choose a row, scroll a task"),
    ("home end g G", "first and last row"),
    ("← → h l tab", "another state"),
    ("n N pgdn pgup", "next and previous page"),
    ("enter", "open what is chosen"),
    ("esc q", "back, and out of the first screen"),
    ("p", "pause a queue or an entry, or let it go on"),
    ("r", "run a task or an entry now"),
    ("a", "archive a task"),
    ("d", "delete a task"),
    ("c", "cancel a task that runs"),
    ("?", "this list"),
    ("ctrl+l", "draw everything again"),
    ("ctrl+c", "leave"),
    ("", "a change that cannot be undone asks first"),
];

pub(super) fn draw(frame: &mut Frame<'_>, dialog: &Dialog) {
    match dialog {
        Dialog::Help => {
            let line = |(key, effect): (&str, &'static str)| {
                Line::from(vec![Span::from(format!("{key:<15}")).bold(), Span::from(effect)])
            };
            let inner = draw_box(frame, " Keys ", KEYS.len() + 2);
            frame.render_widget(Paragraph::new(KEYS.map(line).to_vec()).wrap(Wrap { trim: true }), inner);
        }
        Dialog::Sure(question, _) => {
            let question = clean(question);
            let answer = Line::from(vec![Span::from("y").bold(), Span::from(" yes   any other key: no")]);
            let width = WIDTH.min(frame.area().width).saturating_sub(4);
            let inner = draw_box(frame, " Sure? ", lines(&question, width.into()) + 4);
            // The keys are there also where the screen is too small for the question.
            let height = u16::try_from(lines(&question, width.into())).unwrap_or(u16::MAX);
            let height = height.min(inner.height.saturating_sub(2));
            frame.render_widget(Paragraph::new(question).wrap(Wrap { trim: true }), Rect { height, ..inner });
            let y = inner.y.saturating_add(height).saturating_add(1);
            frame.render_widget(answer, Rect { y, height: 1, ..inner }.intersection(inner));
        }
    }
}

/// Draws an empty box with room for this many lines, or as many as the screen has, and returns the area inside.
fn draw_box(frame: &mut Frame<'_>, title: &'static str, lines: usize) -> Rect {
    let height = u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(2);
    let area = frame.area().centered(Constraint::Length(WIDTH), Constraint::Length(height));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .padding(Padding::horizontal(1))
        .title(Line::from(title).bold());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    inner
}

/// Returns into how many lines a paragraph of `width` cells wraps the text: a word that is too long for the rest of a line begins the
/// next one. `Paragraph::line_count` of ratatui is an unstable feature.
pub(super) fn lines(text: &str, width: usize) -> usize {
    let (width, mut lines, mut used) = (width.max(1), 1, 0);
    for word in text.split(' ') {
        let cells = Span::from(word).width();
        if used > 0 && used + 1 + cells > width {
            lines += 1;
            used = 0;
        }
        used += cells + usize::from(used > 0);
        // A longer word is broken.
        while used > width {
            lines += 1;
            used -= width;
        }
    }
    lines
}

//! A dialog in front of a screen: the list of keys, or a question.

use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout, Rect},
    style::Stylize as _,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap},
};

use super::super::model::Dialog;
use crate::show::clean;

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
    let (title, lines) = match dialog {
        Dialog::Help => {
            let line = |(key, effect): (&str, &'static str)| {
                Line::from(vec![Span::from(format!("{key:<15}")).bold(), Span::from(effect)])
            };
            (" Keys ", KEYS.map(line).to_vec())
        }
        Dialog::Sure(question, _) => {
            let answer = Line::from(vec![Span::from("y").bold(), Span::from(" yes   any other key: no")]);
            (" Sure? ", vec![Line::from(clean(question)), Line::default(), answer])
        }
    };
    // A question may be longer than a line.
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(4);
    let area = centred(frame.area(), 64, height);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .padding(Padding::horizontal(1))
        .title(Line::from(title).bold());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), area);
}

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let [row] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    let [middle] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(row);
    middle
}

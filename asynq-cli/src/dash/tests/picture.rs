//! A terminal's screen as an SVG, for the documentation.

use std::{fmt::Write as _, fs, path::Path};

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 17.0;
const BACKGROUND: &str = "#16181d";
const TEXT: &str = "#d7dae0";

/// Compares the picture with the one in `docs/screenshots`, or writes it there when `ASYNQ_SCREENSHOTS` is set.
pub(super) fn check(name: &str, picture: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/screenshots").join(name);
    if std::env::var_os("ASYNQ_SCREENSHOTS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, picture).unwrap();
        return;
    }
    let approved = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        approved == picture,
        "{} shows something else: look at it and run this with ASYNQ_SCREENSHOTS=1",
        file.display()
    );
}

/// Returns a screen as SVG, with one text element per run of cells that look alike.
pub(super) fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (buffer.area.width, buffer.area.height);
    let (width, height) = (f32::from(columns) * WIDTH + 24.0, f32::from(rows) * HEIGHT + 24.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-size=\"14\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..rows {
        let mut x = 0;
        while x < columns {
            let first = &buffer[(x, y)];
            let from = x;
            let mut text = String::new();
            while x < columns && looks_like(&buffer[(x, y)], first) {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            write_run(&mut svg, first, &text, from, x - from, y);
        }
    }
    svg + "</svg>\n"
}

fn looks_like(a: &Cell, b: &Cell) -> bool {
    (a.fg, a.bg, a.modifier) == (b.fg, b.bg, b.modifier)
}

fn write_run(svg: &mut String, cell: &Cell, text: &str, x: u16, cells: u16, y: u16) {
    let (left, top) = (f32::from(x) * WIDTH + 12.0, f32::from(y) * HEIGHT + 12.0);
    let width = f32::from(cells) * WIDTH;
    let is_reversed = cell.modifier.contains(Modifier::REVERSED);
    if is_reversed {
        writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{TEXT}\"/>"
        )
        .unwrap();
    }
    if text.trim().is_empty() {
        return;
    }
    // A bar has no gaps between its cells.
    if text.chars().all(|c| c == '█') {
        let top = top + 2.0;
        let height = HEIGHT - 4.0;
        let fill = colour(cell.fg);
        writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{fill}\"/>"
        )
        .unwrap();
        return;
    }
    let fill = if is_reversed { BACKGROUND } else { colour(cell.fg) };
    let mut looks = String::new();
    for (modifier, attribute) in [
        (Modifier::BOLD, " font-weight=\"bold\""),
        (Modifier::DIM, " opacity=\"0.6\""),
        (Modifier::UNDERLINED, " text-decoration=\"underline\""),
    ] {
        if cell.modifier.contains(modifier) {
            looks.push_str(attribute);
        }
    }
    let escaped = text.trim_end().replace('&', "&amp;").replace('<', "&lt;");
    let length = f32::from(u16::try_from(text.trim_end().chars().count()).unwrap()) * WIDTH;
    let baseline = top + 13.0;
    writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{baseline:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\" fill=\"{fill}\"{looks}>{escaped}</text>"
    )
    .unwrap();
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Green => "#7ec97e",
        Color::Blue => "#6ea8fe",
        Color::Magenta => "#c792ea",
        Color::Cyan => "#56c8d8",
        Color::Yellow => "#e5c07b",
        Color::Red => "#f07178",
        Color::DarkGray => "#6b7280",
        _ => TEXT,
    }
}

//! Aligned tables for people.

use std::fmt;

use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets::NOTHING};

use super::text::clean;

/// The narrowest width of a wrapped column, in characters.
const NARROWEST: u16 = 16;

/// The style of text for people.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Whether text has colours.
    pub(crate) colours: bool,
    /// The width of the terminal in columns; without one nothing is wrapped.
    pub(crate) width: Option<u16>,
}

/// Rows under headings, without lines between them. The text of each cell is cleaned.
#[derive(Debug)]
pub(crate) struct Table {
    inner: comfy_table::Table,
    style: Style,
    right: Vec<usize>,
    wrapped: Vec<usize>,
}

/// A cell with its tone, which a table without colours leaves out.
#[derive(Debug)]
pub(crate) struct Cell(comfy_table::Cell);

impl Table {
    /// Creates a table with these headings.
    pub(crate) fn new(style: Style, headings: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(NOTHING);
        if style.colours {
            inner.enforce_styling();
        } else {
            inner.force_no_tty();
        }
        match style.width {
            Some(width) => inner.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
            None => inner.set_content_arrangement(ContentArrangement::Disabled),
        };
        inner.set_header(headings.iter().map(|heading| comfy_table::Cell::new(heading).add_attribute(Attribute::Bold)));
        Self { inner, style, right: Vec::new(), wrapped: Vec::new() }
    }

    /// Aligns these columns, counted from 0, to the right, as for numbers.
    pub(crate) fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.right.extend(columns);
        self
    }

    /// Breaks these columns into lines where the terminal is narrow; all others stay whole, so that they can be copied.
    pub(crate) fn wrapped(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.wrapped.extend(columns);
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.inner.add_row(cells.into_iter().map(|cell| cell.0));
    }

    /// Returns the table as text.
    pub(crate) fn into_text(mut self) -> String {
        let widths = self.inner.column_max_content_widths();
        for (i, column) in self.inner.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.right.contains(&i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if !self.wrapped.contains(&i) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else if self.style.width.is_some() {
                // A narrower text cannot be read; the terminal breaks the lines instead.
                let width = NARROWEST.min(widths.get(i).copied().unwrap_or(0).saturating_add(2));
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            }
        }
        self.inner.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

impl Cell {
    /// Marks the cell as fine.
    pub(crate) fn good(self) -> Self {
        Self(self.0.fg(Color::Green))
    }

    /// Marks the cell as worth a look.
    pub(crate) fn warning(self) -> Self {
        Self(self.0.fg(Color::Yellow))
    }

    /// Marks the cell as wrong.
    pub(crate) fn bad(self) -> Self {
        Self(self.0.fg(Color::Red))
    }

    /// Returns a cell with a count; a zero is faint.
    pub(crate) fn count(n: u64) -> Self {
        let cell = Self::from(n);
        if n == 0 { Self(cell.0.add_attribute(Attribute::Dim)) } else { cell }
    }
}

impl<T: fmt::Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(comfy_table::Cell::new(clean(&text.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(style: Style) -> Table {
        let mut table = Table::new(style, &["ID", "SIZE", "PAYLOAD"]).right([1]).wrapped([2]);
        table.row(["größe".into(), Cell::from(5), "short".into()]);
        table.row([
            "邮件\u{1b}[2J".into(),
            Cell::from(12_345).bad(),
            "a text that is longer than the rest of it".into(),
        ]);
        table
    }

    #[test]
    fn columns_line_up_with_letters_of_any_width() {
        assert_eq!(
            table(Style::default()).into_text(),
            "ID         SIZE  PAYLOAD\n\
             größe         5  short\n\
             邮件\u{fffd}[2J  12345  a text that is longer than the rest of it\n"
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_the_columns_that_allow_it() {
        let text = table(Style { colours: false, width: Some(40) }).into_text();
        assert!(text.contains("12345  a text that is longer\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn no_column_is_squeezed_to_nothing() {
        let text = table(Style { colours: false, width: Some(1) }).into_text();
        assert!(text.contains("  a text that is\n"), "{text}");
    }

    #[test]
    fn colours_are_there_only_when_asked_for() {
        assert!(!table(Style::default()).into_text().contains('\u{1b}'));
        let coloured = table(Style { colours: true, width: None }).into_text();
        assert!(coloured.contains("\u{1b}[38;5;9m") || coloured.contains("\u{1b}[31m"), "{coloured:?}");
        assert!(!coloured.contains("\u{1b}[2J"), "{coloured:?}");
    }
}

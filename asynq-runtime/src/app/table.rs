//! Writes aligned tables for people.

use std::fmt;

use super::terminal::is_hostile;

/// Rows under headings; columns are as wide as their widest cell.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// Creates a table with these headings.
    pub(super) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()], right: Vec::new() }
    }

    /// Aligns these columns, counted from 0, to the right: numbers.
    pub(super) fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.right.extend(columns);
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }
}

/// Returns a text without hostile characters: one in a name that another program wrote must not reach the terminal.
pub(super) fn clean(text: &str) -> String {
    text.replace(is_hostile, "\u{fffd}")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let aligned = |(column, (cell, width)): (usize, (&String, &usize))| {
            // The formatter's own padding panics beyond 65,535 characters, which the queues of one worker can have.
            let padding = " ".repeat(width - cell.chars().count());
            if self.right.contains(&column) { padding + cell } else { format!("{cell}{padding}") }
        };
        for row in &self.rows {
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(aligned).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_letters_of_any_width() {
        let mut table = Table::new(&["QUEUE", "SIZE", "STATE"]).right([1]);
        table.row(["größe".into(), "5".into(), "paused".into()]);
        table.row(["a-long-name\n".into(), "12345".into(), String::new()]);
        assert_eq!(
            table.to_string(),
            "QUEUE          SIZE  STATE\n\
             größe             5  paused\n\
             a-long-name\u{fffd}  12345\n"
        );
    }

    #[test]
    fn a_cell_may_be_wider_than_the_formatter_can_pad() {
        let wide = "q=1 ".repeat(20_000);
        let mut table = Table::new(&["QUEUES", "BUSY"]);
        table.row([wide.clone(), "0".into()]);
        assert!(table.to_string().ends_with(&format!("\n{wide}  0\n")));
    }
}

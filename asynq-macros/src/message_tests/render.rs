//! Writes a message as the compiler does.

use super::expand::Diagnostic;

/// Returns the message, its place, and the source with the place underlined.
pub(super) fn diagnostic(path: &str, source: &str, diagnostic: &Diagnostic) -> String {
    let first = Position::of(source, diagnostic.bytes.start);
    let last = Position::of(source, diagnostic.bytes.end - 1);
    let width = last.number().len();
    let gutter = " ".repeat(width);
    // The compiler indents the later lines of a message by the length of "error: ".
    let message = diagnostic.message.replace('\n', "\n       ");
    let mut text =
        format!("error: {message}\n{gutter}--> {path}:{}:{}\n{gutter} |\n", first.number(), first.column + 1);
    let mut line = |number: &str, content: &str| text.push_str(&format!("{number:width$} | {content}\n"));
    if first.row == last.row {
        line(&first.number(), first.line);
        line("", &format!("{}{}", " ".repeat(first.column), "^".repeat(last.column - first.column + 1)));
    } else {
        if first.line[..first.column].trim().is_empty() {
            line(&first.number(), &format!("/ {}", first.line));
        } else {
            line(&first.number(), &format!("  {}", first.line));
            line("", &format!(" {}^", "_".repeat(first.column + 1)));
        }
        for (row, content) in source.lines().enumerate().take(last.row + 1).skip(first.row + 1) {
            line(&(row + 1).to_string(), &format!("| {content}"));
        }
        line("", &format!("|{}^", "_".repeat(last.column + 1)));
    }
    if let Some(name) = diagnostic.call_site {
        text.push_str(&format!(
            "{gutter} |\n{gutter} = note: this error originates in the attribute macro `{name}` \
             (in Nightly builds, run with -Z macro-backtrace for more info)\n"
        ));
    }
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Row and column of a byte of the source; both counts begin with 0.
struct Position<'a> {
    row: usize,
    column: usize,
    line: &'a str,
}

impl<'a> Position<'a> {
    fn of(source: &'a str, byte: usize) -> Self {
        assert!(source.is_ascii(), "columns are counted in bytes");
        let row = source[..byte].matches('\n').count();
        let column = byte - source[..byte].rfind('\n').map_or(0, |newline| newline + 1);
        Self { row, column, line: source.lines().nth(row).expect("the line of a token") }
    }

    fn number(&self) -> String {
        (self.row + 1).to_string()
    }
}

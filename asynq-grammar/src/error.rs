//! The error of every text of this crate: the mistake and its place.

use std::{error::Error, fmt, ops::Range};

/// Most characters of a message.
const LONGEST: usize = 300;

/// The reason why a text is not valid: the mistake, and the bytes that are wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    message: String,
    range: Range<usize>,
}

impl TextError {
    pub(crate) fn new(message: impl Into<String>, range: Range<usize>) -> Self {
        // The message quotes a part of the text, which may be a megabyte long.
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push('…');
        }
        Self { message, range }
    }

    /// Returns the same mistake in a text in which this one begins at `start`.
    pub(crate) fn behind(mut self, start: usize) -> Self {
        self.range = start + self.range.start..start + self.range.end;
        self
    }

    /// Returns the range of the text that is wrong, the whole text if it is blank. The range never cuts a character, and it
    /// is empty where a part is missing.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the text with a line of carets under the part that is wrong, for display; control characters are shown
    /// as blanks.
    #[must_use]
    pub fn caret(&self, text: &str) -> String {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = text.get(..self.range.start).unwrap_or(text).chars().count();
        let marked = text.get(self.range.clone()).unwrap_or_default().chars().count().max(1);
        format!("{line}\n{}{}", " ".repeat(before), "^".repeat(marked))
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TextError {}

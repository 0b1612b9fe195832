//! The error of a cron text: the mistake and its place.

use std::{error::Error, fmt, ops::Range};

/// A field of a cron text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0–59; only where six fields are written.
    Second,
    /// 0–59.
    Minute,
    /// 0–23.
    Hour,
    /// 1–31.
    Day,
    /// 1–12.
    Month,
    /// 0–6, Sunday is 0.
    Weekday,
}

impl Field {
    /// The least and the greatest number of the field.
    pub(super) fn bounds(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::Day => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 6),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day of month",
            Self::Month => "month",
            Self::Weekday => "weekday",
        })
    }
}

/// Most characters of a message.
const LONGEST: usize = 300;

/// The reason why a cron text is not valid: the field, the bytes that are wrong and the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError {
    field: Option<Field>,
    message: String,
    range: Range<usize>,
}

impl CronError {
    pub(super) fn new(field: Option<Field>, message: impl Into<String>, range: Range<usize>) -> Self {
        // The message quotes a part of the text, which may be a megabyte long.
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push('…');
        }
        Self { field, message, range }
    }

    /// Returns the field that is wrong, if the mistake is in a single field.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        self.field
    }

    /// Returns the range of the text that is wrong. The range is empty only if the text is, and never cuts a character.
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

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CronError {}

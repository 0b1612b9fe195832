//! What is wrong with a cron text, and where.

use std::{error::Error, fmt, ops::Range};

/// One field of a cron text.
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
    /// Its least and greatest number.
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

/// Characters of a message at most.
const LONGEST: usize = 300;

/// A cron text that cannot be used: which field, which bytes, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError {
    field: Option<Field>,
    message: String,
    range: Range<usize>,
}

impl CronError {
    pub(super) fn new(field: Option<Field>, message: impl Into<String>, range: Range<usize>) -> Self {
        // It quotes what is wrong, which may be a megabyte.
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push('…');
        }
        Self { field, message, range }
    }

    /// The field that is wrong, where it is one.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        self.field
    }

    /// The bytes of the text that are wrong; never empty unless the text is, and never through a character.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The text with a line of carets under what is wrong, for people; control characters are shown as blanks.
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

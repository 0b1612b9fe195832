//! Texts from outside that end on a terminal.

use std::{
    error::Error,
    fmt::{self, Write},
};

use tracing::field::{Field, Visit};

use crate::job::with_causes;

/// Returns whether a terminal may do something else with the character than show it.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Direction marks, embeddings, overrides and isolates; line and paragraph separators.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Invisible: byte order mark, annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Passes the fields that `record` visits on to `line`, without their hostile characters. A field has no lines of its own, because names
/// of tasks come from the broker; the message of a program may have some.
pub fn harmless_fields(line: &mut dyn Visit, record: impl FnOnce(&mut dyn Visit)) {
    record(&mut Harmless(line));
}

/// tracing-subscriber makes only the message harmless.
struct Harmless<'v>(&'v mut dyn Visit);

impl Visit for Harmless<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.record_debug(field, &Cleaned { value, is_message: field.name() == "message" });
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record_debug(field, &format_args!("{}", with_causes(value)));
    }
}

/// A field without its hostile characters, which are replaced while it is written: each run of a job writes some fields.
struct Cleaned<'v> {
    value: &'v dyn fmt::Debug,
    is_message: bool,
}

impl fmt::Debug for Cleaned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(CleanWriter { out: f, is_message: self.is_message }, "{:?}", self.value)
    }
}

struct CleanWriter<'f, 'o> {
    out: &'f mut fmt::Formatter<'o>,
    is_message: bool,
}

impl Write for CleanWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_hostile(c)) {
            self.out.write_str(&rest[..at])?;
            self.out.write_char(match c {
                '\n' | '\t' if self.is_message => c,
                '\n' | '\r' | '\t' => ' ',
                _ => '\u{fffd}',
            })?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.out.write_str(rest)
    }
}

/// Returns JSON text with its hostile characters as `\u` escapes, also those that serde leaves as they are; programs read the same
/// text. Outside of strings JSON has only line breaks, tabs and spaces, so these characters stand in strings.
pub fn escaped(json: &str) -> String {
    let mut done = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hostile(c) && !matches!(c, '\n' | '\r' | '\t') {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                done.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            done.push(c);
        }
    }
    done
}

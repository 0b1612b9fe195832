//! Texts from outside that end on a terminal.

use std::{error::Error, fmt};

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
        let is_message = field.name() == "message";
        let harmless = |c| match c {
            '\n' | '\t' if is_message => c,
            '\n' | '\r' | '\t' => ' ',
            c if is_hostile(c) => '\u{fffd}',
            c => c,
        };
        let text: String = format!("{value:?}").chars().map(harmless).collect();
        self.0.record_debug(field, &format_args!("{text}"));
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

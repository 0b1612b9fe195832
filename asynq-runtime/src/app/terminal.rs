//! Texts from outside that end on a terminal.

/// Returns whether a terminal may do something else with the character than show it.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Direction marks, embeddings, overrides and isolates; line and paragraph separators.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Invisible: byte order mark, annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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

//! JSON for programs, which may end on a terminal all the same.

use serde::Serialize;

use super::text::is_hostile;
use crate::error::CliError;

/// Returns `value` as indented JSON with a line break at the end. Characters that a terminal could act on are written
/// as `\u` escapes, also those that serde leaves as they are; programs read the same text.
pub(crate) fn json(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::System { context: "the answer is not JSON".into(), source: error.into() })?;
    Ok(escaped(&text) + "\n")
}

/// Escapes hostile characters. Outside of strings JSON has only line breaks, tabs and spaces, so these characters stand in
/// strings.
fn escaped(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    for c in text.chars() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_and_does_nothing() {
        let hostile = "a\u{1b}[2J \u{9b}31m \u{202e} \u{e0041} \u{7f}\n";
        let text = json(&[hostile]).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !is_hostile(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [hostile]);
    }
}

//! JSON for programs, which may end on a terminal all the same.

use asynq_runtime::app::escaped;
use serde::Serialize;

use crate::error::CliError;

/// Returns `value` as indented JSON with a line break at the end. Characters that a terminal could act on are written
/// as `\u` escapes, also those that serde leaves as they are; programs read the same text.
pub(crate) fn json(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::System { context: "the answer is not JSON".into(), source: error.into() })?;
    Ok(escaped(&text) + "\n")
}

#[cfg(test)]
mod tests {
    use asynq_runtime::app::is_hostile;

    use super::*;

    #[test]
    fn the_text_is_the_same_and_does_nothing() {
        let hostile = "a\u{1b}[2J \u{9b}31m \u{202e} \u{e0041} \u{7f}\n";
        let text = json(&[hostile]).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !is_hostile(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [hostile]);
    }
}

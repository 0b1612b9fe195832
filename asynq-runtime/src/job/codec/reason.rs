//! The error of a JSON payload without the payload's values, because the text goes to logs and is kept with the task.

use serde_json::error::Category;

/// Returns the place and kind of the mistake. serde's own text quotes the value that it did not expect.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if error.classify() != Category::Data {
        // The syntax is wrong: the text is one of a fixed set.
        return text;
    }
    let (message, place) = parts(&text);
    format!("{}{place}", without_value(message))
}

/// Returns the error of JSON that was written by this program, whose places say nothing to a person: without its place, and, where the
/// reader stops at a value as if its syntax were wrong, with what may be wrong.
pub(in crate::job) fn without_place(error: serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    let (message, _) = parts(&text);
    let is_depth = message == "recursion limit exceeded";
    serde::de::Error::custom(match error.classify() {
        Category::Syntax if !is_depth => {
            "an array has more elements than its type, or an enum is neither a text nor an object with one variant"
        }
        _ => message,
    })
}

/// Returns the message of an error and its place, which may be empty.
fn parts(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(" at line ").unwrap_or(text.len()))
}

fn without_value(text: &str) -> String {
    // The names of missing or duplicate fields are the type's own.
    if ["missing field `", "duplicate field `", "invalid length "].iter().any(|start| text.starts_with(start)) {
        return text.to_owned();
    }
    for (start, kinds) in
        [("invalid type: ", KINDS), ("invalid value: ", KINDS), ("unknown variant `", &[]), ("unknown field `", &[])]
    {
        let Some(found) = text.strip_prefix(start) else { continue };
        let kind = kinds.iter().find(|kind| found.starts_with(**kind)).copied().unwrap_or("another one");
        // The value ends before the last `, expected `, behind which stand the type's own words.
        let expected = found.rfind(", expected ").map(|at| &found[at..]).unwrap_or_default();
        let what = start.trim_end_matches([' ', '`', ':']);
        return match kinds {
            [] => format!("{what}{expected}"),
            _ => format!("{what}: {kind}{expected}"),
        };
    }
    // Any other message comes from the type's own `Deserialize` and may quote the value.
    "a value that its type does not take".to_owned()
}

/// serde's words for kinds of values, before the value itself.
const KINDS: &[&str] = &[
    "boolean",
    "integer",
    "floating point",
    "character",
    "string",
    "byte array",
    "unit value",
    "null",
    "Option value",
    "newtype struct",
    "sequence",
    "map",
    "enum",
    "unit variant",
    "newtype variant",
    "tuple variant",
    "struct variant",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct All {
        n: u8,
        choice: Option<Choice>,
        at: Option<uuid::Uuid>,
        pair: Option<(u8, u8)>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    enum Choice {
        One,
    }

    #[test]
    fn an_error_has_the_place_and_the_expectation_but_not_the_value() {
        for (json, expected) in [
            (r#"{"n":"canary"}"#, "invalid type: string, expected u8 at line 1 column 13"),
            (r#"{"n":"canary, expected u8"}"#, "invalid type: string, expected u8 at line 1 column 26"),
            (r#"{"n":"canary at line 7"}"#, "invalid type: string, expected u8 at line 1 column 23"),
            (r#"{"n":424242}"#, "invalid value: integer, expected u8 at line 1 column 11"),
            (r#"{"n":4242.5}"#, "invalid type: floating point, expected u8 at line 1 column 11"),
            (r#"{"n":["canary"]}"#, "invalid type: sequence, expected u8 at line 1 column 5"),
            (r#"{"n":null}"#, "invalid type: null, expected u8 at line 1 column 9"),
            (r#"{"n":1,"choice":"canary"}"#, "unknown variant, expected `One` at line 1 column 24"),
            (
                r#"{"n":1,"canary":"x"}"#,
                "unknown field, expected one of `n`, `choice`, `at`, `pair` at line 1 column 15",
            ),
            (r#"{"n":1,"at":"canary"}"#, "a value that its type does not take at line 1 column 20"),
            (r#"{"n":1,"pair":[1]}"#, "invalid length 1, expected a tuple of size 2 at line 1 column 17"),
            (r#"{"choice":"One"}"#, "missing field `n` at line 1 column 16"),
            (r#"{"n":1,"n":2}"#, "duplicate field `n` at line 1 column 10"),
            (r#"{"n":"#, "EOF while parsing a value at line 1 column 5"),
            (r#"{"n":1} canary"#, "trailing characters at line 1 column 9"),
        ] {
            let error = serde_json::from_str::<All>(json).expect_err(json);
            assert_eq!(reason(&error), expected, "{json}");
        }
    }
}

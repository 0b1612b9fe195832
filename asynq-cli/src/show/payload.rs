//! Encoded arguments and results: JSON as JSON, text as text, and binary data as base64 or a placeholder.

use asynq_runtime::{
    Client,
    app::{escaped, is_hostile},
    broker::TaskBrief,
    inspector::ArgumentReader,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::text::{clean, cut};

/// The text that Go's tool writes in place of binary data.
const NON_PRINTABLE: &str = "non-printable bytes";
/// The text in place of a whole message, or of a payload that its shape does not read.
const HIDDEN: &str = "hidden, as any of its bytes may be secret";

/// Bytes of a task for a program: `{"bytes": 14, "encoding": "json", "cut": false, "data": {"to":"a@b.c"}}`.
///
/// `encoding` is the form of `data`: `arguments` by their names where the broker keeps the shape of a payload of the
/// default codec, the JSON value itself, a string of the `text`, or a string of `base64`. Where there are more bytes
/// than were asked for, `cut` is true and `data` their beginning, as text or base64; of `arguments` it is the beginning
/// of their JSON as text. Of `arguments` that their shape does not read `cut` is true and `data` null, because any of
/// their bytes may be secret.
#[derive(Debug, Serialize)]
pub(crate) struct Payload<'a> {
    bytes: usize,
    encoding: &'static str,
    cut: bool,
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data<'a> {
    /// Arguments, or their beginning as a text.
    Arguments(Value),
    Json(&'a RawValue),
    Text(&'a str),
    Base64(String),
}

impl<'a> Payload<'a> {
    /// Returns a payload of this type: its arguments, where they are known, else its bytes; at most `most` of them. Without a
    /// `reader` the bytes are returned as they are.
    pub(crate) fn of_type(r#type: &str, bytes: &'a [u8], most: usize, reader: Option<&ArgumentReader>) -> Self {
        let (cut, arguments) = match reader.and_then(|reader| reader.read(r#type, None, bytes)) {
            None => return Self::of(bytes, most),
            Some(Ok(arguments)) if bytes.len() <= most => (false, arguments),
            Some(Ok(arguments)) => {
                let text = arguments.to_string().into_bytes();
                (true, text_of(&text[..text.len().min(most)], true).unwrap_or_default().into())
            }
            Some(Err(_)) => (true, Value::Null),
        };
        Self { bytes: bytes.len(), encoding: "arguments", cut, data: Data::Arguments(arguments) }
    }

    /// Returns at most `most` of these bytes.
    pub(crate) fn of(bytes: &'a [u8], most: usize) -> Self {
        let cut = bytes.len() > most;
        let head = &bytes[..bytes.len().min(most)];
        let (encoding, data) = match text_of(head, cut) {
            Some(text) if !cut => match json_of(text) {
                Some(json) => ("json", Data::Json(json)),
                None => ("text", Data::Text(text)),
            },
            Some(text) => ("text", Data::Text(text)),
            None => ("base64", Data::Base64(STANDARD.encode(head))),
        };
        Self { bytes: bytes.len(), encoding, cut, data }
    }
}

/// Returns the text as a JSON value that a strict reader takes as a part of the answer. For one that is too deep, a number that is too
/// large or half a surrogate pair, programs refuse the whole answer, with all other tasks.
fn json_of(text: &str) -> Option<&RawValue> {
    let json = serde_json::from_str(text).ok()?;
    // In the answer the value is in a list and two objects.
    serde_json::from_str::<Value>(&format!("[[[{text}]]]")).is_ok().then_some(json)
}

/// Returns the bytes as text, if they are valid; of a text that was cut inside a character, all whole characters.
fn text_of(bytes: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if cut && error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Returns a payload as people read it: the arguments as JSON where their shape is known, else its bytes. Bytes that may be secret are
/// returned only without a `reader`.
pub(crate) fn for_people(r#type: &str, bytes: &Bytes, reader: Option<&ArgumentReader>) -> Bytes {
    match reader.and_then(|reader| reader.read(r#type, None, bytes)) {
        Some(Ok(arguments)) => escaped(&arguments.to_string()).into(),
        Some(Err(_)) => HIDDEN.into(),
        None => bytes.clone(),
    }
}

/// Returns the payload of a [`TaskBrief`] as people read it. Of a payload that is cut the shape reads nothing.
pub(crate) fn for_people_in_brief(r#type: &str, bytes: &Bytes, reader: Option<&ArgumentReader>) -> Bytes {
    match reader.and_then(|reader| reader.read(r#type, None, bytes)) {
        Some(Err(_)) if bytes.len() == TaskBrief::BYTES => "long arguments: `asynq task inspect` shows them".into(),
        _ => for_people(r#type, bytes, reader),
    }
}

/// Returns bytes of a task for a table: one line of at most `most` characters. As in Go's tool, bytes that are not text
/// are not shown.
pub(crate) fn brief(bytes: &[u8], most: usize) -> String {
    // A character has at most 4 bytes: all bytes behind these are cut anyway.
    let end = bytes.len().min(most.saturating_mul(4).saturating_add(4));
    match printable(&bytes[..end], end < bytes.len()) {
        Some("") => "-".to_owned(),
        Some(text) => cut(&clean(text), most),
        None => NON_PRINTABLE.to_owned(),
    }
}

/// Returns bytes of a task for a text of their own: at most `most` of them, with the number of those that are left out and the flags
/// that show them; these stand behind `command`, which is empty where the text is its answer.
pub(crate) fn full(bytes: &[u8], most: usize, command: &str) -> String {
    let is_cut = bytes.len() > most;
    let head = &bytes[..bytes.len().min(most)];
    let Some(text) = printable(head, is_cut) else {
        let Payload { bytes, encoding, .. } = Payload::of(bytes, Client::DEFAULT_PAYLOAD_LIMIT);
        return format!("{NON_PRINTABLE} ({bytes} bytes; {command}--json --raw shows them as {encoding})");
    };
    match bytes.len() - text.len() {
        0 if text.is_empty() => "-".to_owned(),
        0 => clean(text),
        more => format!("{}… and {more} more bytes ({command}--max-payload)", clean(text)),
    }
}

fn printable(bytes: &[u8], cut: bool) -> Option<&str> {
    text_of(bytes, cut).filter(|text| !text.chars().any(|c| is_hostile(c) && !matches!(c, '\n' | '\r' | '\t')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_gets_json_text_or_base64() {
        for (bytes, most, expected) in [
            (
                &b"{\"n\":12345678901234567890.5}"[..],
                99,
                r#"{"bytes":28,"encoding":"json","cut":false,"data":{"n":12345678901234567890.5}}"#,
            ),
            (b"{oops", 99, r#"{"bytes":5,"encoding":"text","cut":false,"data":"{oops"}"#),
            (b"", 99, r#"{"bytes":0,"encoding":"text","cut":false,"data":""}"#),
            (b"[1,2,3]", 3, r#"{"bytes":7,"encoding":"text","cut":true,"data":"[1,"}"#),
            ("aé".as_bytes(), 2, r#"{"bytes":3,"encoding":"text","cut":true,"data":"a"}"#),
            (b"\xff\x00\x01", 99, r#"{"bytes":3,"encoding":"base64","cut":false,"data":"/wAB"}"#),
            (b"\xff\x00\x01", 2, r#"{"bytes":3,"encoding":"base64","cut":true,"data":"/wA="}"#),
        ] {
            assert_eq!(serde_json::to_string(&Payload::of(bytes, most)).unwrap(), expected);
        }
    }

    #[test]
    fn json_that_programs_refuse_hides_no_other_task() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for (text, encoding) in [
            (nested(124), "json"),
            (nested(125), "text"),
            (nested(100_000), "text"),
            (r#""\ud83d\ude00""#.to_owned(), "json"),
            (r#""\ud800""#.to_owned(), "text"),
            ("1e308".to_owned(), "json"),
            ("1e309".to_owned(), "text"),
            ("1],[2".to_owned(), "text"),
        ] {
            let payload = Payload::of(text.as_bytes(), usize::MAX);
            assert_eq!(payload.encoding, encoding, "{text}");
            let answer = serde_json::to_string(&[json!({ "payload": payload })]).unwrap();
            serde_json::from_str::<serde_json::Value>(&answer).unwrap();
        }
    }

    #[test]
    fn people_get_one_line_or_a_note_that_there_is_none() {
        for (bytes, expected) in [
            (&b"{\"to\":\n \"a\"}"[..], "{\"to\":  \"a\"}"),
            (b"", "-"),
            (b"\x01abc", NON_PRINTABLE),
            (b"a\x1b[31m", NON_PRINTABLE),
            (b"\xff\xfe", NON_PRINTABLE),
            (b"0123456789abcdef", "0123456789a…"),
        ] {
            assert_eq!(brief(bytes, 12), expected);
        }
        assert_eq!(brief("é".repeat(1_000_000).as_bytes(), 3), "éé…");
    }

    #[test]
    fn omitted_bytes_are_counted() {
        assert_eq!(full(b"abc", 3, ""), "abc");
        assert_eq!(full(b"abcdef", 3, ""), "abc… and 3 more bytes (--max-payload)");
        assert_eq!(full("ab€".as_bytes(), 3, ""), "ab… and 3 more bytes (--max-payload)");
        for (bytes, encoding) in [(&b"\xff\x00\x01"[..], "base64"), (b"a\x1b[31m", "text"), (b"\"\x7f\"", "json")] {
            let shown = format!("non-printable bytes ({} bytes; --json --raw shows them as {encoding})", bytes.len());
            assert_eq!(full(bytes, 99, ""), shown);
        }
        let long = format!("\"\x7f{}\"", "a".repeat(99));
        assert!(full(long.as_bytes(), 9, "").ends_with("as json)"), "the flags cut later");
        assert_eq!(full(&[0; 9], 3, ""), "non-printable bytes (9 bytes; --json --raw shows them as text)");
        assert_eq!(full(b"abcdef", 3, "asynq x "), "abc… and 3 more bytes (asynq x --max-payload)");
        assert!(full(&[0; 9], 3, "asynq x ").contains("; asynq x --json --raw shows"));
        assert_eq!(json!(Payload::of(&[b'a'; 9], 3))["bytes"], 9);
    }
}

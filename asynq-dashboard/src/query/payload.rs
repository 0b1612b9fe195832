//! Bytes of a task for people: arguments that the job itself explains, JSON, text, or a hex dump; never more than 64 KiB.

use std::fmt::Write as _;

use asynq_runtime::{JobDescriptor, Registry, broker::TaskBrief, inspector::ArgumentReader};
use serde::Serialize;

use crate::{
    query::payload::json::{depth_of, indented},
    state::AppState,
};

pub(crate) mod json;

/// Most bytes of text that are shown.
pub(crate) const MOST_TEXT: usize = 64 * 1024;
/// Most bytes that are shown as hexadecimal digits.
const MOST_HEX: usize = 4 * 1024;
/// Deepest JSON that is laid out; deeper ones are shown as they are.
pub(crate) const DEEPEST: usize = 64;

/// The text in place of arguments that neither the job's type nor the kept shape reads.
const UNREADABLE: &str = "cannot be read with this program's type, nor with the kept shape";

/// Bytes made readable, in JSON with these names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Rendered {
    /// The form that the bytes were taken for.
    pub(crate) form: Form,
    /// The text. It is foreign: escape it.
    pub(crate) text: String,
    /// How many bytes there are.
    pub(crate) size: usize,
    /// Whether the text is only the beginning.
    pub(crate) is_cut: bool,
}

/// The forms of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// No bytes.
    Empty,
    /// Arguments of a job that this program knows, or whose shape the broker keeps, as JSON; a secret one is `***`.
    Arguments,
    /// JSON, laid out.
    Json,
    /// UTF-8.
    Text,
    /// Anything else, as a hex dump.
    Binary,
    /// Arguments of a job that this program knows, or whose shape the broker keeps, which neither reads: they are of
    /// another shape, damaged or too long, or the shape was not looked up. Any of them may be secret, so none is shown.
    Unreadable,
}

impl Rendered {
    /// Returns the text that a search looks at: only text that is part of the bytes, which a hex dump is not.
    pub(crate) fn searchable(&self) -> &str {
        if matches!(self.form, Form::Unreadable | Form::Binary) { "" } else { &self.text }
    }

    /// Returns whether the text is JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.form, Form::Arguments | Form::Json)
    }
}

/// Reads payloads by the jobs of this program and by the shapes that the broker keeps.
#[derive(Debug, Default)]
pub(crate) struct Reader<'a> {
    pub(crate) registry: Option<&'a Registry>,
    pub(crate) shapes: ArgumentReader,
}

impl<'a> Reader<'a> {
    /// Creates a reader of these payloads, each with the type of its task.
    pub(crate) async fn new<'p>(app: &'a AppState, payloads: impl IntoIterator<Item = (&'p str, &'p [u8])>) -> Self {
        Self { registry: app.registry.as_ref(), shapes: app.inspector.argument_reader(payloads).await }
    }

    /// Creates a reader of the payloads of these tasks.
    pub(crate) async fn of_tasks(app: &'a AppState, tasks: &[TaskBrief]) -> Self {
        Self::new(app, tasks.iter().map(|task| (&*task.r#type, &task.payload[..]))).await
    }

    fn job(&self, r#type: &str) -> Option<&JobDescriptor> {
        self.registry?.get(r#type)
    }

    /// Returns the payload of a task of this type.
    pub(crate) fn payload(&self, r#type: &str, bytes: &[u8]) -> Rendered {
        let job = self.job(r#type);
        let known = job.and_then(|job| job.show(bytes).ok());
        let kept = if known.is_none() { self.shapes.read(r#type, job, bytes) } else { None };
        let may_hide = job.is_some() || kept.is_some();
        match known.or_else(|| kept?.ok()) {
            Some(arguments) => cut(Form::Arguments, indented(&arguments.to_string(), MOST_TEXT), bytes.len()),
            None if may_hide && !bytes.is_empty() => {
                Rendered { form: Form::Unreadable, text: UNREADABLE.to_owned(), size: bytes.len(), is_cut: false }
            }
            None => any(bytes),
        }
    }

    /// Returns the payload of a task of a listing, which may be only the beginning.
    pub(crate) fn of_listed(&self, task: &TaskBrief) -> Rendered {
        if !task.has_cut_payload() {
            return self.payload(&task.r#type, &task.payload);
        }
        let job = self.job(&task.r#type);
        // Cut arguments cannot be read, and any of their bytes may be secret.
        if job.is_some() || self.shapes.read(&task.r#type, job, &task.payload).is_some() {
            return Rendered { form: Form::Arguments, text: String::new(), size: task.payload_size, is_cut: true };
        }
        beginning(&task.payload, task.payload_size)
    }
}

/// Returns the payload of one task of this type.
pub(crate) async fn of_one(app: &AppState, r#type: &str, bytes: &[u8]) -> Rendered {
    Reader::new(app, [(r#type, bytes)]).await.payload(r#type, bytes)
}

/// Returns the result of a task of a listing, which may be only the beginning.
pub(crate) fn result_of_listed(task: &TaskBrief) -> Option<Rendered> {
    let result = task.result.as_ref()?;
    Some(if task.has_cut_result() { beginning(result, task.result_size) } else { any(result) })
}

/// Returns the first bytes of a value of `size` bytes.
fn beginning(bytes: &[u8], size: usize) -> Rendered {
    // The cut may go through a character.
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    };
    Rendered { size, is_cut: true, ..any(whole) }
}

/// Returns bytes of unknown form, such as a result.
pub(crate) fn any(bytes: &[u8]) -> Rendered {
    if bytes.is_empty() {
        return Rendered { form: Form::Empty, text: String::new(), size: 0, is_cut: false };
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return hex(bytes) };
    let is_json = depth_of(bytes) <= DEEPEST && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_json {
        return cut(Form::Json, indented(text, MOST_TEXT), bytes.len());
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return hex(bytes);
    }
    cut(Form::Text, text.to_owned(), bytes.len())
}

/// Returns an error's text, as long as may be shown.
pub(crate) fn error(text: &str) -> Rendered {
    cut(Form::Text, text.to_owned(), text.len())
}

fn cut(form: Form, mut text: String, size: usize) -> Rendered {
    let is_cut = text.len() > MOST_TEXT;
    if is_cut {
        text.truncate((0..=MOST_TEXT).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
    }
    Rendered { form, text, size, is_cut }
}

/// Returns a hex dump, sixteen bytes a line: offset, digits, and the bytes that are ASCII.
fn hex(bytes: &[u8]) -> Rendered {
    let mut text = String::new();
    for (line, chunk) in bytes[..bytes.len().min(MOST_HEX)].chunks(16).enumerate() {
        let digits: String = chunk.iter().map(|byte| format!("{byte:02x} ")).collect();
        let ascii: String =
            chunk.iter().map(|&b| if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '.' }).collect();
        let _ = writeln!(text, "{:08x}  {digits:<48} {ascii}", line * 16);
    }
    Rendered { form: Form::Binary, text, size: bytes.len(), is_cut: bytes.len() > MOST_HEX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_of_a_message_that_cannot_be_read_is_shown() {
        let rendered = Reader::default().payload("undecodable", b"\n\x04mail\x12\x0epin 1234");
        assert_eq!((rendered.form, rendered.size), (Form::Unreadable, 16));
        assert!(!rendered.text.contains("1234"), "{}", rendered.text);
    }

    #[test]
    fn the_format_of_bytes_is_recognised() {
        for (bytes, form, text) in [
            (&b""[..], Form::Empty, ""),
            (b"{\"b\":1,\"a\":[]}", Form::Json, "{\n  \"b\": 1,\n  \"a\": []\n}"),
            (b"hello\nworld", Form::Text, "hello\nworld"),
            (b"\x1b[31mred", Form::Binary, "00000000  1b 5b 33 31 6d 72 65 64                          .[31mred\n"),
            (b"\xff\x00", Form::Binary, "00000000  ff 00                                            ..\n"),
        ] {
            let rendered = any(bytes);
            assert_eq!(
                (rendered.form, rendered.text.as_str(), rendered.size, rendered.is_cut),
                (form, text, bytes.len(), false)
            );
        }
    }

    #[test]
    fn bombs_are_cut_and_cost_no_stack() {
        let deep = "[".repeat(1 << 20);
        let rendered = any(deep.as_bytes());
        assert_eq!((rendered.form, rendered.text.len(), rendered.is_cut), (Form::Text, MOST_TEXT, true));
        let long = "ä".repeat(MOST_TEXT);
        let rendered = any(long.as_bytes());
        assert!(rendered.is_cut && rendered.text.len() <= MOST_TEXT && rendered.text.ends_with('ä'));
        assert_eq!(any(&vec![0xff; 1 << 20]).text.lines().count(), MOST_HEX / 16);
    }
}

//! Reads the golden files for the comparison.

use std::{collections::BTreeMap, path::PathBuf};

use asynq_runtime::task::{Header, TaskMessage};
use asynq_tests::{Dumped, Value};
use bytes::Bytes;
use serde_json::Value as Json;

/// A scenario of the real Go library.
pub(crate) struct Scenario {
    /// Whether Go's clock was pinned.
    pub(crate) pinned: bool,
    pub(crate) calls: Vec<Json>,
    /// The data of Redis at the end.
    pub(crate) end: BTreeMap<String, Dumped>,
    file: Json,
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("wire/vectors")
}

/// The JSON of a golden file.
pub(crate) fn file(name: &str) -> Json {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

impl Scenario {
    pub(crate) fn load(name: &str) -> Self {
        let file = file(name);
        Self {
            pinned: file["clock_pinned"].as_bool().unwrap(),
            calls: file["calls"].as_array().unwrap().clone(),
            end: dump(&file["redis"]),
            file,
        }
    }

    /// The data of Redis between two calls, by the scenario's name of that moment.
    pub(crate) fn between(&self, step: &str) -> BTreeMap<String, Dumped> {
        dump(&self.file["intermediate_dumps"][step])
    }

    /// The moments between calls.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.file["intermediate_dumps"].as_object().map(|dumps| dumps.keys().cloned().collect()).unwrap_or_default()
    }

    /// The message of a task in Go's last dump, or in a dump of an earlier moment.
    pub(crate) fn message(&self, id: &str) -> Option<TaskMessage> {
        let earlier = self.steps().into_iter().map(|step| self.between(&step));
        std::iter::once(self.end.clone()).chain(earlier).find_map(|dump| message_in(&dump, id))
    }

    /// The result of a task in Go's last dump.
    pub(crate) fn result(&self, id: &str) -> Option<Bytes> {
        self.end
            .iter()
            .find_map(|(key, dumped)| match &dumped.value {
                Value::Hash(fields) if key.ends_with(&format!("}}:t:{id}")) => fields.get(&b"result"[..]).cloned(),
                _ => None,
            })
            .map(Bytes::from)
    }
}

fn message_in(dump: &BTreeMap<String, Dumped>, id: &str) -> Option<TaskMessage> {
    dump.iter().find_map(|(key, dumped)| match &dumped.value {
        Value::Hash(fields) if key.ends_with(&format!("}}:t:{id}")) => {
            Some(TaskMessage::decode(fields[&b"msg"[..]].clone().into()).unwrap())
        }
        _ => None,
    })
}

fn dump(entries: &Json) -> BTreeMap<String, Dumped> {
    let entry = |entry: &Json| {
        let kind = entry["type"].as_str().unwrap().to_owned();
        let value = &entry["value"];
        let list = || value.as_array().unwrap().iter().map(raw).collect();
        let value = match kind.as_str() {
            "string" => Value::String(raw(value)),
            "list" => Value::List(list()),
            "set" => Value::Set(list()),
            "zset" => {
                let member = |entry: &Json| (raw(&entry["member"]), entry["score"].as_str().unwrap().to_owned());
                Value::Zset(value.as_array().unwrap().iter().map(member).collect())
            }
            _ => {
                let fields = value.as_object().unwrap().iter();
                Value::Hash(fields.map(|(field, value)| (field.clone().into_bytes(), raw(value))).collect())
            }
        };
        let seconds = entry["ttl_seconds"].as_i64().unwrap();
        let pttl = if seconds < 0 { seconds } else { seconds * 1000 };
        let expire_at = entry["expire_at_unix"].as_i64().unwrap();
        (entry["key"].as_str().unwrap().to_owned(), Dumped { kind, pttl, expire_at, value })
    };
    entries.as_array().unwrap().iter().map(entry).collect()
}

/// The bytes of a text, or of base64.
pub(crate) fn raw(value: &Json) -> Vec<u8> {
    match value {
        Json::String(text) => text.clone().into_bytes(),
        Json::Object(bytes) => base64(bytes["b64"].as_str().unwrap()),
        Json::Null => Vec::new(),
        other => panic!("neither text nor bytes: {other}"),
    }
}

/// Decodes standard base64.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for c in text.bytes().filter(|&c| c != b'=') {
        bits = bits << 6 | u32::try_from(ALPHABET.iter().position(|&a| a == c).expect("base64")).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}

/// A message from the fields that a golden file spells out.
pub(crate) fn message(fields: &Json) -> TaskMessage {
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| fields[name].as_i64().unwrap_or_default();
    let headers = fields["headers"].as_object().into_iter().flatten();
    TaskMessage {
        r#type: text("type"),
        payload: Bytes::from(base64(&text("payload_b64"))),
        id: text("id"),
        queue: text("queue"),
        retry: number("retry") as i32, // as Go's own conversion wraps
        retried: number("retried") as i32,
        error_msg: text("error_msg"),
        timeout: number("timeout"),
        deadline: number("deadline"),
        unique_key: text("unique_key"),
        last_failed_at: number("last_failed_at"),
        retention: number("retention"),
        completed_at: number("completed_at"),
        group_key: text("group_key"),
        headers: headers.map(|(key, value)| Header::new(key, value.as_str().unwrap())).collect(),
    }
}

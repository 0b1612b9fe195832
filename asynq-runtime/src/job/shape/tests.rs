use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize as _;

use super::*;
use crate::job::{Secret, trace};

#[derive(Deserialize)]
#[allow(dead_code)]
struct Order {
    #[serde(alias = "zip", alias = "a_code")]
    code: u32,
    lines: Vec<Line>,
    note: Option<Secret<String>>,
    parent: Option<Box<Order>>,
    state: State,
    tags: BTreeMap<String, (u8, f64)>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Line(u32, String);

#[derive(Deserialize)]
#[allow(dead_code)]
enum State {
    New,
    Paid {
        at: i64,
        #[serde(alias = "with")]
        by: String,
    },
    Sent(String),
}

fn document() -> ShapeDocument {
    trace::trace::<Order>(false).document
}

#[test]
fn the_document_of_a_type_has_its_names_and_says_which_are_secret() {
    // What is kept for a year must not change.
    let expected = r#"{"v":1,"root":{"type":0},"types":[
        {"struct":[{"name":"code","is":{"is":"u32"}},{"name":"lines","is":{"seq":{"type":1}}},
            {"name":"note","is":{"option":{"secret":{"is":"str"}}}},{"name":"parent","is":{"option":{"type":0}}},
            {"name":"state","is":{"type":2}},
            {"name":"tags","is":{"map":[{"is":"str"},{"tuple":[{"is":"u8"},{"is":"f64"}]}]}}]},
        {"tuple":[{"is":"u32"},{"is":"str"}]},
        {"enum":[{"name":"New","form":"unit"},
            {"name":"Paid","form":{"struct":[{"name":"at","is":{"is":"i64"}},{"name":"by","is":{"is":"str"}}]}},
            {"name":"Sent","form":{"newtype":{"is":"str"}}}]}]}"#;
    let expected: String = expected.split('\n').map(str::trim).collect();
    assert_eq!(serde_json::to_string(&document()).unwrap(), expected);
}

#[test]
fn a_document_is_read_back_as_it_was() {
    let document = document().of_argument(Some("order"));
    assert_eq!(ShapeDocument::from_bytes(&document.to_bytes().unwrap()), Ok(document));
}

#[test]
fn a_document_that_is_too_long_is_neither_kept_nor_read() {
    let fields = (0..5000).map(|i| Field { name: format!("field_{i}"), node: Node::Is(Leaf::U8) }).collect();
    let document = ShapeDocument::new(Node::Type(0), vec![Form::Struct(fields)]);
    assert_eq!(document.to_bytes(), None);
    let bytes = serde_json::to_vec(&document).unwrap();
    assert!(ShapeDocument::from_bytes(&bytes).unwrap_err().contains("longer than"));
}

#[test]
fn shapes_that_ask_for_endless_values_end() {
    let deep = ShapeDocument::new(Node::Type(0), vec![Form::Newtype(Node::Type(0))]);
    assert!(decode(&deep, b"").unwrap_err().contains("too deeply"));
    let units = ShapeDocument::new(Node::Seq(Box::new(Node::Tuple(vec![]))), vec![]);
    assert_eq!(decode(&units, &[3]), Ok(Value::Seq(vec![Value::Seq(vec![]); 3])));
    let endless = [0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(decode(&units, &endless).unwrap_err().contains("more parts"));
    let array = ShapeDocument::new(Node::Array(Box::new(Node::Tuple(vec![])), usize::MAX), vec![]);
    assert!(decode(&array, b"").is_err());
}

proptest! {
    /// Payloads are data from outside.
    #[test]
    fn no_bytes_make_reading_by_a_shape_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&document(), &payload);
    }

    /// So are documents.
    #[test]
    fn no_document_makes_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut changed = document().to_bytes().unwrap();
        let at = at.index(changed.len());
        changed[at] = byte;
        for bytes in [&bytes, &changed] {
            if let Ok(document) = ShapeDocument::from_bytes(bytes)
                && let Ok(value) = decode(&document, b"\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00")
            {
                let _ = String::deserialize(FromValue(&value));
            }
        }
    }
}

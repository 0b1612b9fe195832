use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize as _;

use super::*;
use crate::job::{Secret, shape::of_type};

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
    of_type::shape_of::<Order>(false).document
}

#[test]
fn the_document_of_a_type_has_its_names_and_their_aliases_and_says_which_are_secret() {
    // Documents are kept for a year, so their form must not change.
    let expected = r#"{"v":1,"root":{"type":0},"types":[
        {"struct":[{"name":"code","aliases":["a_code","zip"],"is":{"is":"u32"}},{"name":"lines","is":{"seq":{"type":1}}},
            {"name":"note","is":{"option":{"secret":{"is":"str"}}}},{"name":"parent","is":{"option":{"type":0}}},
            {"name":"state","is":{"type":2}},
            {"name":"tags","is":{"map":[{"is":"str"},{"tuple":[{"is":"u8"},{"is":"f64"}]}]}}]},
        {"tuple":[{"is":"u32"},{"is":"str"}]},
        {"enum":[{"name":"New","form":"unit"},
            {"name":"Paid","form":{"struct":[{"name":"at","is":{"is":"i64"}},{"name":"by","aliases":["with"],"is":{"is":"str"}}]}},
            {"name":"Sent","form":{"newtype":{"is":"str"}}}]}]}"#;
    let expected: String = expected.split('\n').map(str::trim).collect();
    assert_eq!(serde_json::to_string(&document()).unwrap(), expected);
}

#[test]
fn a_document_is_read_back_as_it_was() {
    let document = document().of_argument(Some("order"), &["purchase"]);
    assert_eq!(ShapeDocument::from_bytes(&document.to_bytes().unwrap()), Ok(document));
}

#[test]
fn a_document_that_is_too_long_is_neither_stored_nor_read() {
    let fields = (0..5000)
        .map(|i| Field { name: format!("field_{i}"), aliases: Vec::new(), node: Node::Is(Leaf::U8) })
        .collect();
    let document = ShapeDocument::new(Node::Type(0), vec![Form::Struct(fields)]);
    assert_eq!(document.to_bytes(), None);
    let bytes = serde_json::to_vec(&document).unwrap();
    assert!(ShapeDocument::from_bytes(&bytes).unwrap_err().contains("longer than"));
}

#[test]
fn shapes_that_ask_for_endless_values_end() {
    let deep = ShapeDocument::new(Node::Type(0), vec![Form::Newtype(Node::Type(0))]);
    assert!(decode(&deep, b"").unwrap_err().contains("deeper than 128 levels"));
    // A mark is not a level, and a document may have 128 of them in each level.
    let marks = (0..120).fold(Node::Type(0), |inner, _| Node::Secret(Box::new(inner)));
    let marked = ShapeDocument::new(Node::Type(0), vec![Form::Newtype(marks)]);
    assert!(decode(&marked, &[0; 4000]).unwrap_err().contains("deeper than 128 levels"));
    let units = ShapeDocument::new(Node::Seq(Box::new(Node::Tuple(vec![]))), vec![]);
    assert_eq!(decode(&units, &[3]), Ok(Value::Seq(vec![Value::Seq(vec![]); 3])));
    let endless = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(decode(&units, &endless).unwrap_err().contains("more parts"));
    let array = ShapeDocument::new(Node::Array(Box::new(Node::Tuple(vec![])), usize::MAX), vec![]);
    assert!(decode(&array, b"").is_err());
    let many = vec![serde_json::json!([]); 20_000];
    assert!(encode(&units, &many.into()).unwrap_err().contains("more parts"), "no worker would read them");
}

fn sample() -> serde_json::Value {
    serde_json::json!({
        "code": 7, "lines": [[300, "a"], [2, "b"]], "note": "pin", "parent": null,
        "state": { "Paid": { "at": -5, "by": "ann" } }, "tags": { "x": [255, 1.5] },
    })
}

#[test]
fn a_value_written_by_a_shape_is_read_by_the_type_and_displayed_without_its_secrets() {
    let document = document();
    let bytes = encode(&document, &sample()).unwrap();
    let order: Order = postcard::from_bytes(&bytes).unwrap();
    assert_eq!((order.code, order.lines[0].0, order.note.unwrap().expose().as_str()), (7, 300, "pin"));
    assert!(matches!(order.state, State::Paid { at: -5, ref by } if by == "ann"));
    let shown = decode_for_people(&document, &bytes, &[]).unwrap().to_json().unwrap();
    let mut expected = sample();
    expected["note"] = "***".into();
    assert_eq!(shown, expected);
    let hidden = decode_for_people(&document, &bytes, &["lines"]).unwrap().to_json().unwrap();
    assert_eq!(hidden["lines"], "***", "what is secret today is hidden in an old payload");
    assert_eq!(document.secret_names(), ["note"]);
}

#[test]
fn a_value_that_does_not_fit_is_refused_with_its_place_and_what_to_write() {
    let document = document();
    for (pointer, value, expected) in [
        ("/code", serde_json::json!(-1), "`code`: expected an integer from 0 to 4294967295, found a number"),
        ("/code", serde_json::json!(1.5), "`code`: expected an integer from 0 to 4294967295, found a number"),
        ("/lines/1/0", serde_json::json!("2"), "`lines[1][0]`: expected an integer from 0 to 4294967295, found a text"),
        ("/lines/1", serde_json::json!([1]), "`lines[1]`: expected an array of 2, found one of 1"),
        ("/note", serde_json::json!("***"), "`note`: a secret is shown as ***: write it anew, or it would become ***"),
        ("/state", serde_json::json!("Lost"), "`state`: there is no variant `Lost`; there are New, Paid, Sent"),
        ("/state/Paid", serde_json::json!({ "at": 1 }), "`state.Paid`: `by` is missing"),
        ("/tags/x/0", serde_json::json!(256), "`tags.x[0]`: expected an integer from 0 to 255, found a number"),
        ("/parent", serde_json::json!({ "kode": 1 }), "`parent`: there is no `kode`; there are code, lines, note"),
        ("", serde_json::json!([]), "the arguments: expected an object with code, lines, note"),
    ] {
        let mut json = sample();
        *json.pointer_mut(pointer).unwrap() = value;
        let error = encode(&document, &json).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let text = "{code: u32, lines: [(u32, str)], note: str?, parent: …?, state: enum{New, Paid: {at: i64, by: str}, \
                Sent: str}, tags: {str => (u8, f64)}}";
    assert_eq!(document.to_text(), text);
}

#[test]
fn null_for_an_option_in_an_option_is_refused_because_it_says_two_things() {
    let inner = || Box::new(Node::Option(Box::new(Node::Is(Leaf::U8))));
    let document = ShapeDocument::new(Node::Option(inner()), vec![]);
    assert!(encode(&document, &serde_json::Value::Null).unwrap_err().contains("null says two things here"));
    assert_eq!(encode(&document, &serde_json::json!(5)).unwrap(), [1, 1, 5]);
    let endless = ShapeDocument::new(Node::Option(Box::new(Node::Type(0))), vec![Form::Newtype(Node::Type(0))]);
    assert_eq!(encode(&endless, &serde_json::Value::Null).unwrap(), [0]);
}

/// Names of a shape are not multiplied by the elements of a payload.
#[test]
fn a_shape_with_a_long_name_costs_no_memory_per_element_and_no_endless_text() {
    let name = "n".repeat(60_000);
    let field = Field { name, aliases: Vec::new(), node: Node::Is(Leaf::U8) };
    let shape = ShapeDocument::new(Node::Seq(Box::new(Node::Type(0))), vec![Form::Struct(vec![field])]);
    let payload = [&[0x80, 0x80, 0x04][..], &vec![0; 1 << 16]].concat();
    let value = decode(&shape, &payload).unwrap();
    assert!(value.to_json().unwrap_err().contains("longer than"));
    assert!(shape.to_text().len() < 1000);
}

/// Newtypes around each other add nothing to a text, so its length does not bound the stack that they take.
#[test]
fn the_text_of_thousands_of_newtypes_around_each_other_ends_early() {
    let types = (1..2600).map(|next| Form::Newtype(Node::Type(next))).chain([Form::Unit]);
    assert_eq!(ShapeDocument::new(Node::Type(0), types.collect()).to_text(), "…");
}

proptest! {
    /// Payloads are data from outside.
    #[test]
    fn no_bytes_make_reading_by_a_shape_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&document(), &payload);
    }

    /// Documents are data from outside, too.
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
                let json = value.to_json();
                let _ = json.map(|json| encode(&document, &json));
                let _ = document.to_text();
            }
        }
    }
}

#[test]
fn a_map_is_a_struct_by_names_and_not_by_places() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Letter {
        to: String,
    }
    let map = |key: Value<'static>| Value::Map(vec![(key, Value::Str("ann".to_owned()))]);
    let read = Letter::deserialize(FromValue(&map(Value::Str("to".to_owned()))));
    assert_eq!(read, Ok(Letter { to: "ann".to_owned() }));
    // serde's derived code would take the number for the place of a field.
    let refused = Letter::deserialize(FromValue(&map(Value::Int(0)))).unwrap_err().to_string();
    assert_eq!(refused, "a map whose keys are not the names of fields");
    let inside = |value| Value::Some(Box::new(value));
    let read = Letter::deserialize(FromValue(&inside(inside(map(Value::Str("to".to_owned()))))));
    assert_eq!(read, Ok(Letter { to: "ann".to_owned() }), "an option in an option that has become mandatory");
}

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};

use super::*;
use crate::job::{codec::read_back, shape::of_type::shape_of};

/// Returns `value` as the arguments of a job are written, or the refusal.
fn write<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    read_back::write_readable(&[9], value, &shape_of::<T>(false).reads).map_err(|refusal| refusal.to_string())
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Patch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discount: Option<u8>,
    quantity: u8,
    lines: Vec<u8>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Change {
    Patched {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        by: String,
    },
    Nested(Patch),
    Pair(u8, #[serde(default, skip_serializing_if = "is_zero")] u8),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Point(u8, #[serde(default, skip_serializing_if = "is_zero")] u8);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(n: &u8) -> bool {
    *n == 0
}

#[test]
fn a_field_that_is_left_out_is_refused_wherever_it_is() {
    let patch = |discount| Patch { discount, quantity: 1, lines: vec![5, 0] };
    // Postcard itself reads another value back without an error.
    let bytes = postcard::to_allocvec(&patch(None)).unwrap();
    let read: Patch = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(read, Patch { discount: Some(2), quantity: 5, lines: vec![] });

    let refusals = [
        write(&patch(None)),
        write(&Some(patch(None))),
        write(&vec![patch(Some(1)), patch(None)]),
        write(&(1_u8, patch(None))),
        write(&BTreeMap::from([("a".to_owned(), patch(None))])),
        write(&Change::Nested(patch(None))),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert!(refusal.contains("`discount`") && refusal.contains("codec = \"json\""), "{refusal}");
    }
    let refusal = write(&Change::Patched { note: None, by: "ann".into() }).unwrap_err();
    assert!(refusal.contains("`note`"), "{refusal}");
    // Fields without a name are counted.
    for refusal in [write(&Point(1, 0)), write(&vec![Change::Pair(1, 0)])] {
        let refusal = refusal.unwrap_err();
        assert!(refusal.contains("writes 1 field and") && refusal.contains("codec = \"json\""), "{refusal}");
    }

    // No field is left out, so the values are written as postcard writes them.
    for value in [patch(Some(3)), Patch { discount: Some(0), ..Patch::default() }] {
        assert_eq!(write(&value).unwrap()[1..], postcard::to_allocvec(&value).unwrap());
    }
    assert!(write(&Change::Patched { note: Some("n".into()), by: "ann".into() }).is_ok());
    assert!(write(&Point(1, 2)).is_ok() && write(&Change::Pair(1, 2)).is_ok());
}

#[allow(dead_code, reason = "never read")]
#[derive(Serialize, Deserialize)]
struct OneWay {
    a: u8,
    #[serde(default, skip_serializing)]
    b: u8,
    c: Vec<u8>,
}
#[derive(Serialize, Deserialize)]
struct OtherWay {
    #[serde(skip_deserializing)]
    a: u8,
    c: Vec<u8>,
}
#[allow(dead_code, reason = "never read")]
#[derive(Serialize, Deserialize)]
struct BothWays {
    a: u8,
    #[serde(skip)]
    b: u8,
    #[serde(alias = "sea", alias = "see")]
    c: Vec<u8>,
}
#[allow(dead_code, reason = "it makes the gap")]
#[derive(Serialize, Deserialize)]
enum Gap {
    #[serde(skip_deserializing)]
    First,
    Second,
    Third,
}

#[test]
fn written_fields_are_counted_against_the_fields_that_are_read() {
    let refusal = write(&Some(OneWay { a: 1, b: 2, c: vec![] })).err().unwrap();
    assert!(refusal.starts_with("`OneWay` writes 2 fields"), "{refusal}");
    let refusal = write(&OtherWay { a: 1, c: vec![] }).err().unwrap();
    assert!(refusal.starts_with("`OtherWay` writes 2 fields"), "{refusal}");
    assert_eq!(write(&BothWays { a: 1, b: 2, c: vec![7] }).unwrap(), [9, 1, 1, 7]);
    // The number of `Second` is the number of `Third` for the reader.
    let refusal = write(&Gap::Second).err().unwrap();
    assert!(refusal.contains("`Gap::Second` would be read as another one"), "{refusal}");
    assert!(write(&Gap::Third).is_err());
}

#[derive(Debug, Serialize, Deserialize)]
enum Every {
    Unit,
    New(Box<Option<Every>>),
    Tuple(u8, i16),
    Struct { a: char, b: [u8; 20] },
}
#[derive(Debug, Serialize, Deserialize)]
struct Wide {
    every: Vec<Every>,
    map: BTreeMap<i64, (f32, f64)>,
    text: String,
    unit: (),
    big: (u128, i128),
    ip: std::net::IpAddr,
    day: chrono::NaiveDate,
    span: std::time::Duration,
    range: std::ops::Range<u8>,
    result: Result<bool, String>,
    id: uuid::Uuid,
}

/// The value calls every method of the serializer.
#[test]
fn a_readable_value_is_written_as_postcard_writes_it() {
    let wide = Wide {
        every: vec![
            Every::Unit,
            Every::New(Box::new(Some(Every::New(Box::new(None))))),
            Every::Tuple(1, -300),
            Every::Struct { a: 'ü', b: [3; 20] },
        ],
        map: BTreeMap::from([(-1, (0.5, -2.5)), (9, (1e9, 1e-9))]),
        text: "text".into(),
        unit: (),
        big: (u128::MAX, i128::MIN),
        ip: [127, 0, 0, 1].into(),
        day: chrono::NaiveDate::from_ymd_opt(2030, 1, 31).unwrap(),
        span: std::time::Duration::from_millis(1500),
        range: 3..9,
        result: Err("no".into()),
        id: uuid::Uuid::from_u128(7),
    };
    let type_shape = shape_of::<Wide>(false);
    let plain = postcard::to_allocvec(&wide).unwrap();
    for reads in [None, Some(&type_shape.reads)] {
        let written = super::write(&[9], &wide, reads).unwrap();
        assert_eq!((&written.bytes[1..], written.is_known), (&*plain, reads.is_some()));
    }
}

/// The text of an error of the user's `Serialize` reaches people.
#[test]
fn the_error_of_a_value_that_refuses_itself_gives_its_reason() {
    struct Picky;
    impl Serialize for Picky {
        fn serialize<S: ser::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(ser::Error::custom("no paths today"))
        }
    }
    assert_eq!(super::write(&[], &Some(Picky), None).unwrap_err().to_string(), "no paths today");
}

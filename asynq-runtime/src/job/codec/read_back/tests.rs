use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::*;
use crate::job::shape::of_type::shape_of;

mod same_name;

/// Returns `value` as the arguments of a job are written, or the refusal.
fn write<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    write_readable(&[9], value, &shape_of::<T>(false).reads).map_err(|refusal| refusal.to_string())
}

/// A text that no sample is, so that the shapes around it are known in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct Order(String);

impl TryFrom<String> for Order {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.starts_with("order-") { Ok(Self(text)) } else { Err("no order") }
    }
}

fn order() -> Order {
    Order("order-7".into())
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Order")]
struct Trimmed(String);

impl From<Order> for Trimmed {
    fn from(Order(text): Order) -> Self {
        Self(text.trim().to_owned())
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Status {
    #[serde(skip)]
    #[allow(dead_code, reason = "it makes the gap")]
    Draft,
    Pending,
    Paid,
    Cancelled,
}

#[derive(Debug, Serialize, Deserialize)]
enum Renamed {
    New,
    #[serde(alias = "Done", alias = "Ready")]
    Completed,
    #[serde(skip)]
    #[allow(dead_code, reason = "it makes the gap")]
    Draft,
    Paid,
    Lost,
}

#[allow(dead_code, reason = "never read")]
#[derive(Serialize, Deserialize)]
struct OneWay {
    a: u8,
    #[serde(default, skip_serializing)]
    b: u8,
}
#[derive(Serialize, Deserialize)]
struct OtherWay {
    #[serde(skip_deserializing)]
    a: u8,
    c: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sets {
    order: Order,
    by_name: HashMap<String, Option<u8>>,
    numbers: HashSet<i32>,
    at: DateTime<Utc>,
}

#[test]
fn a_value_of_a_shape_that_is_known_in_part_is_read_back() {
    let is_refused = |written: Result<Vec<u8>, String>| {
        let refusal = written.unwrap_err();
        assert!(refusal.contains("another value") && refusal.contains("codec = \"json\""), "{refusal}");
    };
    for status in [Status::Pending, Status::Paid, Status::Cancelled] {
        is_refused(write(&(order(), Some(status))));
    }
    is_refused(write(&(order(), OneWay { a: 1, b: 2 })));
    is_refused(write(&(order(), OtherWay { a: 1, c: vec![] })));
    is_refused(write(&Renamed::Paid));
    is_refused(write(&Order("a text that the type itself refuses".into())));

    // A type may tidy its values when they are read.
    assert!(write(&Trimmed("order-7 ".into())).is_ok());
    assert!(write(&Renamed::Completed).is_ok());
    assert_eq!(write(&(order(), 7_u8)).unwrap(), *b"\x09\x07order-7\x07");
    let names = (0..40).map(|n| (n.to_string(), (n % 3 == 0).then_some(n)));
    let sets = Sets { order: order(), by_name: names.collect(), numbers: (-20..20).collect(), at: Utc::now() };
    assert_eq!(write(&sets).unwrap()[1..], postcard::to_allocvec(&sets).unwrap());
}

#[derive(Debug, Clone, Deserialize)]
struct RawTransfer {
    from: u64,
    to: u64,
    tags: HashSet<u8>,
}
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "RawTransfer")]
struct Transfer {
    to: u64,
    from: u64,
    tags: HashSet<u8>,
}
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "RawTransfer")]
struct InOrder {
    from: u64,
    to: u64,
    tags: HashSet<u8>,
}

impl TryFrom<RawTransfer> for Transfer {
    type Error = &'static str;

    fn try_from(RawTransfer { from, to, tags }: RawTransfer) -> Result<Self, &'static str> {
        if from == to { Err("no transfer") } else { Ok(Self { to, from, tags }) }
    }
}

impl From<RawTransfer> for InOrder {
    fn from(RawTransfer { from, to, tags }: RawTransfer) -> Self {
        Self { from, to, tags }
    }
}

#[derive(Debug, Deserialize)]
enum RawState {
    Open,
    Shut,
}
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "RawState")]
enum Door {
    Shut,
    Open,
}

impl From<RawState> for Door {
    fn from(state: RawState) -> Self {
        match state {
            RawState::Open => Self::Open,
            RawState::Shut => Self::Shut,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "(f64, f64)")]
struct Place {
    x: f64,
    y: f64,
}

impl From<(f64, f64)> for Place {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y }
    }
}

/// Written as a map, and read as a struct.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "never read")]
struct AsMap {
    a: u8,
    b: [u8; 6],
}

impl Serialize for AsMap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("a", self.a), ("b", 7)])
    }
}

#[test]
fn a_value_that_is_written_as_another_type_than_it_is_read_as_is_read_back() {
    let tags = || HashSet::from_iter(0..40);
    // The transfer would go from the second account to the first.
    let refusals = [
        write(&Transfer { from: 1, to: 2, tags: tags() }).err(),
        write(&Some(Door::Open)).err(),
        write(&AsMap { a: 1, b: [0; 6] }).err(),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap();
        assert!(refusal.contains("another value") && refusal.contains("codec = \"json\""), "{refusal}");
    }
    assert!(write(&InOrder { from: 1, to: 2, tags: tags() }).is_ok());
    assert!(write(&vec![Place { x: 1.5, y: -0.0 }, Place { x: f64::NAN, y: 2.0 }]).is_ok());
}

/// It is read back for its bounds alone, so that nothing is compared.
#[test]
fn a_type_inside_itself_is_written_once() {
    thread_local! {
        static WRITTEN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    #[derive(serde::Deserialize)]
    struct Tree {
        branches: Vec<Tree>,
    }

    impl serde::Serialize for Tree {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeStruct as _;
            WRITTEN.set(WRITTEN.get() + 1);
            let mut tree = serializer.serialize_struct("Tree", 1)?;
            tree.serialize_field("branches", &self.branches)?;
            tree.end()
        }
    }

    let reads = shape_of::<Tree>(false).reads;
    assert!(reads.is_whole && reads.needs_bounds);
    super::write_readable(&[], &Tree { branches: Vec::new() }, &reads).unwrap();
    assert_eq!(WRITTEN.get(), 1);
}

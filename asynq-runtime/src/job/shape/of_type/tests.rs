#![allow(dead_code)]

use std::{
    collections::{BTreeMap, HashSet},
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Deserializer};

use super::*;
use crate::job::shape;

fn shape<T: DeserializeOwned>() -> String {
    let type_shape = shape_of::<T>(false);
    assert!(type_shape.complete, "{} should be known whole: {}", type_name::<T>(), type_shape.shape);
    type_shape.shape
}

macro_rules! shapes {
    ($($type:ty => $shape:literal,)*) => {$(assert_eq!(shape::<$type>(), $shape, stringify!($type));)*};
}

#[derive(Deserialize)]
struct Unit;
#[derive(Deserialize)]
struct Empty {}
#[derive(Deserialize)]
struct Meters(f64);
#[derive(Deserialize)]
struct Pair(u8, String);
#[derive(Deserialize)]
struct Mail {
    to: String,
    #[serde(rename = "Subject")]
    subject: Option<String>,
}
#[derive(Deserialize)]
struct Order {
    mails: Vec<Mail>,
    by_day: BTreeMap<String, (u8, bool)>,
}
#[derive(Deserialize)]
#[serde(transparent)]
struct Transparent {
    inner: Mail,
}

#[test]
fn every_kind_has_a_shape() {
    shapes! {
        bool => "bool", i8 => "i8", i16 => "i16", i32 => "i32", i64 => "i64", i128 => "i128",
        u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64", u128 => "u128", f32 => "f32", f64 => "f64",
        char => "char", String => "str", Box<str> => "str", () => "()", (u8, char) => "(u8, char)",
        [u8; 3] => "(u8, u8, u8)", [u8; 32] => "[u8; 32]",
        Option<u8> => "u8?", Option<Option<u8>> => "u8??", Vec<Vec<u8>> => "[[u8]]", HashSet<String> => "[str]",
        BTreeMap<String, Vec<u8>> => "{str => [u8]}", Duration => "{secs: u64, nanos: u32}",
        Unit => "()", Empty => "{}", Meters => "f64", Pair => "(u8, str)",
        Mail => "{to: str, Subject: str?}", Transparent => "{to: str, Subject: str?}",
        Order => "{mails: [{to: str, Subject: str?}], by_day: {str => (u8, bool)}}",
    }
}

#[derive(Deserialize)]
enum Event {
    Start,
    Moved(u8),
    Sized(u8, u16),
    Named { name: String, why: Why },
}
#[derive(Deserialize)]
enum Why {
    Known(Color),
    Unknown,
}
#[derive(Deserialize)]
enum Color {
    Red,
    Rgb(u8, u8, u8),
}

#[test]
fn every_variant_is_seen_however_deep() {
    let why = "enum{Known(enum{Red, Rgb(u8, u8, u8)}), Unknown}";
    let event = format!("enum{{Start, Moved(u8), Sized(u8, u16), Named{{name: str, why: {why}}}}}");
    assert_eq!(shape::<Event>(), event);
    assert_eq!(shape::<Option<Vec<(u8, Event)>>>(), format!("[(u8, {event})]?"));
    assert_eq!(shape::<BTreeMap<u8, Event>>(), format!("{{u8 => {event}}}"));
    assert_eq!(shape::<Result<u8, Why>>(), format!("enum{{Ok(u8), Err({why})}}"));
}

#[derive(Deserialize)]
struct Tree {
    value: u8,
    children: Vec<Tree>,
    left: Option<Box<Tree>>,
    last: bool,
}
#[derive(Deserialize)]
enum Expr {
    Add(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Literal(i64),
}
#[derive(Deserialize)]
enum NoLeafFirst {
    Deeper(Option<Box<NoLeafFirst>>),
    Again(Box<NoLeafFirst>),
}
#[derive(Deserialize)]
struct Nest(Vec<Nest>);
#[derive(Deserialize)]
struct Ping {
    pong: Option<Box<Pong>>,
}
#[derive(Deserialize)]
struct Pong {
    ping: Ping,
    n: u8,
}
#[derive(Deserialize)]
struct Endless {
    inner: Box<Endless>,
}
#[derive(Deserialize)]
struct EndlessNewtype(Box<EndlessNewtype>);

#[test]
fn a_type_inside_itself_comes_to_an_end() {
    shapes! {
        Tree => "{value: u8, children: [^1], left: ^1?, last: bool}",
        Expr => "enum{Add(^1, ^1), Not(^1), Literal(i64)}",
        NoLeafFirst => "enum{Deeper(^1?), Again(^1)}",
        Nest => "[^1]",
        Ping => "{pong: {ping: ^2, n: u8}?}",
    }
    for endless in [shape_of::<Endless>(false), shape_of::<EndlessNewtype>(false)] {
        assert!(!endless.complete && !endless.empty, "{endless:?}");
    }
}

/// All other types are read without the bounds, which cost time.
#[test]
fn only_a_type_whose_values_may_be_endless_needs_bounds() {
    fn needs<T: DeserializeOwned>() -> bool {
        shape_of::<T>(false).reads.needs_bounds
    }

    assert!(needs::<Tree>() && needs::<Expr>() && needs::<NoLeafFirst>() && needs::<Nest>() && needs::<(u8, Pong)>());
    assert!(needs::<Vec<()>>() && needs::<Option<Vec<[Unit; 20]>>>() && needs::<BTreeMap<(), Unit>>());
    assert!(needs::<Endless>(), "it is known in part");
    assert!(!needs::<Mail>() && !needs::<Event>() && !needs::<Wide>() && !needs::<Parsed>());
    assert!(!needs::<Vec<Option<()>>>() && !needs::<[Unit; 20]>() && !needs::<BTreeMap<u8, ()>>());
}

#[derive(Deserialize)]
struct Wide {
    a: [(Event, Event); 8],
    b: [[[Mail; 12]; 12]; 12],
    c: Event,
}

#[test]
fn wide_types_are_known_whole() {
    let type_shape = shape_of::<Wide>(false);
    assert!(type_shape.complete);
    assert!(type_shape.shape.ends_with("}}") && !type_shape.shape.contains('_'), "{}", type_shape.shape);
}

struct Even(String);

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let number: u32 = text.parse().map_err(serde::de::Error::custom)?;
        if number.is_multiple_of(2) { Ok(Self(text)) } else { Err(serde::de::Error::custom("odd")) }
    }
}

#[derive(Deserialize)]
struct Parsed {
    at: DateTime<Utc>,
    day: NaiveDate,
    id: NonZeroU32,
    run: uuid::Uuid,
    ip: IpAddr,
    even: Even,
    last: SocketAddr,
}

#[test]
fn leaves_that_parse_are_given_something_to_parse() {
    let address = "enum{V4((u8, u8, u8, u8)), V6((u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8))}";
    let type_shape = shape::<Parsed>();
    assert!(
        type_shape
            .starts_with(&format!("{{at: str, day: str, id: u32, run: bytes, ip: {address}, even: str, last: enum")),
        "{type_shape}"
    );
    let readable = shape_of::<Parsed>(true);
    assert!(readable.complete);
    assert_eq!(readable.shape, "{at: str, day: str, id: u32, run: str, ip: str, even: str, last: str}");
}

struct Picky;

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match String::deserialize(d)?.as_str() {
            "the only word it takes" => Ok(Self),
            _ => Err(serde::de::Error::custom("no")),
        }
    }
}

struct Bug;

impl<'de> Deserialize<'de> for Bug {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        assert!(text.len() > 1000, "not a {text:?}");
        Ok(Self)
    }
}

#[derive(Deserialize)]
struct Stops {
    first: u8,
    picky: Picky,
    after: u8,
}
#[derive(Deserialize)]
struct GoesOn {
    maybe: Option<Picky>,
    many: Vec<Picky>,
    either: Either,
    after: u8,
}
#[derive(Deserialize)]
enum Either {
    Picky(Picky),
    Plain(u8),
}

#[test]
fn a_type_that_takes_no_sample_ends_the_shape_where_it_must_and_only_there() {
    let type_shape = shape_of::<Stops>(false);
    assert_eq!((type_shape.shape.as_str(), type_shape.complete), ("{first: u8, picky: str, after: _}", false));
    let type_shape = shape_of::<GoesOn>(false);
    let shape = "{maybe: str?, many: [str], either: enum{Picky(str), Plain(u8)}, after: u8}";
    assert_eq!((type_shape.shape.as_str(), type_shape.complete), (shape, false));
    assert!(!shape_of::<(u8, Bug)>(false).complete);
}

#[derive(Deserialize)]
enum Renamed {
    Pending,
    #[serde(alias = "Done")]
    Completed(u8),
    Cancelled,
}

/// Every number that is too high is read as the last variant.
#[derive(Deserialize)]
enum WithOther {
    Pending,
    #[serde(alias = "Done")]
    Completed(u8),
    #[serde(other)]
    Unknown,
}

/// serde announces an alias as if it were a variant, so that the numbers of the variants are not known.
#[test]
fn no_variant_of_an_enum_with_aliases_is_read_by_its_number() {
    fn is_left_out<T: DeserializeOwned>() {
        let type_shape = shape_of::<T>(false);
        assert!(!type_shape.complete, "{}", type_shape.shape);
        let variants = type_shape.document.types.iter().find_map(|form| match form {
            shape::Form::Enum(variants) => Some(variants),
            _ => None,
        });
        let variants = variants.unwrap();
        assert!(variants.len() == 4 && variants.iter().all(|variant| variant.form.is_none()), "{variants:?}");
    }

    is_left_out::<Renamed>();
    is_left_out::<(Renamed, u32)>();
    // The sample of the number is not the reason why the type refuses.
    is_left_out::<(u32, Renamed)>();
    is_left_out::<(String, Vec<Renamed>)>();
    is_left_out::<(u32, WithOther)>();
}

#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    A { x: u8 },
}
#[derive(Deserialize)]
struct Loose {
    before: u8,
    value: serde_json::Value,
}
#[derive(Deserialize)]
struct Flat {
    before: u8,
    #[serde(flatten)]
    rest: Order,
}
#[derive(Deserialize)]
struct MaybeLoose {
    value: Option<serde_json::Value>,
    after: u8,
}

#[test]
fn a_type_that_needs_a_self_describing_format_is_named() {
    for (type_shape, name, shape) in [
        (shape_of::<Loose>(false), "Value", "{before: u8, value: any<Value>}"),
        (shape_of::<MaybeLoose>(false), "Value", "{value: any<Value>?, after: u8}"),
    ] {
        assert_eq!((type_shape.self_describing.as_deref(), type_shape.complete), (Some(name), false));
        assert_eq!(type_shape.shape, shape);
    }
    assert_eq!(shape_of::<Tagged>(false).self_describing.as_deref(), Some("Tagged"));
    assert_eq!(shape_of::<Flat>(false).self_describing.as_deref(), Some("Flat"));
    assert_eq!(shape_of::<Order>(false).self_describing, None);
}

#[test]
fn only_types_that_hold_nothing_are_empty() {
    assert!(shape_of::<()>(false).empty && shape_of::<Unit>(false).empty && shape_of::<Empty>(false).empty);
    assert!(!shape_of::<Mail>(false).empty && !shape_of::<Vec<u8>>(false).empty && !shape_of::<Event>(false).empty);
}

#[test]
fn short_names_have_no_paths() {
    assert_eq!(short_name::<Vec<Option<std::string::String>>>(), "Vec<Option<String>>");
    assert_eq!(short_name::<BTreeMap<Mail, [u8; 3]>>(), "BTreeMap<Mail, [u8; 3]>");
}

//! `jobs --check` looks into every corner of an old shape, and says so where it cannot.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use asynq_runtime::{
    Registry,
    job::{JobsLock, Verdict},
    prelude::*,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use uuid::Uuid;

use crate::arguments::OrderId;

/// Defines a function that returns the verdict of a job's second version on tasks of its first one.
macro_rules! deploy {
    ($name:ident $codec:literal before { $($before:tt)* } after { $($after:tt)* } take ($($argument:ident: $type:ty),*)) => {
        fn $name() -> Verdict {
            deploy!(@version before $codec { $($before)* } ($($argument: $type),*));
            deploy!(@version after $codec { $($after)* } ($($argument: $type),*));
            let lock = JobsLock::default().with(&Registry::only::<(before::sampled,)>().unwrap());
            lock.check(&Registry::only::<(after::sampled,)>().unwrap()).swap_remove(0).verdict
        }
    };
    (@version $version:ident $codec:literal { $($types:tt)* } ($($argument:ident: $type:ty),*)) => {
        mod $version {
            #[allow(unused_imports, reason = "a version takes what its types need")]
            use super::*;

            $($types)*

            #[job(name = "lock:sampled", codec = $codec)]
            pub(super) async fn sampled($($argument: $type),*) {
                let _ = ($($argument,)*);
            }
        }
    };
}

/// Defines a module with one version of a job, with these options and arguments.
macro_rules! version {
    ($version:ident [$($option:tt)*] ($($(#[$meta:meta])* $argument:ident: $type:ty),*)) => {
        mod $version {
            use super::*;

            #[job(name = "lock:sampled", $($option)*)]
            pub(super) async fn sampled($($(#[$meta])* $argument: $type),*) {
                let _ = ($($argument,)*);
            }
        }
    };
}

/// Returns the verdict of the program that has the job `A` on the tasks of one that has `B`.
fn deployed<B: Job, A: Job>() -> Verdict {
    let lock = JobsLock::default().with(&Registry::only::<B>().unwrap());
    lock.check(&Registry::only::<A>().unwrap()).swap_remove(0).verdict
}

/// Defines the type of a nested event, with these orders and users.
macro_rules! events {
    ([$($order:tt)*] [$($user:tt)*]) => {
        #[derive(Serialize, Deserialize)]
        pub(crate) enum Event { Order(OrderEvent), User(UserEvent) }
        #[derive(Serialize, Deserialize)]
        pub(crate) enum OrderEvent { $($order)* }
        #[derive(Serialize, Deserialize)]
        pub(crate) enum UserEvent { $($user)* }
    };
}

/// A text of two capitals and four digits, by a rule of its own.
#[derive(Serialize)]
struct OrderCode(String);

impl<'de> Deserialize<'de> for OrderCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_code = text.len() == 7 && text.as_bytes()[2] == b'-';
        if is_code { Ok(Self(text)) } else { Err(D::Error::custom("not an order code")) }
    }
}

/// A share, by a rule of its own.
#[derive(Serialize)]
struct Percent(u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = u8::deserialize(deserializer)?;
        if share <= 100 { Ok(Self(share)) } else { Err(D::Error::custom("more than everything")) }
    }
}

/// A struct none of whose fields is known.
#[derive(Serialize, Deserialize)]
struct Meta {
    tenant: String,
    #[serde(flatten)]
    more: BTreeMap<String, String>,
}

/// A type without content.
#[derive(Serialize, Deserialize)]
struct Marker;

#[test]
fn every_variant_is_tried_within_every_variant_around_it() {
    deploy!(removed "postcard"
        before { events!([Placed, Shipped { cents: u64 }] [Joined, Left]); }
        after { events!([Placed] [Joined, Left]); }
        take (event: Event, n: u8));
    deploy!(removed_beside "postcard"
        before { events!([Placed, Shipped { cents: u64 }] [Joined, Left]); }
        after { events!([Placed, Shipped { cents: u64 }] [Left]); }
        take (event: Event, n: u8));
    deploy!(narrower "postcard"
        before { events!([Placed, Shipped { cents: u64 }] [Joined, Left]); }
        after { events!([Placed, Shipped { cents: u32 }] [Joined, Left]); }
        take (event: Event, n: u8));
    deploy!(mandatory "json"
        before { events!([Placed, Shipped { cents: u64 }] [Joined, Left]); }
        after { events!([Placed, Shipped { cents: u64, to: String }] [Joined, Left]); }
        take (event: Event, n: u8));
    deploy!(harmless "postcard"
        before { events!([Placed, Shipped { cents: u64 }] [Joined, Left]); }
        after { events!([Placed, Shipped { cents: u64, to: Option<String> }] [Joined, Left, Back]); }
        take (event: Event, n: u8));
    let upgrade = |verdict| matches!(verdict, Verdict::NeedsUpgrade(_));
    assert!(upgrade(removed()));
    assert!(upgrade(removed_beside()));
    assert!(upgrade(narrower()));
    assert_eq!(mandatory(), Verdict::NeedsDefault("to".into()));
    assert_eq!(harmless(), Verdict::Safe);
}

#[test]
fn a_text_with_rules_of_its_own_hides_no_change_beside_it() {
    deploy!(narrower "postcard"
        before { pub(crate) type Code = String; pub(crate) type Number = u32; }
        after { pub(crate) type Code = OrderCode; pub(crate) type Number = u16; }
        take (code: Option<Code>, n: Number));
    deploy!(unread "postcard"
        before { pub(crate) type Code = String; pub(crate) type Number = u32; }
        after { pub(crate) type Code = OrderCode; pub(crate) type Number = u16; }
        take (code: Option<Code>, n: Option<Number>));
    deploy!(unread_alone "json"
        before { pub(crate) type Code = String; pub(crate) type Number = u32; }
        after { pub(crate) type Code = OrderCode; pub(crate) type Number = u64; }
        take (code: Option<Code>, n: Number));
    assert!(matches!(narrower(), Verdict::NeedsUpgrade(_)));
    assert_eq!(unread(), Verdict::CannotBeTold);
    assert_eq!(unread_alone(), Verdict::CannotBeTold);
}

#[test]
fn a_number_with_rules_of_its_own_hides_no_change_beside_it() {
    deploy!(narrower "postcard"
        before { pub(crate) type Share = u8; pub(crate) type Number = u32; }
        after { pub(crate) type Share = Percent; pub(crate) type Number = u16; }
        take (share: Share, n: Number));
    deploy!(wider "postcard"
        before { pub(crate) type Share = u8; pub(crate) type Number = u32; }
        after { pub(crate) type Share = Percent; pub(crate) type Number = u64; }
        take (share: Share, n: Number));
    // The largest seconds and the largest nanoseconds together are too long.
    deploy!(lasting "postcard"
        before { pub(crate) type Number = u32; }
        after { pub(crate) type Number = u64; }
        take (time: Duration, n: Number));
    assert!(matches!(narrower(), Verdict::NeedsUpgrade(_)));
    assert_eq!(wider(), Verdict::CannotBeTold);
    assert_eq!(lasting(), Verdict::Safe);
}

#[test]
fn a_number_that_is_not_zero_hides_no_change_beside_it_and_needs_no_upgrade() {
    macro_rules! beside_nonzero {
        ($name:ident $codec:literal $before:ty, $after:ty) => {
            deploy!($name $codec
                before { pub(crate) type Number = $before; }
                after { pub(crate) type Number = $after; }
                take (size: NonZeroU32, n: Number));
        };
    }
    beside_nonzero!(wider "postcard" u32, u64);
    beside_nonzero!(wider_json "json" u32, u64);
    beside_nonzero!(narrower "postcard" u64, u32);
    beside_nonzero!(narrower_json "json" u64, u32);
    assert_eq!([wider(), wider_json()], [Verdict::CannotBeTold, Verdict::CannotBeTold]);
    for narrower in [narrower(), narrower_json()] {
        assert!(matches!(narrower, Verdict::NeedsUpgrade(_)), "{narrower:?}");
    }
}

#[test]
fn a_uuid_hides_no_change_beside_it_and_does_not_become_a_text() {
    deploy!(narrower "postcard"
        before { pub(crate) type Number = u64; }
        after { pub(crate) type Number = u32; }
        take (id: Uuid, n: Number));
    deploy!(wider "postcard"
        before { pub(crate) type Number = u32; }
        after { pub(crate) type Number = u64; }
        take (id: Uuid, n: Number));
    deploy!(text "postcard"
        before { pub(crate) type Id = Uuid; }
        after { pub(crate) type Id = String; }
        take (id: Id, n: u8));
    assert!(matches!(narrower(), Verdict::NeedsUpgrade(_)));
    assert_eq!(wider(), Verdict::Safe);
    assert!(matches!(text(), Verdict::NeedsUpgrade(_)));
}

#[test]
fn the_largest_and_smallest_of_128_bits_are_tried() {
    macro_rules! narrowed {
        ($name:ident $codec:literal $before:ty, $after:ty) => {
            deploy!($name $codec
                before { pub(crate) type Number = $before; }
                after { pub(crate) type Number = $after; }
                take (n: Number, m: u8));
        };
    }
    narrowed!(unsigned "postcard" u128, u64);
    narrowed!(unsigned_json "json" u128, u64);
    narrowed!(signed "postcard" i128, i64);
    narrowed!(signed_json "json" i128, i64);
    narrowed!(negative "postcard" i128, u128);
    narrowed!(wider "postcard" u64, u128);
    narrowed!(wider_json "json" u64, u128);
    for narrowed in [unsigned(), unsigned_json(), signed(), signed_json(), negative()] {
        assert!(matches!(narrowed, Verdict::NeedsUpgrade(_)), "{narrowed:?}");
    }
    assert_eq!([wider(), wider_json()], [Verdict::Safe, Verdict::Safe]);
}

#[test]
fn numbers_of_128_bits_and_maps_are_read_where_something_else_changes() {
    deploy!(added "json"
        before { pub(crate) type Note = u8; }
        after { pub(crate) type Note = u16; }
        take (n: u128, m: i128, by_name: BTreeMap<String, u32>, by_number: BTreeMap<u64, u32>, note: Note));
    assert_eq!(added(), Verdict::Safe);
}

/// Defines structs, each inside an option of the one before it, and the last with a number of this type.
macro_rules! nested {
    ($number:ty; $($outer:ident $inner:ident),*; $last:ident) => {
        $(#[derive(Serialize, Deserialize)]
        pub(crate) struct $outer { inner: Option<$inner> })*
        #[derive(Serialize, Deserialize)]
        pub(crate) struct $last { n: $number }
    };
}

#[test]
fn what_is_optional_is_tried_at_any_depth() {
    deploy!(narrower "postcard"
        before { nested!(u64; A B, B C, C D, D E, E F, F G, G H; H); }
        after { nested!(u32; A B, B C, C D, D E, E F, F G, G H; H); }
        take (a: A, n: u8));
    let narrower = narrower();
    assert!(matches!(narrower, Verdict::NeedsUpgrade(_)), "{narrower:?}");
}

#[test]
fn a_type_inside_itself_is_tried_inside_itself() {
    macro_rules! sums {
        ($number:ty) => {
            #[derive(Serialize, Deserialize)]
            pub(crate) enum Sum {
                Of(Box<Sum>, Box<Sum>),
                Each(Vec<Sum>),
                Number($number),
            }
        };
    }
    deploy!(narrower "postcard" before { sums!(u64); } after { sums!(u32); } take (sum: Sum, n: u8));
    deploy!(wider "postcard" before { sums!(u32); } after { sums!(u64); } take (sum: Sum, n: u8));
    assert!(matches!(narrower(), Verdict::NeedsUpgrade(_)));
    assert_eq!(wider(), Verdict::Safe);
}

#[test]
fn a_shape_that_is_too_deep_to_be_tried_is_not_called_safe() {
    #[derive(Serialize, Deserialize)]
    struct Link {
        next: Option<Box<Link>>,
    }

    #[job(name = "lock:chain", codec = "json")]
    async fn chain(first: Link) {
        let _ = first;
    }

    let verdict = |links: usize| {
        let link = |n: usize| format!(r#"{{"struct":[{{"name":"next","is":{{"option":{{"type":{n}}}}}}}]}}"#);
        let links: Vec<String> = (1..=links).map(link).chain([r#"{"struct":[]}"#.to_owned()]).collect();
        let document = format!(r#"{{"v":1,"root":{{"type":0}},"types":[{}]}}"#, links.join(","));
        let shape = serde_json::json!({
            "job": "lock:chain", "queue": "default", "codec": "json", "shape": "links", "document": document
        });
        let lock = JobsLock::parse(&shape.to_string()).unwrap();
        lock.check(&Registry::only::<(chain,)>().unwrap()).swap_remove(0).verdict
    };
    assert_eq!(verdict(15), Verdict::Safe);
    assert_eq!(verdict(60), Verdict::CannotBeTold);
}

#[test]
fn a_type_without_content_is_tried_as_each_codec_writes_it() {
    deploy!(in_json "json"
        before { pub(crate) type Number = u32; }
        after { pub(crate) type Number = u64; }
        take (nothing: (), marker: Marker, n: Number));
    deploy!(in_postcard "postcard"
        before { pub(crate) type Number = u32; }
        after { pub(crate) type Number = u64; }
        take (nothing: (), marker: Marker, n: Number));
    assert_eq!(in_json(), Verdict::Safe);
    assert_eq!(in_postcard(), Verdict::Safe);
}

#[test]
fn a_shape_that_is_known_in_part_is_not_called_unchanged() {
    version!(flat [codec = "json"] (to: String, #[serde(flatten)] meta: Meta));
    version!(flat_with_more [codec = "json"] (to: String, cc: String, #[serde(flatten)] meta: Meta));
    // The order takes no sample, and the number behind it is not seen.
    version!(behind [] (order: OrderId, n: u32));
    version!(behind_signed [] (order: OrderId, n: i32));
    version!(behind_elsewhere [queue = "orders"] (order: OrderId, n: i32));
    assert_eq!(deployed::<flat::sampled, flat_with_more::sampled>(), Verdict::KnownPartUnchanged);
    assert_eq!(deployed::<behind::sampled, behind_signed::sampled>(), Verdict::KnownPartUnchanged);
    assert_eq!(deployed::<behind::sampled, behind_elsewhere::sampled>(), Verdict::OtherQueue("default".into()));
}

#[test]
fn a_part_that_is_not_known_is_not_said_to_be_missing() {
    version!(inside [codec = "json"] (to: String, meta: Meta));
    version!(beside [codec = "json"] (to: String, meta: Meta, note: Option<String>));
    assert_eq!(deployed::<inside::sampled, beside::sampled>(), Verdict::CannotBeTold);
}

#[test]
fn a_queue_that_no_job_names_is_told_whatever_samples_tell() {
    version!(images [queue = "images"] (size: NonZeroU32, n: u32));
    version!(elsewhere [] (size: NonZeroU32, n: u64));
    assert_eq!(deployed::<images::sampled, elsewhere::sampled>(), Verdict::UnservedQueue("images".into()));
}

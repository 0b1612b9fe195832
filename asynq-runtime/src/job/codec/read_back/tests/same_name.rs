//! Types that have the name of the type that they are read as, or of another one among the arguments.

use super::*;
use crate::job::codec::{Codec, decode_result, encode_result};

mod wire {
    #[derive(Debug, serde::Deserialize)]
    pub(super) enum Side {
        Buy,
        Sell,
    }

    /// Has nothing to do with the other `Status`.
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub(super) enum Status {
        Waiting,
        Packed,
        Sent,
    }

    #[derive(Debug, serde::Deserialize)]
    pub(super) struct Pair {
        pub(super) from: u64,
        pub(super) to: u64,
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "wire::Pair")]
struct Pair {
    to: u64,
    from: u64,
}

impl From<wire::Pair> for Pair {
    fn from(wire::Pair { from, to }: wire::Pair) -> Self {
        Self { to, from }
    }
}

/// As many fields are written as are read, and not the same.
#[allow(dead_code, reason = "never read")]
#[derive(Debug, Serialize, Deserialize)]
struct Exchanged {
    #[serde(default, skip_serializing)]
    a: u8,
    #[serde(skip_deserializing)]
    b: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Aliased {
    #[serde(alias = "x", alias = "y")]
    a: u8,
    b: u8,
}

#[test]
fn fields_that_are_not_read_by_their_names_in_their_order_are_read_back() {
    assert!(write(&Pair { to: 1, from: 2 }).is_err(), "its fields would change places");
    assert!(write(&Pair { to: 1, from: 1 }).is_ok());
    let result = encode_result("pair", Codec::Postcard, &Pair { to: 1, from: 2 }).unwrap();
    assert!(decode_result::<Pair>(Codec::Postcard, Some(&result)).is_err(), "nor is such a result read");
    assert!(write(&Exchanged { a: 0, b: 7 }).is_err());
    let known = |value: &Aliased| checked::write(&[], value, Some(&shape_of::<Aliased>(false).reads)).unwrap().is_known;
    assert!(known(&Aliased { a: 1, b: 2 }));
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "wire::Side")]
enum Side {
    Sell,
    Buy,
}

impl From<wire::Side> for Side {
    fn from(side: wire::Side) -> Self {
        match side {
            wire::Side::Buy => Self::Buy,
            wire::Side::Sell => Self::Sell,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Ready {
    No,
    Yes,
}
mod other {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub(super) enum Ready {
        Yes,
    }
}

#[test]
fn a_variant_that_is_read_as_itself_lets_another_type_tidy_its_value() {
    for ready in [Ready::No, Ready::Yes] {
        assert!(write(&(ready, Trimmed("order-7 ".into()))).is_ok());
    }
    assert!(write(&(Side::Sell, Trimmed("order-7 ".into()))).is_err(), "the variant would be another one");
}

#[test]
fn a_variant_of_an_enum_of_the_same_name_is_not_taken_for_it() {
    for status in [Status::Pending, Status::Paid, Status::Cancelled] {
        assert!(write(&(status, wire::Status::Sent)).is_err());
    }
    let others = (wire::Status::Waiting, wire::Status::Packed, wire::Status::Sent);
    assert!(write(&(order(), others)).is_ok());
    assert!(write(&Side::Sell).is_err() && write(&Side::Buy).is_err(), "they would change places");
    for ready in [Ready::No, Ready::Yes] {
        assert!(write(&(ready, other::Ready::Yes)).is_ok());
    }
}

mod raw {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(from = "Fields")]
    pub(super) struct Pair {
        pub(super) a: u8,
        pub(super) b: u8,
        pub(super) c: u8,
    }
    #[derive(Deserialize)]
    pub(super) struct Fields {
        a: u8,
        b: u8,
        c: u8,
    }

    impl From<Fields> for Pair {
        fn from(Fields { a, b, c }: Fields) -> Self {
            Self { a, b, c }
        }
    }
}

/// The fields are counted by the names of the types.
#[test]
fn types_of_one_name_may_have_other_numbers_of_fields() {
    let three = || raw::Pair { a: 1, b: 2, c: 3 };
    assert!(write(&(Pair { to: 1, from: 1 }, three())).is_ok());
    assert!(write(&(Pair { to: 1, from: 2 }, three())).is_err(), "the fields of the first would change places");
}

//! The kinds of a value as serde writes it, in four bytes, by which the reader of a result notices that it was written as
//! another type.
//!
//! A worker need not be able to read the results that it writes, so that the shape of their type, which a recorder takes from
//! `Deserialize`, is not known there. `Serialize` is there on both sides: a program that has read a value can write it again.

use std::fmt;

use serde::{
    Serialize,
    de::value::Error,
    ser::{self, Serializer},
};

/// Returns a number made of the kinds in `value` and the names of its fields and variants; `None` if the value refuses to be
/// written. Names of types are not part of it, nor is the order of elements, which differs in a `HashMap` that was read back,
/// nor the width of an integer where postcard reads another width as well: `u32` may become `u64`. Results carry this
/// number, so it must never change.
pub(super) fn of(value: &(impl Serialize + ?Sized)) -> Option<u32> {
    let number = number_of(value).ok()?;
    // The high half depends on every part.
    u32::try_from(number >> 32).ok()
}

fn number_of(value: &(impl Serialize + ?Sized)) -> Result<u64, Error> {
    let mut kinds = Kinds(0);
    value.serialize(&mut kinds)?;
    Ok(kinds.0)
}

/// The number of the parts that came so far.
struct Kinds(u64);

impl Kinds {
    fn number(&mut self, part: u64) {
        // The multiplier of MurmurHash's finaliser; odd, so that no part is lost.
        let mixed = (self.0.rotate_left(5) ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 33);
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.number(byte.into()));
        // Ends the text: no byte of a text is this number.
        self.number(256);
    }
}

macro_rules! plain {
    ($($method:ident($($_:ident: $type:ty),*) $kind:literal)*) => {$(
        fn $method(self, $($_: $type),*) -> Result<(), Error> {
            self.text($kind);
            Ok(())
        }
    )*};
}

impl<'a> Serializer for &'a mut Kinds {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Elements<'a>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    plain! {
        serialize_bool(_v: bool) "bool" serialize_char(_v: char) "char"
        serialize_str(_v: &str) "str" serialize_bytes(_v: &[u8]) "bytes"
        serialize_i8(_v: i8) "i8" serialize_i16(_v: i16) "int" serialize_i32(_v: i32) "int"
        serialize_i64(_v: i64) "int" serialize_i128(_v: i128) "int"
        serialize_u8(_v: u8) "u8" serialize_u16(_v: u16) "uint" serialize_u32(_v: u32) "uint"
        serialize_u64(_v: u64) "uint" serialize_u128(_v: u128) "uint"
        serialize_f32(_v: f32) "f32" serialize_f64(_v: f64) "f64"
        serialize_none() "none" serialize_unit() "unit" serialize_unit_struct(_name: &'static str) "unit"
    }

    /// As postcard says it: some types write a text for people and bytes otherwise.
    fn is_human_readable(&self) -> bool {
        false
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Result<(), Error> {
        self.serialize_str("")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.text("some");
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.text("variant");
        self.text(variant);
        Ok(())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.serialize_unit_variant(name, index, variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Error> {
        Ok(Elements { kinds: self, kind: "seq", sum: 0, key: 0 })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'a>, Error> {
        Ok(Elements { kinds: self, kind: "map", sum: 0, key: 0 })
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        self.text("tuple");
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Self, Error> {
        self.serialize_tuple(len)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self, Error> {
        self.serialize_unit_variant(name, index, variant)?;
        self.serialize_tuple(len)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        self.text("struct");
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self, Error> {
        self.serialize_unit_variant(name, index, variant)?;
        self.serialize_struct(name, len)
    }
}

/// The elements of a sequence or a map, in any order.
struct Elements<'a> {
    kinds: &'a mut Kinds,
    kind: &'static str,
    sum: u64,
    /// The number of the key whose value comes next.
    key: u64,
}

impl Elements<'_> {
    fn finish(self) {
        self.kinds.text(self.kind);
        self.kinds.number(self.sum);
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.sum = self.sum.wrapping_add(number_of(value)?);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeMap for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = number_of(key)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let mut entry = Kinds(self.key);
        value.serialize(&mut entry)?;
        self.sum = self.sum.wrapping_add(entry.0);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

macro_rules! in_order {
    ($($trait:ident $method:ident($($name:ident)?);)*) => {$(
        impl ser::$trait for &mut Kinds {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $($name: &'static str,)? value: &T) -> Result<(), Error> {
                $(self.text($name);)?
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Error> {
                self.text("end");
                Ok(())
            }
        }
    )*};
}

in_order! {
    SerializeTuple serialize_element();
    SerializeTupleStruct serialize_field();
    SerializeTupleVariant serialize_field();
    SerializeStruct serialize_field(name);
    SerializeStructVariant serialize_field(name);
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::*;

    #[derive(Serialize)]
    struct Sum {
        cents: u32,
        count: u32,
    }

    #[derive(Serialize)]
    struct Swapped {
        count: u32,
        cents: u32,
    }

    #[derive(Serialize)]
    struct Id<T>(T);

    #[derive(Serialize, PartialEq, Eq, Hash)]
    enum End {
        Sold(u64),
        Gone,
        Moved { to: String },
    }

    #[test]
    fn values_that_postcard_writes_alike_have_different_numbers() {
        let numbers = [
            of(&240_u64),
            of(&120_i64),
            of(&7_u8),
            of(&7_i8),
            of(&'x'),
            of("x"),
            of(&Sum { cents: 1, count: 2 }),
            of(&Swapped { count: 1, cents: 2 }),
            of(&(1_u32, 2_u32)),
            of(&Some(1_u32)),
            of(&None::<u32>),
            of(&vec![1_u64, 2]),
            of(&vec![1_i64, 2]),
            of(&Vec::<u64>::new()),
            of(&[(); 0]),
            of(&HashMap::from([(1_u8, 2_u8)])),
            of(&vec![(1_u8, 2_u8)]),
            of(&End::Sold(1)),
            of(&End::Gone),
            of(&End::Moved { to: "ann".into() }),
            of(&()),
        ];
        assert!(numbers.iter().all(Option::is_some));
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "{numbers:?}");
    }

    #[test]
    fn what_does_not_change_the_kinds_does_not_change_the_number() {
        assert_eq!(of(&7_u64), of(&u16::MAX));
        assert_eq!(of(&-7_i64), of(&7_i32));
        assert_eq!(of("a"), of(&"another".to_owned()));
        assert_eq!(of(&Id(7_u64)), of(&7_u64), "a newtype is what it holds");
        assert_eq!(of(&HashMap::from([("a", 1)])), of(&BTreeMap::from([("b", 2)])));
        let ends = || [End::Gone, End::Sold(3), End::Moved { to: "x".into() }];
        assert_eq!(of(&Vec::from(ends())), of(&ends().into_iter().rev().collect::<Vec<_>>()), "order of elements");
        assert_eq!(of(&Vec::from(ends())), of(&HashSet::from(ends())));
    }

    #[test]
    fn the_number_never_changes() {
        assert_eq!(of(&(Sum { cents: 1, count: 2 }, vec![End::Gone])), Some(425_467_945));
    }
}

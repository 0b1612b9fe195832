//! The kinds of a value as serde writes it, in four bytes, by which the reader of a result notices that it was written as
//! another type.
//!
//! A worker need not be able to read the results that it writes, so that the shape of their type, which a recorder takes from
//! `Deserialize`, is not known there. `Serialize` is there on both sides: a program that has read a value can write it again.

use std::fmt::{self, Write as _};

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
    let number = Kinds { number: 0, with_values: false }.and(value).ok()?;
    // The high half depends on every part.
    u32::try_from(number >> 32).ok()
}

/// Returns whether two values have the same kinds and, if `with_values`, are written alike, whatever the order of elements.
pub(super) fn are_equal<T: Serialize>(one: &T, other: &T, with_values: bool) -> bool {
    let number = |value: &T| Kinds { number: 0, with_values }.and(value).ok();
    number(one).is_some_and(|one| number(other) == Some(one))
}

/// The number of the parts that came so far.
#[derive(Clone, Copy)]
struct Kinds {
    number: u64,
    /// Whether the number is made of the values, too.
    with_values: bool,
}

impl Kinds {
    /// Returns the number with that of another part.
    fn and(mut self, part: &(impl Serialize + ?Sized)) -> Result<u64, Error> {
        part.serialize(&mut self)?;
        Ok(self.number)
    }

    /// Begins the number of an element or an entry.
    fn alone(&self, number: u64) -> Self {
        Self { number, ..*self }
    }

    fn value(&mut self, value: impl fmt::Debug) {
        if self.with_values {
            let _ = write!(self, "{value:?}");
            self.number(256);
        }
    }

    fn number(&mut self, part: u64) {
        // The multiplier of MurmurHash's finaliser; odd, so that no part is lost.
        let mixed = (self.number.rotate_left(5) ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.number = mixed ^ (mixed >> 33);
    }

    fn text(&mut self, text: &str) {
        // Writing to a number does not fail.
        let _ = self.write_str(text);
        // Ends the text: no byte of a text is this number.
        self.number(256);
    }
}

impl fmt::Write for Kinds {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.number(byte.into()));
        Ok(())
    }
}

macro_rules! plain {
    ($($method:ident($($v:ident: $type:ty)?) $kind:literal)*) => {$(
        fn $method(self, $($v: $type)?) -> Result<(), Error> {
            self.text($kind);
            $(self.value($v);)?
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
        serialize_bool(v: bool) "bool" serialize_char(v: char) "char"
        serialize_str(v: &str) "str" serialize_bytes(v: &[u8]) "bytes"
        serialize_i8(v: i8) "i8" serialize_i16(v: i16) "int" serialize_i32(v: i32) "int"
        serialize_i64(v: i64) "int" serialize_i128(v: i128) "int"
        serialize_u8(v: u8) "u8" serialize_u16(v: u16) "uint" serialize_u32(v: u32) "uint"
        serialize_u64(v: u64) "uint" serialize_u128(v: u128) "uint"
        serialize_f32(v: f32) "f32" serialize_f64(v: f64) "f64"
        serialize_none() "none" serialize_unit() "unit" serialize_unit_struct(name: &'static str) "unit"
    }

    /// As postcard says it: some types write a text for people and bytes otherwise.
    fn is_human_readable(&self) -> bool {
        false
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.text("str");
        self.value(format_args!("{value}"));
        Ok(())
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
    fn finish(self) -> Result<(), Error> {
        self.kinds.text(self.kind);
        self.kinds.number(self.sum);
        Ok(())
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.sum = self.sum.wrapping_add(self.kinds.alone(0).and(value)?);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeMap for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = self.kinds.alone(0).and(key)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.sum = self.sum.wrapping_add(self.kinds.alone(self.key).and(value)?);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
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
mod tests;

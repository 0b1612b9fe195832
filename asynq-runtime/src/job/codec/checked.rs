//! Postcard that refuses values which it could not read back unchanged.
//!
//! Postcard writes the fields of a struct one after the other, without names. A field that serde leaves out therefore
//! shifts all that follow it, and the reader takes the next field's bytes for the missing one: often without an error.

use std::fmt;

use postcard::{Serializer, ser_flavors::ExtendFlavor};
use serde::{Serialize, ser};

use crate::job::shape::of_type::Reads;

/// A value as postcard writes it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) bytes: Vec<u8>,
    /// Whether the `reads` know each struct, enum and map of the value.
    pub(super) is_known: bool,
    /// The likely reason if the value is not read back as it was: a part is read with another number of fields or as another variant.
    pub(super) suspect: Option<Refusal>,
}

/// Returns `value` behind `prefix`. `reads` says how the type's own `Deserialize` reads, if there is one.
pub(super) fn write(prefix: &[u8], value: &impl Serialize, reads: Option<&Reads>) -> Result<Written, Refusal> {
    written(prefix, reads, &|checked| value.serialize(checked))
}

/// Compiled once, and not for each type of a program.
fn written(
    prefix: &[u8],
    reads: Option<&Reads>,
    serialize: &dyn Fn(&mut Checked<'_>) -> Result<(), Refusal>,
) -> Result<Written, Refusal> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(prefix);
    let postcard = Serializer { output: ExtendFlavor::new(bytes) };
    let mut checked = Checked { postcard, reads, is_known: reads.is_some(), suspect: None };
    serialize(&mut checked)?;
    let Checked { postcard, is_known, suspect, .. } = checked;
    Ok(Written { bytes: postcard::ser_flavors::Flavor::finalize(postcard.output)?, is_known, suspect })
}

/// Why a value was not written, for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(String);

/// The advice for a field that is written but not read, or the other way round.
const INSTEAD: &str = "postcard has no field names and would read other fields in its place; write `codec = \"json\"` on \
                       the job, or remove the attribute (`#[serde(skip)]` leaves a field out on both sides)";

impl Refusal {
    fn skipped(field: &str) -> Self {
        Self(format!("the field `{field}` is left out (`skip_serializing_if`): {INSTEAD}"))
    }

    fn count(of: &str, written: usize) -> Self {
        let s = if written == 1 { "" } else { "s" };
        Self(format!(
            "`{of}` writes {written} field{s} and reads another number (`skip_serializing`, `skip_deserializing` or \
             `skip_serializing_if`): {INSTEAD}"
        ))
    }

    pub(super) fn another_value() -> Self {
        Self(
            "it would be read as another value or not at all: its type refuses it, or writes a part of it in another form \
             than it reads (a skipped variant or field, `#[serde(from)]` or `#[serde(try_from)]` with other fields, or \
             `Serialize` by hand), and postcard has no names to tell; or its type changes it as it is read (lower case, \
             no duplicates); write `codec = \"json\"` on the job"
                .to_owned(),
        )
    }

    fn variant(of: &str, variant: &str) -> Self {
        Self(format!(
            "the variant `{of}::{variant}` would be read as another one (a skipped variant, or `#[serde(from)]` with \
             variants in another order): postcard writes its number, not its name; write `codec = \"json\"` on the job, \
             or move the skipped variants to the end"
        ))
    }
}

impl ser::Error for Refusal {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

impl From<postcard::Error> for Refusal {
    fn from(error: postcard::Error) -> Self {
        Self(error.to_string())
    }
}

/// The serializer, which calls postcard's own for every value.
struct Checked<'r> {
    postcard: Serializer<ExtendFlavor<Vec<u8>>>,
    reads: Option<&'r Reads>,
    /// Whether every part so far is one that `reads` knows.
    is_known: bool,
    suspect: Option<Refusal>,
}

impl Checked<'_> {
    /// Notes whether a struct is read with as many fields as are written here.
    #[inline]
    fn part(&mut self, name: &'static str, fields: usize) {
        let takes = self.reads.and_then(|reads| reads.takes(name, None, fields));
        self.note(takes, || Refusal::count(name, fields));
    }

    /// Notes whether a variant is read as itself, with as many fields as are written here.
    #[inline]
    fn variant(&mut self, name: &'static str, index: u32, variant: &'static str, fields: usize) {
        let is_itself = self.reads.and_then(|reads| reads.is_variant(name, index, variant));
        self.note(is_itself, || Refusal::variant(name, variant));
        let takes = self.reads.and_then(|reads| reads.takes(name, Some(index), fields));
        self.note(takes, || Refusal::count(variant, fields));
    }

    /// Notes one part of the value: `is_read` is whether it is read as it is written, `None` if that is not known.
    #[inline]
    fn note(&mut self, is_read: Option<bool>, suspect: impl FnOnce() -> Refusal) {
        if is_read != Some(true) {
            self.is_known = false;
            if is_read.is_some() {
                self.suspect.get_or_insert_with(suspect);
            }
        }
    }
}

/// The fields of a struct that is being written.
struct Fields<'a, 'r> {
    checked: &'a mut Checked<'r>,
    /// The names of the fields that are still to be read.
    to_read: Option<&'static [&'static str]>,
}

impl<'a, 'r> Fields<'a, 'r> {
    #[inline]
    fn new(checked: &'a mut Checked<'r>, name: &'static str, variant: Option<u32>) -> Self {
        let to_read = checked.reads.and_then(|reads| reads.names(name, variant));
        Self { checked, to_read }
    }

    /// Notes whether the fields are read by their names in this order. Two types may have one name.
    #[inline]
    fn field(&mut self, field: &'static str) {
        let place = self.to_read.and_then(|names| names.iter().position(|name| *name == field));
        self.to_read = place.and_then(|place| self.to_read?.get(place + 1..));
        self.checked.is_known &= place.is_some();
    }
}

macro_rules! plain {
    ($($method:ident($($value:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $method(self, $($value: $type),*) -> Result<(), Refusal> {
            Ok(self.postcard.$method($($value),*)?)
        }
    )*};
}

impl<'a, 'r> ser::Serializer for &'a mut Checked<'r> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Fields<'a, 'r>;
    type SerializeStructVariant = Fields<'a, 'r>;

    plain! {
        serialize_bool(v: bool); serialize_char(v: char); serialize_str(v: &str); serialize_bytes(v: &[u8]);
        serialize_i8(v: i8); serialize_i16(v: i16); serialize_i32(v: i32); serialize_i64(v: i64); serialize_i128(v: i128);
        serialize_u8(v: u8); serialize_u16(v: u16); serialize_u32(v: u32); serialize_u64(v: u64); serialize_u128(v: u128);
        serialize_f32(v: f32); serialize_f64(v: f64);
        serialize_none(); serialize_unit(); serialize_unit_struct(name: &'static str);
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }

    #[inline]
    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Refusal> {
        Ok(self.postcard.collect_str(value)?)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refusal> {
        // Postcard writes this byte before the value of an option.
        self.postcard.serialize_u8(1)?;
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refusal> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit_variant(self, name: &'static str, index: u32, variant: &'static str) -> Result<(), Refusal> {
        self.variant(name, index, variant, 0);
        Ok(self.postcard.serialize_unit_variant(name, index, variant)?)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refusal> {
        self.variant(name, index, variant, 1);
        self.postcard.serialize_unit_variant(name, index, variant)?;
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Self, Refusal> {
        self.postcard.serialize_seq(len)?;
        Ok(self)
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Self, Refusal> {
        self.is_known &= self.reads.is_some_and(|reads| reads.has_maps);
        self.postcard.serialize_map(len)?;
        Ok(self)
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Self, Refusal> {
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Self, Refusal> {
        self.part(name, len);
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self, Refusal> {
        self.variant(name, index, variant, len);
        self.postcard.serialize_unit_variant(name, index, variant)?;
        Ok(self)
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Fields<'a, 'r>, Refusal> {
        self.part(name, len);
        Ok(Fields::new(self, name, None))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Fields<'a, 'r>, Refusal> {
        self.variant(name, index, variant, len);
        self.postcard.serialize_unit_variant(name, index, variant)?;
        Ok(Fields::new(self, name, Some(index)))
    }
}

macro_rules! elements {
    ($($trait:ident $($method:ident)+;)*) => {$(
        impl ser::$trait for &mut Checked<'_> {
            type Ok = ();
            type Error = Refusal;

            $(
                #[inline]
                fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
                    value.serialize(&mut **self)
                }
            )+

            #[inline]
            fn end(self) -> Result<(), Refusal> {
                Ok(())
            }
        }
    )*};
}

elements! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
    SerializeMap serialize_key serialize_value;
}

macro_rules! fields {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Fields<'_, '_> {
            type Ok = ();
            type Error = Refusal;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, field: &'static str, value: &T) -> Result<(), Refusal> {
                self.field(field);
                value.serialize(&mut *self.checked)
            }

            /// serde's derive calls this method exactly where `skip_serializing_if` says yes.
            #[inline]
            fn skip_field(&mut self, field: &'static str) -> Result<(), Refusal> {
                Err(Refusal::skipped(field))
            }

            #[inline]
            fn end(self) -> Result<(), Refusal> {
                Ok(())
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

#[cfg(test)]
mod tests;

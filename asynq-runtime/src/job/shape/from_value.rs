//! Reads a value into today's type, by serde's own rules: names instead of places.
//!
//! A field that the type does not have is ignored, one that the value does not have is its default or `None`, an alias is
//! followed, and an integer may have another width as long as it fits, as in a self-describing format. No number is rounded.

use std::{fmt, iter};

use serde::{
    de::{
        self, DeserializeSeed, Deserializer as _, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{Value, value::Name};

/// The deserializer of a value.
#[derive(Debug, Clone, Copy)]
pub(in crate::job) struct FromValue<'de>(pub(in crate::job) &'de Value<'de>);

/// Why a value does not fit the type, without the value: the text goes to logs and is kept with the task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::job) struct Misfit(String);

impl de::Error for Misfit {
    /// Drops the words of a type about its value, because they may quote the value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("a value that its type does not take".to_owned())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(format!("invalid type: {}, expected {expected}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(format!("invalid value: {}, expected {expected}", kind(found)))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self(format!("invalid length {length}, expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("an unknown variant; this program has {}", expected.join(", ")))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("an unknown field; this program has {}", expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self(format!("the field `{field}` is missing and has no default"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self(format!("the field `{field}` is there twice"))
    }
}

/// Returns the kind of a value, in serde's words.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a floating point number",
        Unexpected::Char(_) => "a character",
        Unexpected::Str(_) => "a string",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit => "nothing",
        Unexpected::Option => "an option",
        Unexpected::NewtypeStruct => "a newtype",
        Unexpected::Seq => "a sequence",
        Unexpected::Map => "a struct or a map",
        Unexpected::Enum
        | Unexpected::UnitVariant
        | Unexpected::NewtypeVariant
        | Unexpected::TupleVariant
        | Unexpected::StructVariant => "an enum",
        Unexpected::Other(_) => "another value",
    }
}

impl<'de> FromValue<'de> {
    /// Returns the value inside of options, which a field takes that has become mandatory.
    fn inner(self) -> &'de Value<'de> {
        match self.0 {
            Value::Some(inner) => FromValue(inner).inner(),
            other => other,
        }
    }

    fn float<V: Visitor<'de>>(self, visitor: V, fits: impl Fn(f64) -> bool) -> Result<V::Value, Misfit> {
        let rounded = || Misfit("a number that would be rounded".to_owned());
        match *self.inner() {
            Value::Float(number) if fits(number) || number.is_nan() => visitor.visit_f64(number),
            Value::Float(_) | Value::Large(_) => Err(rounded()),
            // Integers of 24 bits are exact in both.
            #[expect(clippy::cast_precision_loss, reason = "24 bits")]
            Value::Int(number) if number.unsigned_abs() <= 1 << 24 => visitor.visit_f64(number as f64),
            Value::Int(_) => Err(rounded()),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Visits the fields of a struct, entries whose keys are names, or the one variant of an enum: in a box, so that each struct of a
    /// program is compiled for one iterator.
    fn named<V: Visitor<'de>>(fields: Entries<'de>, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_map(MapDeserializer::new(fields))
    }

    fn elements<V: Visitor<'de>>(values: &'de [Value<'de>], visitor: V) -> Result<V::Value, Misfit> {
        let mut elements = SeqDeserializer::new(values.iter());
        let read = visitor.visit_seq(&mut elements)?;
        if elements.end().is_err() {
            return Err(Misfit(format!("a sequence of {} elements, which is longer than the type", values.len())));
        }
        Ok(read)
    }
}

impl<'de> de::Deserializer<'de> for FromValue<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_i128(*number),
            },
            Value::Large(number) => visitor.visit_u128(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Char(value) => visitor.visit_char(*value),
            Value::Str(text) => visitor.visit_borrowed_str(text),
            Value::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::Unit => visitor.visit_unit(),
            Value::None => visitor.visit_none(),
            Value::Some(inner) => FromValue(inner).deserialize_any(visitor),
            Value::Seq(values) => Self::elements(values, visitor),
            Value::Map(entries) => {
                visitor.visit_map(MapDeserializer::new(entries.iter().map(|(key, value)| (key, value))))
            }
            Value::Struct(fields) => Self::named(named_among(fields, &[]), visitor),
            Value::Variant(name, content) if **content == Value::Unit => visitor.visit_borrowed_str(name),
            // An enum is externally tagged, as in a self-describing format.
            Value::Variant(name, content) => Self::named(Box::new(iter::once((*name, &**content))), visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::None => visitor.visit_none(),
            Value::Some(inner) => visitor.visit_some(FromValue(inner)),
            // A mandatory field that has become an option.
            other => visitor.visit_some(FromValue(other)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::float_cmp,
            reason = "it is the question whether it is exact"
        )]
        self.float(visitor, |number| f64::from(number as f32) == number)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.float(visitor, |_| true)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::Seq(values) = self.inner() else { return self.deserialize_any(visitor) };
        let byte = |value: &Value<'_>| match value {
            Value::Int(number) => u8::try_from(*number).ok(),
            _ => None,
        };
        match values.iter().map(byte).collect() {
            Some(bytes) => visitor.visit_byte_buf(bytes),
            None => Err(Misfit("a sequence whose elements are not bytes".to_owned())),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.inner() {
            Value::Bytes(bytes) => visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied())),
            inner => FromValue(inner).deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match (self.inner().as_fields(known), self.inner()) {
            (Some(fields), _) => Self::named(fields, visitor),
            // A text that has become a struct with a `Deserialize` of its own.
            (None, Value::Str(text)) => visitor.visit_borrowed_str(text),
            (None, Value::Map(_)) => Err(Misfit("a map whose keys are not the names of fields".to_owned())),
            (None, other) => Err(de::Error::invalid_type(other.unexpected(), &visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.inner() {
            Value::Variant(name, content) => visitor.visit_enum(OneVariant(name, content)),
            Value::Str(name) => visitor.visit_enum(OneVariant(name, &Value::Unit)),
            _ => Err(de::Error::invalid_type(Unexpected::Other(""), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    /// Takes a sequence without elements for `()`, because the recorder of shapes writes a type without content down as such a tuple.
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.inner() {
            Value::Seq(values) if values.is_empty() => visitor.visit_unit(),
            inner => FromValue(inner).deserialize_any(visitor),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_unit(visitor)
    }

    /// Returns `false`, as postcard does: types such as ids and addresses have their compact form in the value.
    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string tuple tuple_struct map identifier
    }
}

/// Entries by name.
type Entries<'de> = Box<dyn Iterator<Item = (&'de str, &'de Value<'de>)> + 'de>;

/// Returns fields under the names that a type with fields of the `known` names has for them.
fn named_among<'de>(fields: &'de [(Name<'de>, Value<'de>)], known: &'static [&'static str]) -> Entries<'de> {
    Box::new(fields.iter().map(|(name, value)| (name.among(known), value)))
}

impl<'de> Value<'de> {
    /// Returns what a struct with fields of the `known` names takes: fields, entries whose keys are all names, and a variant with its
    /// content, which is externally tagged as in a self-describing format. Elements have places, which say nothing about names.
    fn as_fields(&'de self, known: &'static [&'static str]) -> Option<Entries<'de>> {
        match self {
            Self::Struct(fields) => Some(named_among(fields, known)),
            Self::Map(entries) => {
                let name = |key: &'de Self| match key {
                    Self::Str(name) => Some(name.as_str()),
                    Self::Variant(name, content) if **content == Self::Unit => Some(*name),
                    _ => None,
                };
                let named: Option<Vec<_>> = entries.iter().map(|(key, value)| Some((name(key)?, value))).collect();
                Some(Box::new(named?.into_iter()))
            }
            Self::Variant(name, content) if **content != Self::Unit => Some(Box::new(iter::once((*name, &**content)))),
            _ => None,
        }
    }

    /// Returns the kind of the value, in serde's words.
    fn unexpected(&self) -> Unexpected<'static> {
        match self {
            Self::Bool(_) => Unexpected::Bool(false),
            Self::Int(_) | Self::Large(_) => Unexpected::Unsigned(0),
            Self::Float(_) => Unexpected::Float(0.0),
            Self::Char(_) => Unexpected::Char(' '),
            Self::Str(_) => Unexpected::Str(""),
            Self::Bytes(_) => Unexpected::Bytes(&[]),
            Self::Unit => Unexpected::Unit,
            Self::None | Self::Some(_) => Unexpected::Option,
            Self::Seq(_) => Unexpected::Seq,
            Self::Map(_) | Self::Struct(_) => Unexpected::Map,
            Self::Variant(..) => Unexpected::Enum,
        }
    }
}

impl<'de> IntoDeserializer<'de, Misfit> for &'de Value<'de> {
    type Deserializer = FromValue<'de>;

    fn into_deserializer(self) -> FromValue<'de> {
        FromValue(self)
    }
}

struct OneVariant<'de>(&'de str, &'de Value<'de>);

impl<'de> de::EnumAccess<'de> for OneVariant<'de> {
    type Error = Misfit;
    type Variant = FromValue<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, FromValue<'de>), Misfit> {
        let name: StrDeserializer<'_, Misfit> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, FromValue(self.1)))
    }
}

impl<'de> de::VariantAccess<'de> for FromValue<'de> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.0 {
            Value::Unit => Ok(()),
            _ => Err(Misfit("a variant that holds something and should hold nothing".to_owned())),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misfit> {
        match self.0 {
            Value::Unit => Err(Misfit("a variant that holds nothing and should hold something".to_owned())),
            _ => seed.deserialize(self),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Seq(values) => Self::elements(values, visitor),
            _ => Err(de::Error::invalid_type(Unexpected::Other(""), &visitor)),
        }
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            // A unit variant that got fields with defaults.
            Value::Unit => Self::named(Box::new(iter::empty()), visitor),
            _ => de::Deserializer::deserialize_struct(self, "", fields, visitor),
        }
    }
}

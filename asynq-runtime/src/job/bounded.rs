//! Bounds for values that are read from postcard, which has none itself.
//!
//! One byte of a payload may begin another level of a value, and a stack overflow ends the process, because it is not a panic. And the
//! elements of a sequence may take no byte, so that ten bytes announce more of them than a processor can count.

use std::{cell::Cell, fmt};

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Deeper than this no value is read, and no arguments and no checkpoint are written: the bound that serde_json has, too.
pub(super) const DEEPEST: usize = 128;
/// Why a deeper value is refused.
pub(super) const TOO_DEEP: &str = "the value is nested deeper than 128 levels, the most that are read";
/// Most parts of a value per byte of the payload: a number in a newtype in a struct is three parts in one byte.
const PARTS_PER_BYTE: usize = 4;
/// Most parts of a value beyond that: units and empty structs take no byte.
const MOST_EMPTY: usize = 10_000;

/// Reads a postcard value as `postcard::take_from_bytes` does, unless its parts are nested too deeply or too many. The outer error says
/// which.
pub(super) fn take_from_bytes<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
) -> Result<Result<(T, &'de [u8]), postcard::Error>, &'static str> {
    let bounds = Bounds::of(bytes);
    let mut postcard = postcard::Deserializer::from_bytes(bytes);
    let read = T::deserialize(Bounded(&mut postcard, Level { bounds: &bounds, depth: 0 }));
    // A type may replace the error.
    if let Some(why) = bounds.why() {
        return Err(why);
    }
    Ok(read.and_then(|value| Ok((value, postcard.finalize()?))))
}

/// The number of parts that a value may still have.
#[derive(Debug)]
pub(super) struct Bounds {
    left: Cell<usize>,
    /// Why reading stopped, if not by an error of postcard, which carries no text.
    why: Cell<Option<&'static str>>,
}

impl Bounds {
    pub(super) fn of(payload: &[u8]) -> Self {
        let left = payload.len().saturating_mul(PARTS_PER_BYTE).saturating_add(MOST_EMPTY);
        Self { left: Cell::new(left), why: Cell::default() }
    }

    /// Counts a part at this depth.
    ///
    /// # Errors
    ///
    /// The part is too deep, or one too many.
    pub(super) fn part<E: de::Error>(&self, depth: usize) -> Result<(), E> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return self.stop("the value has more parts than the payload has bytes");
        };
        self.left.set(left);
        if depth > DEEPEST { self.stop(TOO_DEEP) } else { Ok(()) }
    }

    /// Returns an error, and keeps its text.
    pub(super) fn stop<T, E: de::Error>(&self, why: &'static str) -> Result<T, E> {
        self.why.set(Some(why));
        Err(E::custom(why))
    }

    /// Returns why reading stopped, if it was stopped here.
    pub(super) fn why(&self) -> Option<&'static str> {
        self.why.get()
    }
}

/// A step of serde between a type and postcard: a deserializer, a visitor, a seed or an access.
struct Bounded<'b, X>(X, Level<'b>);

#[derive(Clone, Copy)]
struct Level<'b> {
    bounds: &'b Bounds,
    depth: usize,
}

impl<'b> Level<'b> {
    /// Counts the part that is read from this deserializer, one level deeper.
    fn inside<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Bounded<'b, D>, D::Error> {
        let depth = self.depth + 1;
        self.bounds.part::<D::Error>(depth)?;
        Ok(Bounded(deserializer, Level { depth, ..self }))
    }
}

macro_rules! leaves {
    ($($method:ident($($name:ident: $type:ty)?);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)? visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)? visitor)
        }
    )*};
}

macro_rules! nested {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Bounded(visitor, self.1))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    leaves! {
        deserialize_bool(); deserialize_char(); deserialize_str(); deserialize_string();
        deserialize_bytes(); deserialize_byte_buf(); deserialize_unit(); deserialize_unit_struct(name: &'static str);
        deserialize_i8(); deserialize_i16(); deserialize_i32(); deserialize_i64(); deserialize_i128();
        deserialize_u8(); deserialize_u16(); deserialize_u32(); deserialize_u64(); deserialize_u128();
        deserialize_f32(); deserialize_f64();
        // Postcard refuses them.
        deserialize_any(); deserialize_identifier(); deserialize_ignored_any();
    }

    nested! {
        deserialize_option(); deserialize_seq(); deserialize_map(); deserialize_tuple(len: usize);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(self.1.inside(deserializer)?)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(self.1.inside(deserializer)?)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Bounded(access, self.1))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Bounded(access, self.1))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Bounded(access, self.1))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(self.1.inside(deserializer)?)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Bounded(seed, self.1))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Bounded(seed, self.1))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Bounded(seed, self.1))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'b, A> {
    type Error = A::Error;
    type Variant = Bounded<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        // The number of the variant is not a part of the value.
        let (number, content) = self.0.variant_seed(seed)?;
        Ok((number, Bounded(content, self.1)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Bounded(seed, self.1))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Bounded(visitor, self.1))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Bounded(visitor, self.1))
    }
}

//! Samples with their texts and numbers, as JSON and as arguments of a shape.

use std::{cell::Cell, rc::Rc};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value as Json;

use crate::job::shape::Leaf;

/// A value whose texts and numbers are still open.
#[derive(Debug, PartialEq)]
pub(super) enum Sample<'s> {
    Fixed(Json),
    /// `()`, a unit struct or a `PhantomData`: null in JSON, and a tuple without elements in a shape.
    Nothing,
    Text,
    Number(Leaf),
    List(Vec<Rc<Sample<'s>>>),
    /// An array of equal values.
    Repeat(Rc<Sample<'s>>, usize),
    /// A map of at most one entry.
    Map(Option<(Rc<Sample<'s>>, Rc<Sample<'s>>)>),
    Object(Vec<(&'s str, Rc<Sample<'s>>)>),
}

/// The texts and numbers of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents {
    pub(super) text: &'static str,
    pub(super) numbers: Numbers,
    /// The only place that has such a number, where not all have; places with a number are counted from zero.
    pub(super) only: Option<usize>,
}

/// The size of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Not zero, which a `NonZero` refuses.
    One,
    Smallest,
    Largest,
}

impl Sample<'_> {
    /// Returns how many places have a number.
    pub(super) fn numbers(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Nothing | Self::Text | Self::Map(None) => 0,
            Self::Number(_) => 1,
            Self::List(items) => items.iter().map(|item| item.numbers()).sum(),
            Self::Repeat(item, _) => item.numbers(),
            Self::Map(Some((key, value))) => key.numbers() + value.numbers(),
            Self::Object(fields) => fields.iter().map(|(_, value)| value.numbers()).sum(),
        }
    }

    /// Returns whether a text is still open.
    pub(super) fn has_text(&self) -> bool {
        match self {
            Self::Text => true,
            Self::Fixed(_) | Self::Nothing | Self::Number(_) | Self::Map(None) => false,
            Self::List(items) => items.iter().any(|item| item.has_text()),
            Self::Repeat(item, _) => item.has_text(),
            Self::Map(Some((key, value))) => key.has_text() || value.has_text(),
            Self::Object(fields) => fields.iter().any(|(_, value)| value.has_text()),
        }
    }

    /// Returns the bytes of JSON; `None` for a map with keys that JSON does not have.
    pub(super) fn to_json(&self, contents: Contents) -> Option<Vec<u8>> {
        let place = Cell::new(0);
        serde_json::to_vec(&Written { sample: self, contents, place: &place, is_json: true }).ok()
    }

    /// Returns the value as [`encode_sample`](crate::job::shape::encode_sample) takes it: a map is a list of pairs, and an
    /// integer of more than 64 bits is a text.
    pub(super) fn to_arguments(&self, contents: Contents) -> Option<Json> {
        let place = Cell::new(0);
        serde_json::to_value(Written { sample: self, contents, place: &place, is_json: false }).ok()
    }
}

#[derive(Clone, Copy)]
struct Written<'w> {
    sample: &'w Sample<'w>,
    contents: Contents,
    /// The number of the next place that has a number.
    place: &'w Cell<usize>,
    is_json: bool,
}

impl<'w> Written<'w> {
    fn inside(&self, sample: &'w Sample<'w>) -> Self {
        Self { sample, ..*self }
    }

    fn number<S: Serializer>(&self, leaf: Leaf, serializer: S) -> Result<S::Ok, S::Error> {
        let place = self.place.replace(self.place.get() + 1);
        let is_here = self.contents.only.is_none_or(|only| only == place);
        let numbers = if is_here { self.contents.numbers } else { Numbers::One };
        macro_rules! integer {
            ($type:ty) => {
                match numbers {
                    Numbers::One => serializer.serialize_u8(1),
                    Numbers::Smallest if fits(<$type>::MIN) || self.is_json => <$type>::MIN.serialize(serializer),
                    Numbers::Largest if fits(<$type>::MAX) || self.is_json => <$type>::MAX.serialize(serializer),
                    Numbers::Smallest => serializer.collect_str(&<$type>::MIN),
                    Numbers::Largest => serializer.collect_str(&<$type>::MAX),
                }
            };
        }
        match leaf {
            Leaf::I8 => integer!(i8),
            Leaf::I16 => integer!(i16),
            Leaf::I32 => integer!(i32),
            Leaf::I64 => integer!(i64),
            Leaf::I128 => integer!(i128),
            Leaf::U8 => integer!(u8),
            Leaf::U16 => integer!(u16),
            Leaf::U32 => integer!(u32),
            Leaf::U64 => integer!(u64),
            Leaf::U128 => integer!(u128),
            Leaf::Float32 if numbers == Numbers::Largest => serializer.serialize_f32(f32::MAX),
            Leaf::Float64 if numbers == Numbers::Largest => serializer.serialize_f64(f64::MAX),
            Leaf::Float32 | Leaf::Float64 => serializer.serialize_f32(0.5),
            // No number.
            Leaf::Bool | Leaf::Char | Leaf::Str | Leaf::Bytes => serializer.serialize_unit(),
        }
    }
}

/// Returns whether a number of `serde_json` holds this integer.
fn fits<N: TryInto<i64> + TryInto<u64> + Copy>(number: N) -> bool {
    TryInto::<i64>::try_into(number).is_ok() || TryInto::<u64>::try_into(number).is_ok()
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.sample {
            Sample::Fixed(json) => json.serialize(serializer),
            Sample::Nothing if self.is_json => serializer.serialize_unit(),
            Sample::Nothing => serializer.collect_seq::<[u8; 0]>([]),
            Sample::Text => serializer.serialize_str(self.contents.text),
            Sample::Number(leaf) => self.number(*leaf, serializer),
            Sample::List(items) => serializer.collect_seq(items.iter().map(|item| self.inside(item))),
            Sample::Repeat(item, n) => {
                let place = self.place.get();
                // The elements are equal, so that a number has the same place in each of them.
                let again = |_| {
                    self.place.set(place);
                    self.inside(item)
                };
                serializer.collect_seq((0..*n).map(again))
            }
            Sample::Map(entry) if self.is_json => {
                serializer.collect_map(entry.iter().map(|(key, value)| (self.inside(key), self.inside(value))))
            }
            Sample::Map(entry) => {
                serializer.collect_seq(entry.iter().map(|(key, value)| [self.inside(key), self.inside(value)]))
            }
            Sample::Object(fields) => {
                let mut object = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    object.serialize_entry(name, &self.inside(value))?;
                }
                object.end()
            }
        }
    }
}

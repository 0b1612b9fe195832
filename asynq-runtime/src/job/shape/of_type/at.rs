//! The deserializer that records: every request is written down and answered with a sample.

mod access;
mod probe_entries;

use std::any::type_name;

use serde::{
    de::{self, Visitor},
    forward_to_deserialize_any,
};

use self::{
    access::{Entry, Fields, OneVariant},
    probe_entries::ProbeEntries,
};
use super::{
    arena::{Arena, Choice, Form, Named, Shape, Slot},
    owner,
    recorder::{Recorder, Stop},
    sample, short, short_name,
};
use crate::job::shape::Leaf;

/// The name that a [`Secret`](crate::Secret) gives itself to the recorder. The recorder recognises it by its address, because
/// a type of the user's may have the same name.
pub(in crate::job) static SECRET: &str = "asynq::Secret";

/// A tuple longer than this is an array: all its elements are of one type.
const LONGEST_TUPLE: usize = 16;

/// The deserializer of one slot.
pub(super) struct At<'r> {
    recorder: &'r mut Recorder,
    slot: Slot,
}

impl<'r> At<'r> {
    /// Returns the deserializer of the whole type.
    pub(super) fn root(recorder: &'r mut Recorder) -> Self {
        let slot = recorder.root;
        Self { recorder, slot }
    }

    /// Writes a leaf down, and returns the index of its sample.
    fn leaf(&mut self, leaf: Leaf) -> usize {
        self.recorder.arena.see(self.slot, Shape::Leaf(leaf));
        self.recorder.last_leaf = Some(self.slot);
        self.recorder.requests += 1;
        *self.recorder.arena.sample(self.slot)
    }

    /// Returns the slot inside an option or a sequence, and whether to answer with nothing inside.
    fn inside(&mut self, shape: fn(Slot) -> Shape) -> (Slot, bool) {
        self.recorder.requests += 1;
        let known = match self.recorder.arena.shape(self.slot) {
            Shape::Option(inner) | Shape::Seq(inner) => Some(*inner),
            _ => None,
        };
        let inner = known.unwrap_or_else(|| self.recorder.arena.slot());
        self.recorder.arena.see(self.slot, shape(inner));
        (inner, self.nothing(inner))
    }

    fn nothing(&self, inner: Slot) -> bool {
        let arena = &self.recorder.arena;
        arena.is_avoided(self.slot) || (self.recorder.minimal() && arena.is_seen(inner))
    }

    /// Visits the inside of a named type; a new type is made with `form`.
    fn named<'de, V: Visitor<'de>>(
        self,
        form: &dyn Fn(&mut Arena) -> Form,
        visit: impl FnOnce(&mut Recorder, Named) -> Result<V::Value, Stop>,
    ) -> Result<V::Value, Stop> {
        let (recorder, named) = self.enter(type_name::<V>(), form)?;
        let result = visit(recorder, named);
        recorder.leave(named);
        result
    }

    /// Goes into the type whose visitor is called so.
    fn enter(
        self,
        visitor: &'static str,
        form: &dyn Fn(&mut Arena) -> Form,
    ) -> Result<(&'r mut Recorder, Named), Stop> {
        let recorder = self.recorder;
        recorder.requests += 1;
        let named = recorder.arena.named(visitor, form);
        recorder.arena.see(self.slot, Shape::Named(named));
        recorder.enter(named)?;
        Ok((recorder, named))
    }

    /// Stops at a request that only a self-describing format could answer.
    fn opaque<T>(self) -> Result<T, Stop> {
        let name = short_name::<T>();
        self.recorder.arena.see(self.slot, Shape::Opaque(name));
        self.recorder.self_describing.get_or_insert_with(|| short(owner(type_name::<T>())));
        Err(self.recorder.stop())
    }
}

macro_rules! leaves {
    ($($method:ident $visit:ident $leaf:ident $samples:ident as $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
            let sample = self.leaf(Leaf::$leaf);
            visitor.$visit(sample::$samples.get(sample).copied().unwrap_or_default() as $type)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for At<'_> {
    type Error = Stop;

    leaves! {
        deserialize_bool visit_bool Bool BOOLS as bool;
        deserialize_i8 visit_i8 I8 INTEGERS as i8;
        deserialize_i16 visit_i16 I16 INTEGERS as i16;
        deserialize_i32 visit_i32 I32 INTEGERS as i32;
        deserialize_i64 visit_i64 I64 INTEGERS as i64;
        deserialize_i128 visit_i128 I128 INTEGERS as i128;
        deserialize_u8 visit_u8 U8 INTEGERS as u8;
        deserialize_u16 visit_u16 U16 INTEGERS as u16;
        deserialize_u32 visit_u32 U32 INTEGERS as u32;
        deserialize_u64 visit_u64 U64 INTEGERS as u64;
        deserialize_u128 visit_u128 U128 INTEGERS as u128;
        deserialize_f32 visit_f32 Float32 FLOATS as f32;
        deserialize_f64 visit_f64 Float64 FLOATS as f64;
        deserialize_char visit_char Char CHARS as char;
        deserialize_str visit_str Str STRINGS as &str;
        deserialize_string visit_str Str STRINGS as &str;
        deserialize_bytes visit_bytes Bytes BYTES as &[u8];
        deserialize_byte_buf visit_bytes Bytes BYTES as &[u8];
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        let (inner, nothing) = self.inside(Shape::Option);
        if nothing {
            return visitor.visit_none();
        }
        let result = visitor.visit_some(At { recorder: self.recorder, slot: inner });
        self.recorder.note(Choice::Inside(self.slot), result)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        let (inner, nothing) = self.inside(Shape::Seq);
        if nothing {
            return visitor.visit_seq(Fields::new(self.recorder, vec![]));
        }
        let result = visitor.visit_seq(Fields::new(self.recorder, vec![inner]));
        self.recorder.note(Choice::Inside(self.slot), result)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let (key, value) = match self.recorder.arena.shape(self.slot) {
            Shape::Map(key, value) => (*key, *value),
            _ => (self.recorder.arena.slot(), self.recorder.arena.slot()),
        };
        self.recorder.arena.see(self.slot, Shape::Map(key, value));
        self.recorder.reads.has_maps = true;
        self.recorder.requests += 1;
        if self.nothing(value) {
            return visitor.visit_map(Entry::new(self.recorder, None));
        }
        let result = visitor.visit_map(Entry::new(self.recorder, Some((key, value))));
        self.recorder.note(Choice::Inside(self.slot), result)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.recorder.arena.see(self.slot, Shape::Tuple(vec![]));
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Stop> {
        if std::ptr::eq(name, SECRET) {
            // A secret is its value on the wire, and not a part of the shape.
            self.recorder.arena.note_secret(self.slot);
            return visitor.visit_newtype_struct(self);
        }
        self.named::<V>(&|arena| Form::Newtype(arena.slot()), |recorder, named| match *recorder.arena.form(named) {
            Form::Newtype(slot) => visitor.visit_newtype_struct(At { recorder, slot }),
            _ => Err(recorder.stop()),
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        self.recorder.requests += 1;
        let slots = match self.recorder.arena.shape(self.slot) {
            Shape::Tuple(slots) => slots.clone(),
            Shape::Array(slot, n) => vec![*slot; *n],
            _ if len > LONGEST_TUPLE => {
                let slot = self.recorder.arena.slot();
                self.recorder.arena.see(self.slot, Shape::Array(slot, len));
                vec![slot; len]
            }
            _ => {
                let slots = self.recorder.arena.slots(len);
                self.recorder.arena.see(self.slot, Shape::Tuple(slots.clone()));
                slots
            }
        };
        visitor.visit_seq(Fields::new(self.recorder, slots))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let form = |arena: &mut Arena| Form::Tuple(arena.slots(len));
        self.named::<V>(&form, |recorder, named| match recorder.arena.form(named) {
            Form::Tuple(slots) => {
                let slots = slots.clone();
                Fields::visit(recorder, slots, (name, None), visitor)
            }
            _ => Err(recorder.stop()),
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.recorder.reads.see_names(name, None, fields);
        self.named::<V>(&|arena| arena.structure(fields), |recorder, named| {
            let form = recorder.arena.form(named);
            let (Form::Struct(_), Some(slots)) = (form, form.slots()) else { return Err(recorder.stop()) };
            match recorder.probe_of((named, None)) {
                Some(probe) => visitor.visit_map(ProbeEntries::new(recorder, probe)),
                None => Fields::visit(recorder, slots, (name, None), visitor),
            }
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.named::<V>(&|_| Form::enumeration(names), |recorder, named| {
            recorder.reads.see_enum(name, names);
            let again = recorder.minimal();
            let towards = recorder.probe.and_then(|(probe, _)| recorder.arena.variant_towards(named, probe.of));
            let Some(index) = towards.or_else(|| recorder.arena.choose_variant(named, again)) else {
                return Err(recorder.stop());
            };
            recorder.arena.begin_variant(named, index);
            let result = visitor.visit_enum(OneVariant { recorder: &mut *recorder, named, name, index });
            if result.is_ok() {
                recorder.arena.variant_works(named, index);
            }
            recorder.note(Choice::Variant(named, index), result)
        })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
        self.opaque::<V::Value>()
    }

    forward_to_deserialize_any! { identifier ignored_any }

    fn is_human_readable(&self) -> bool {
        self.recorder.is_human_readable
    }
}

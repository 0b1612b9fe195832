//! The sources from which a visitor reads elements, entries and variants.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::de::{
    self, DeserializeSeed, IntoDeserializer as _, Visitor,
    value::{StrDeserializer, U32Deserializer},
};

use super::{
    super::{
        arena::{Arena, Form, Named, Slot},
        recorder::{Recorder, Stop},
    },
    At,
    probe_entries::ProbeEntries,
};

/// The elements of a sequence, a tuple or a struct.
pub(super) struct Fields<'r> {
    recorder: &'r mut Recorder,
    slots: std::vec::IntoIter<Slot>,
    /// Counts the elements that were read.
    read: Option<&'r mut usize>,
}

impl<'r> Fields<'r> {
    pub(super) fn new(recorder: &'r mut Recorder, slots: Vec<Slot>) -> Self {
        Self { recorder, slots: slots.into_iter(), read: None }
    }

    /// Lets `visitor` read the fields of the struct or variant that serde calls `name`, and notes how many it took. serde
    /// announces aliases as if they were fields, so the announced number says nothing.
    pub(super) fn visit<'de, V: Visitor<'de>>(
        recorder: &'r mut Recorder,
        slots: Vec<Slot>,
        (name, variant): (&'static str, Option<u32>),
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let mut read = 0;
        let fields = Fields { recorder: &mut *recorder, slots: slots.into_iter(), read: Some(&mut read) };
        let value = visitor.visit_seq(fields)?;
        recorder.reads.see(name, variant, read);
        Ok(value)
    }
}

impl<'de> de::SeqAccess<'de> for Fields<'_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stop> {
        let Some(slot) = self.slots.next() else { return Ok(None) };
        if let Some(read) = &mut self.read {
            **read += 1;
        }
        seed.deserialize(At { recorder: self.recorder, slot }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.slots.len())
    }
}

/// The one entry of a map, or none.
pub(super) struct Entry<'r> {
    recorder: &'r mut Recorder,
    key: Option<Slot>,
    value: Option<Slot>,
}

impl<'r> Entry<'r> {
    pub(super) fn new(recorder: &'r mut Recorder, entry: Option<(Slot, Slot)>) -> Self {
        Self { recorder, key: entry.map(|(key, _)| key), value: entry.map(|(_, value)| value) }
    }
}

impl<'de> de::MapAccess<'de> for Entry<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        let Some(slot) = self.key.take() else { return Ok(None) };
        seed.deserialize(At { recorder: self.recorder, slot }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        let Some(slot) = self.value.take() else { return Err(Stop) };
        seed.deserialize(At { recorder: self.recorder, slot })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(usize::from(self.key.is_some()))
    }
}

/// The variant that this pass shows.
pub(super) struct OneVariant<'r> {
    pub(super) recorder: &'r mut Recorder,
    pub(super) named: Named,
    /// The name that serde gives the enum.
    pub(super) name: &'static str,
    pub(super) index: usize,
}

impl OneVariant<'_> {
    fn form(&mut self, form: &dyn Fn(&mut Arena) -> Form) -> Result<Form, Stop> {
        self.recorder.arena.variant_form(self.named, self.index, form).ok_or(Stop)
    }

    fn elements<'de, V: Visitor<'de>>(
        mut self,
        form: &dyn Fn(&mut Arena) -> Form,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let slots = self.form(form)?.slots().ok_or(Stop)?;
        let part = (self.name, u32::try_from(self.index).ok());
        if let Some(probe) = self.recorder.probe_of((self.named, Some(self.index))) {
            return visitor.visit_map(ProbeEntries::new(self.recorder, probe));
        }
        Fields::visit(self.recorder, slots, part, visitor)
    }

    /// Notes how many fields a variant has that holds none or one.
    fn reads(&mut self, fields: usize) {
        self.recorder.reads.see(self.name, u32::try_from(self.index).ok(), fields);
    }
}

impl<'de> de::EnumAccess<'de> for OneVariant<'_> {
    type Error = Stop;
    type Variant = Self;

    /// Binary formats name a variant by its number, others by its name.
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Stop> {
        let by_name = self.recorder.is_human_readable;
        let variant = match self.recorder.arena.variants(self.named).get(self.index) {
            Some(variant) if by_name => {
                let name: StrDeserializer<'_, Stop> = variant.name.into_deserializer();
                seed.deserialize(name)?
            }
            _ => {
                let number: U32Deserializer<Stop> = u32::try_from(self.index).map_err(|_| Stop)?.into_deserializer();
                // A number that the type refuses is that of an alias: no other sample of a leaf would help.
                let variant = seed.deserialize(number).map_err(|_| self.recorder.stop())?;
                // So is a number that a variant with `#[serde(other)]` takes for its own.
                let mut mark = DefaultHasher::new();
                std::mem::discriminant(&variant).hash(&mut mark);
                if self.recorder.arena.is_taken_twice(self.named, self.index, mark.finish()) {
                    return Err(self.recorder.stop());
                }
                variant
            }
        };
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for OneVariant<'_> {
    type Error = Stop;

    fn unit_variant(mut self) -> Result<(), Stop> {
        self.reads(0);
        self.form(&|_| Form::Unit).map(drop)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Stop> {
        self.reads(1);
        match self.form(&|arena| Form::Newtype(arena.slot()))? {
            Form::Newtype(slot) => seed.deserialize(At { recorder: self.recorder, slot }),
            _ => Err(Stop),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        self.elements(&|arena| Form::Tuple(arena.slots(len)), visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Stop> {
        self.recorder.reads.see_names(self.name, u32::try_from(self.index).ok(), fields);
        self.elements(&|arena| arena.structure(fields), visitor)
    }
}

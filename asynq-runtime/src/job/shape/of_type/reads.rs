//! How much a `Deserialize` reads of each struct and variant, by the names that serde gives them.

use std::collections::BTreeMap;

/// A struct (`None`), or the variant of an enum that is read for this number.
type Part = (&'static str, Option<u32>);

/// How the named types inside a type are read. Two types may have the same name: then each of their counts is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    fields: BTreeMap<Part, Vec<usize>>,
    names: BTreeMap<Part, Vec<&'static [&'static str]>>,
    variants: BTreeMap<&'static str, Vec<&'static [&'static str]>>,
    /// Whether a map is read anywhere.
    pub(crate) has_maps: bool,
    /// Whether the whole type is known, so that a part which is not here is not read.
    pub(crate) is_whole: bool,
    /// Whether a payload may nest the type without end or give it parts that take no byte, or the type is known in part.
    pub(crate) needs_bounds: bool,
}

impl Reads {
    /// Notes that a struct or a variant was read to its end with this many fields.
    pub(super) fn see(&mut self, name: &'static str, variant: Option<u32>, fields: usize) {
        note(self.fields.entry((name, variant)).or_default(), fields);
    }

    /// Notes the names of the fields of a struct or a variant, in their order; an alias follows the name that it stands for.
    pub(super) fn see_names(&mut self, name: &'static str, variant: Option<u32>, fields: &'static [&'static str]) {
        note(self.names.entry((name, variant)).or_default(), fields);
    }

    /// Notes an enum with these variants, in the order of their numbers; an alias follows the name that it stands for.
    pub(super) fn see_enum(&mut self, name: &'static str, variants: &'static [&'static str]) {
        note(self.variants.entry(name).or_default(), variants);
    }

    /// Returns whether this many fields are read of a struct or variant; `None` if it is not known.
    pub(crate) fn takes(&self, name: &'static str, variant: Option<u32>, fields: usize) -> Option<bool> {
        let takes = self.fields.get(&(name, variant))?.contains(&fields);
        (takes || self.is_whole).then_some(takes)
    }

    /// Returns the names of the fields of a struct or a variant, with aliases, in the order in which they are read; `None` if several
    /// types of this name are read, or none.
    pub(crate) fn names(&self, name: &'static str, variant: Option<u32>) -> Option<&'static [&'static str]> {
        match self.names.get(&(name, variant))?.as_slice() {
            [names] => Some(names),
            _ => None,
        }
    }

    /// Returns whether the number `index` is read as this variant; `None` if that is not known, because several enums of this name are
    /// read, or none, or because the type is known in part and aliases may come between the names.
    pub(crate) fn is_variant(&self, name: &'static str, index: u32, variant: &'static str) -> Option<bool> {
        match self.variants.get(name)?.as_slice() {
            [names] => {
                let is_itself = names.get(usize::try_from(index).ok()?) == Some(&variant);
                (is_itself || self.is_whole).then_some(is_itself)
            }
            _ => None,
        }
    }
}

fn note<T: PartialEq>(known: &mut Vec<T>, new: T) {
    if !known.contains(&new) {
        known.push(new);
    }
}

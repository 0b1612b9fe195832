//! How much a `Deserialize` reads of each struct and variant, by the names that serde gives them.

use std::collections::BTreeMap;

/// A struct (`None`), or the variant of an enum that is read for this number.
type Part = (&'static str, Option<u32>);

/// What is read of the named types inside a type. Two types may have the same name: then each of their counts is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    fields: BTreeMap<Part, Vec<usize>>,
    variants: BTreeMap<&'static str, Vec<&'static [&'static str]>>,
}

impl Reads {
    /// So many fields of a struct or of a variant were read to its end.
    pub(super) fn see(&mut self, name: &'static str, variant: Option<u32>, fields: usize) {
        let known = self.fields.entry((name, variant)).or_default();
        if !known.contains(&fields) {
            known.push(fields);
        }
    }

    /// An enum with these variants, in the order of their numbers; an alias follows the name that it stands for.
    pub(super) fn see_enum(&mut self, name: &'static str, variants: &'static [&'static str]) {
        let known = self.variants.entry(name).or_default();
        if !known.contains(&variants) {
            known.push(variants);
        }
    }

    /// Whether so many fields are read of this struct or variant; yes where nothing is known about it.
    pub(crate) fn takes(&self, name: &'static str, variant: Option<u32>, fields: usize) -> bool {
        self.fields.get(&(name, variant)).is_none_or(|known| known.contains(&fields))
    }

    /// Whether the number `index` can be read as this variant; yes where nothing is known about it. Aliases come between
    /// the names, so only a number that is too high for its name is sure to be another variant's.
    pub(crate) fn has_variant(&self, name: &'static str, index: u32, variant: &'static str) -> bool {
        let Some(enums) = self.variants.get(name) else { return true };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        enums.iter().any(|names| match names.iter().position(|known| *known == variant) {
            Some(place) => index <= place,
            // Written under another name than it is read.
            None => index < names.len(),
        })
    }
}

//! A payload's content without a Rust type, with the names that the payload's own shape has.

/// A value of serde's data model. `Struct` and `Variant` borrow the names that the payload's shape gives them, so that a
/// shape with long names costs no memory per value.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::job) enum Value<'s> {
    Bool(bool),
    Int(i128),
    /// An integer that [`Int`](Self::Int) cannot hold.
    Large(u128),
    Float(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    /// `()`, a unit struct, and the content of a unit variant.
    Unit,
    None,
    Some(Box<Self>),
    Seq(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Struct(Vec<(Name<'s>, Self)>),
    Variant(&'s str, Box<Self>),
}

/// The name of a field, and the aliases by which its own program reads it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job) struct Name<'s> {
    pub(in crate::job) name: &'s str,
    pub(in crate::job) aliases: &'s [String],
}

impl<'s> Name<'s> {
    /// Returns the name that a type with fields of the `known` names has for this field: an older program knows a renamed field
    /// by the alias that the newer one kept.
    pub(super) fn among(self, known: &[&str]) -> &'s str {
        if known.contains(&self.name) {
            return self.name;
        }
        self.aliases.iter().find(|alias| known.contains(&alias.as_str())).map_or(self.name, |alias| alias.as_str())
    }
}

impl<'s> Value<'s> {
    /// Returns the lone argument of a job under the name that it has in a job of several.
    pub(in crate::job) fn named(name: &'s str, value: Self) -> Self {
        Self::Struct(vec![(Name { name, aliases: &[] }, value)])
    }

    /// Returns the field of this name, if this value is a struct.
    pub(in crate::job) fn field(&self, wanted: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(name, _)| name.among(&[wanted]) == wanted).map(|(_, value)| value)
    }
}

//! A payload's content without a Rust type: what a payload holds once its own shape has given the names back.

/// A value of serde's data model. `Struct` and `Variant` have the names that the payload's shape gives them.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::job) enum Value {
    Bool(bool),
    Int(i128),
    /// What [`Int`](Self::Int) cannot hold.
    Large(u128),
    Float(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    /// `()`, a unit struct, and what a unit variant holds.
    Unit,
    None,
    Some(Box<Value>),
    Seq(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Struct(Vec<(String, Value)>),
    Variant(String, Box<Value>),
}

impl Value {
    /// The lone argument of a job under the name that it has in a job of several.
    pub(in crate::job) fn named(name: &str, value: Self) -> Self {
        Self::Struct(vec![(name.to_owned(), value)])
    }

    /// The field of this name, where this is a struct.
    pub(in crate::job) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

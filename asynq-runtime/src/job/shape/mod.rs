//! The shape of a job's arguments as a document, so that a program of another version can read its payloads.
//!
//! A payload of the default codec has no names in it; the fingerprint in front of it says which shape it has. The program
//! that enqueues keeps the shape in the broker ([`Shapes`](crate::broker::Shapes)), and one that meets an unknown
//! fingerprint reads the payload by that document into a [`Value`], and the value into its own type by serde's rules. See
//! `docs/design/wire.md#shapes`.

mod by_shape;
mod from_value;
mod value;

use serde::{Deserialize, Serialize};

pub(super) use self::{by_shape::decode, from_value::FromValue, value::Value};

/// Longest document in bytes. A larger shape is not kept, and one that is found is not read.
pub(crate) const LARGEST: usize = 64 * 1024;
/// The version of the document that this program writes and reads.
const VERSION: u32 = 1;

/// A shape as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShapeDocument {
    #[serde(rename = "v")]
    version: u32,
    /// The name of the argument where the job has exactly one: its payload is that value itself, without the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) argument: Option<String>,
    pub(super) root: Node,
    /// Structs, newtypes and enums; [`Node::Type`] counts them from zero, so that a type can hold itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) types: Vec<Form>,
}

/// What stands at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Node {
    Is(Leaf),
    Option(Box<Node>),
    Seq(Box<Node>),
    Map(Box<Node>, Box<Node>),
    Tuple(Vec<Node>),
    /// A tuple of this many equal elements.
    Array(Box<Node>, usize),
    /// One of the document's types.
    Type(usize),
    /// A [`Secret`](crate::Secret): tools do not show it.
    Secret(Box<Node>),
    /// The trace stopped here, at a type of this name: what follows cannot be read.
    Any(String),
    /// The trace never came here.
    Unseen,
}

/// A value without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Leaf {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    #[serde(rename = "f32")]
    Float32,
    #[serde(rename = "f64")]
    Float64,
    Char,
    Str,
    Bytes,
}

/// What a named type or a variant holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    Unit,
    Newtype(Node),
    Tuple(Vec<Node>),
    /// In the order of the wire.
    Struct(Vec<Field>),
    /// In the order of their numbers.
    Enum(Vec<Variant>),
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    #[serde(rename = "is")]
    pub(super) node: Node,
}

/// A variant of an enum; without a form where the trace never came to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Variant {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<Form>,
}

impl ShapeDocument {
    pub(super) fn new(root: Node, types: Vec<Form>) -> Self {
        Self { version: VERSION, argument: None, root, types }
    }

    /// The document of a job whose only argument has this name.
    pub(super) fn of_argument(&self, name: Option<&str>) -> Self {
        Self { argument: name.map(str::to_owned), ..self.clone() }
    }

    /// What is kept in the broker; `None` where it is longer than [`LARGEST`].
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok().filter(|bytes| bytes.len() <= LARGEST)
    }

    /// Reads what was kept.
    ///
    /// # Errors
    ///
    /// Bytes that no version of this crate kept, or that a newer one did; the text says which.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }

        if bytes.len() > LARGEST {
            return Err(format!("the kept shape is longer than {LARGEST} bytes"));
        }
        // The text of serde_json would quote the foreign bytes.
        let malformed = |_| "the kept shape is malformed".to_owned();
        let Version { v } = serde_json::from_slice(bytes).map_err(malformed)?;
        if v != VERSION {
            return Err(format!("the kept shape is of version {v} and this program reads version {VERSION}"));
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// Whether both are the same but for the name of a lone argument, which is not part of a payload.
    pub(super) fn is_same_shape(&self, other: &Self) -> bool {
        self.root == other.root && self.types == other.types
    }
}

#[cfg(test)]
mod tests;

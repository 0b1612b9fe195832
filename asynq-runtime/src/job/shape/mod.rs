//! The shape of a job's arguments as a document, so that a program of another version can read its payloads.
//!
//! A payload of the default codec has no names in it; the fingerprint in front of it says which shape it has. The program
//! that enqueues keeps the shape in the broker ([`Shapes`](crate::broker::Shapes)). A program that meets an unknown
//! fingerprint reads the payload by that document into a [`Value`], and the value into its own type by serde's rules. See
//! `docs/design/wire.md#shapes`.

mod by_shape;
mod from_value;
mod gone;
mod join;
mod json;
pub(super) mod of_type;
mod text;
mod value;
mod write;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

pub(crate) use self::write::{encode, encode_sample};
pub(super) use self::{
    by_shape::{decode, decode_for_people},
    from_value::FromValue,
    value::Value,
};

/// The text that people see instead of a secret.
pub(super) const HIDDEN: &str = "***";

/// Longest document in bytes. A larger shape is not kept, and one that is found is not read.
pub(crate) const LARGEST: usize = 64 * 1024;
/// The version of the document that this program writes and reads. `docs/design/wire.md#shapes` says when it rises.
const VERSION: u32 = 1;

/// A shape as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShapeDocument {
    #[serde(rename = "v")]
    version: u32,
    /// The name of the argument where the job has exactly one: its payload is that value itself, without the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) argument: Option<String>,
    /// Other names of that argument, in other versions of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    argument_aliases: Vec<String>,
    pub(super) root: Node,
    /// Structs, newtypes and enums; [`Node::Type`] counts them from zero, so that a type can hold itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) types: Vec<Form>,
}

/// The shape of one place in a payload.
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
    /// A [`Secret`](crate::Secret), which tools do not show.
    Secret(Box<Node>),
    /// The recorder stopped here, at a type of this name: the rest cannot be read.
    Any(String),
    /// The recorder never reached this place.
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

/// Writes the name that the leaf has in a document.
impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The content of a named type or a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    Unit,
    Newtype(Node),
    Tuple(Vec<Node>),
    /// The fields in the order of the wire.
    Struct(Vec<Field>),
    /// The variants in the order of their numbers.
    Enum(Vec<Variant>),
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    /// Earlier names of the field, by which the program that kept the shape reads it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) aliases: Vec<String>,
    #[serde(rename = "is")]
    pub(super) node: Node,
}

/// A variant of an enum; `form` is `None` if it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Variant {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<Form>,
}

/// The part of a document that each version has.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

impl ShapeDocument {
    pub(super) fn new(root: Node, types: Vec<Form>) -> Self {
        Self { version: VERSION, argument: None, argument_aliases: Vec::new(), root, types }
    }

    /// Returns the document of a job whose only argument has this name and these other ones.
    pub(super) fn of_argument(&self, name: Option<&str>, aliases: &[&str]) -> Self {
        let argument_aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        Self { argument: name.map(str::to_owned), argument_aliases, ..self.clone() }
    }

    /// Returns the names of the argument where it is the only one; the one of the last program that kept the shape comes first.
    pub(super) fn argument_names(&self) -> impl Iterator<Item = &str> {
        self.argument.iter().chain(&self.argument_aliases).map(String::as_str)
    }

    /// Returns the bytes to keep in the broker; `None` if they are longer than [`LARGEST`].
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok().filter(|bytes| bytes.len() <= LARGEST)
    }

    /// Reads kept bytes.
    ///
    /// # Errors
    ///
    /// Bytes that no version of this crate kept, or that a newer one did; the text says which.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
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

    /// Returns whether a newer version of this crate kept these bytes.
    pub(crate) fn is_of_newer_version(bytes: &[u8]) -> bool {
        serde_json::from_slice(bytes).is_ok_and(|Version { v }| v > VERSION)
    }

    /// Returns the names of all fields that hold a secret: the nearest name of each secret, whatever tuples, newtypes and
    /// variants lie between.
    pub(super) fn secret_names(&self) -> Vec<&str> {
        let holds_secret = |node| self.holds_unnamed_secret(node, &mut vec![false; self.types.len()]);
        let mut names: Vec<&str> = self.argument_names().filter(|_| holds_secret(&self.root)).collect();
        names.extend(self.fields().filter(|field| holds_secret(&field.node)).flat_map(Field::names));
        names
    }

    /// Returns the fields of all structs and of all variants.
    fn fields(&self) -> impl Iterator<Item = &Field> {
        let forms = self.types.iter().flat_map(|form| match form {
            Form::Enum(variants) => variants.iter().filter_map(|variant| variant.form.as_ref()).collect(),
            form => vec![form],
        });
        let fields = forms.filter_map(|form| match form {
            Form::Struct(fields) => Some(fields),
            _ => None,
        });
        fields.flatten()
    }

    /// Returns the names of the fields that `today` has no more and that have the shape of its field `new`: one of them may be
    /// the same field under an earlier name. Several arguments are the fields of a struct.
    pub(super) fn earlier_names(&self, today: &Self, new: &str) -> BTreeSet<&str> {
        let Some(new) = today.fields().find(|field| field.name == new) else { return BTreeSet::new() };
        let known: Vec<&str> = today.argument_names().chain(today.fields().flat_map(Field::names)).collect();
        let new = today.part(&new.node);
        let gone = self.fields().filter(|field| !known.contains(&field.name.as_str()));
        gone.filter(|field| self.part(&field.node).is_same_shape(&new)).map(|field| field.name.as_str()).collect()
    }

    /// Returns the names of the arguments, where they are several, that have the shape of the only argument of `other`: one of them may be
    /// that argument under another name. Empty if one of them has its name.
    pub(super) fn like_only_argument(&self, other: &Self) -> Vec<&str> {
        let (None, Some(_), Some(Form::Struct(fields))) =
            (&self.argument, &other.argument, self.root.form(&self.types))
        else {
            return Vec::new();
        };
        let is_there = |name: &str| fields.iter().flat_map(Field::names).any(|known| known == name);
        if other.argument_names().any(is_there) {
            return Vec::new();
        }
        let only = other.part(&other.root);
        let like = fields.iter().filter(|field| self.part(&field.node).is_same_shape(&only));
        like.map(|field| field.name.as_str()).collect()
    }

    /// Returns the document of one place.
    fn part(&self, node: &Node) -> Self {
        Self::new(node.clone(), self.types.clone())
    }

    /// Returns whether a place has a secret that no field nearer to the secret names. `seen` marks the types that were looked
    /// into.
    fn holds_unnamed_secret(&self, node: &Node, seen: &mut [bool]) -> bool {
        let mut holds = |node| self.holds_unnamed_secret(node, seen);
        match node {
            Node::Secret(_) => true,
            Node::Option(inner) | Node::Seq(inner) | Node::Array(inner, _) => holds(inner),
            Node::Map(key, value) => holds(key) || holds(value),
            Node::Tuple(nodes) => nodes.iter().any(holds),
            &Node::Type(number) => match self.types.get(number) {
                Some(form) if !std::mem::replace(&mut seen[number], true) => {
                    unnamed(form).into_iter().any(|node| self.holds_unnamed_secret(node, seen))
                }
                _ => false,
            },
            Node::Is(_) | Node::Any(_) | Node::Unseen => false,
        }
    }

    /// Returns whether a value of this shape may be nested without end, or have any number of parts that take no byte; `true` if that is
    /// not known.
    pub(super) fn is_unbounded(&self) -> bool {
        self.may_be_endless(&self.root, &mut vec![Look::Never; self.types.len()])
    }

    fn may_be_endless(&self, node: &Node, looks: &mut [Look]) -> bool {
        match node {
            Node::Is(_) => false,
            Node::Any(_) | Node::Unseen => true,
            Node::Option(inner) | Node::Array(inner, _) | Node::Secret(inner) => self.may_be_endless(inner, looks),
            Node::Seq(inner) => self.may_be_endless(inner, looks) || self.takes_no_byte(inner),
            Node::Map(key, value) => {
                self.may_be_endless(key, looks)
                    || self.may_be_endless(value, looks)
                    || (self.takes_no_byte(key) && self.takes_no_byte(value))
            }
            Node::Tuple(nodes) => nodes.iter().any(|node| self.may_be_endless(node, looks)),
            &Node::Type(number) => match (looks.get(number).copied(), self.types.get(number)) {
                (Some(Look::Done), _) => false,
                (Some(Look::Never), Some(form)) => {
                    looks[number] = Look::Begun;
                    let is_endless =
                        inside(form).is_none_or(|nodes| nodes.into_iter().any(|node| self.may_be_endless(node, looks)));
                    looks[number] = Look::Done;
                    is_endless
                }
                // The type is inside itself.
                _ => true,
            },
        }
    }

    /// Returns whether a value of a node that is not endless takes no byte.
    fn takes_no_byte(&self, node: &Node) -> bool {
        match node {
            Node::Is(_) | Node::Option(_) | Node::Seq(_) | Node::Map(..) | Node::Any(_) | Node::Unseen => false,
            Node::Secret(inner) => self.takes_no_byte(inner),
            Node::Array(inner, n) => *n == 0 || self.takes_no_byte(inner),
            Node::Tuple(nodes) => nodes.iter().all(|node| self.takes_no_byte(node)),
            &Node::Type(number) => match self.types.get(number) {
                Some(Form::Enum(_)) | None => false,
                Some(form) => inside(form).is_some_and(|nodes| nodes.into_iter().all(|node| self.takes_no_byte(node))),
            },
        }
    }

    /// Returns whether payloads of both have the same shape.
    pub(super) fn is_same_shape(&self, other: &Self) -> bool {
        self.joined(other).is_some()
    }
}

impl Field {
    /// Returns the name of the field, and its earlier names.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }
}

impl Node {
    /// Returns the form of a named type; `None` for any other place.
    fn form<'d>(&self, types: &'d [Form]) -> Option<&'d Form> {
        match self {
            &Self::Type(number) => types.get(number),
            _ => None,
        }
    }

    /// Returns whether an absent value is `None`.
    fn is_optional(&self) -> bool {
        match self {
            Self::Option(_) => true,
            Self::Secret(inner) => inner.is_optional(),
            _ => false,
        }
    }
}

/// How far a walk through a shape has got with one of the types.
#[derive(Debug, Clone, Copy)]
enum Look {
    Never,
    Begun,
    Done,
}

/// Returns all places of a form; `None` if one of its variants is not known.
fn inside(form: &Form) -> Option<Vec<&Node>> {
    Some(match form {
        Form::Unit => Vec::new(),
        Form::Newtype(inner) => vec![inner],
        Form::Tuple(nodes) => nodes.iter().collect(),
        Form::Struct(fields) => fields.iter().map(|field| &field.node).collect(),
        Form::Enum(variants) => {
            let forms = variants.iter().map(|variant| inside(variant.form.as_ref()?));
            forms.collect::<Option<Vec<_>>>()?.concat()
        }
    })
}

/// Returns the places of a form that have no name.
fn unnamed(form: &Form) -> Vec<&Node> {
    match form {
        Form::Unit | Form::Struct(_) => Vec::new(),
        Form::Newtype(node) => vec![node],
        Form::Tuple(nodes) => nodes.iter().collect(),
        Form::Enum(variants) => variants.iter().filter_map(|variant| variant.form.as_ref()).flat_map(unnamed).collect(),
    }
}

#[cfg(test)]
mod tests;

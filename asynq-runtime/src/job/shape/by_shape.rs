//! Reads a postcard payload by its own shape.
//!
//! Shape and payload are data from outside, so depth and size of the value are bounded.

use serde::de::{self, DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{Field, Form, HIDDEN, Leaf, Node, ShapeDocument, Value, Variant, join::opened, value::Name};
use crate::job::bounded::Bounds;

/// Reads `payload`, without format byte and fingerprint, as a value of this shape.
///
/// # Errors
///
/// The payload does not have this shape, or the shape says less than is needed to read it. The text has no value in it.
pub(in crate::job) fn decode<'s>(shape: &'s ShapeDocument, payload: &[u8]) -> Result<Value<'s>, String> {
    read(shape, payload, None)
}

/// [`decode`] for people: a secret is `***`, and so is each field named in `secrets`, which a newer program made secret.
///
/// # Errors
///
/// As [`decode`].
pub(in crate::job) fn decode_for_people<'s>(
    shape: &'s ShapeDocument,
    payload: &[u8],
    secrets: &[&str],
) -> Result<Value<'s>, String> {
    read(shape, payload, Some(secrets))
}

fn read<'s>(shape: &'s ShapeDocument, payload: &[u8], hidden: Option<&[&str]>) -> Result<Value<'s>, String> {
    let limits = Limits { types: &shape.types, hidden, bounds: Bounds::of(payload) };
    let at = At { node: &shape.root, shape: &limits, depth: 0 };
    let mut postcard = postcard::Deserializer::from_bytes(payload);
    let read = at.deserialize(&mut postcard);
    let rest = postcard.finalize().map_or(0, <[u8]>::len);
    match (read, rest) {
        (Ok(value), 0) => Ok(value),
        (Ok(_), rest) => Err(format!("the payload has {rest} bytes more than its shape")),
        (Err(error), _) => Err(limits
            .bounds
            .why()
            .map_or_else(|| format!("the payload does not have the shape that it claims: {error}"), str::to_owned)),
    }
}

/// The state that all places share.
struct Limits<'l, 's> {
    types: &'s [Form],
    /// For people: the names of fields that are hidden beside the secrets of the shape.
    hidden: Option<&'l [&'l str]>,
    bounds: Bounds,
}

/// One place of the shape.
#[derive(Clone, Copy)]
struct At<'l, 's> {
    node: &'s Node,
    shape: &'l Limits<'l, 's>,
    depth: usize,
}

impl<'s> At<'_, 's> {
    fn at(self, node: &'s Node) -> Self {
        Self { node, depth: self.depth + 1, ..self }
    }

    fn stop<T, E: de::Error>(self, why: &'static str) -> Result<T, E> {
        self.shape.bounds.stop(why)
    }

    /// Reads the content of a named type or a variant.
    fn form<'de, D: de::Deserializer<'de>>(self, form: &'s Form, deserializer: D) -> Result<Value<'s>, D::Error> {
        match form {
            Form::Unit => Ok(Value::Unit),
            Form::Newtype(inner) => self.at(inner).deserialize(deserializer),
            Form::Tuple(nodes) => deserializer.deserialize_tuple(nodes.len(), Elements { at: self, nodes }),
            Form::Struct(fields) => deserializer.deserialize_tuple(fields.len(), Fields { at: self, fields }),
            Form::Enum(variants) => deserializer.deserialize_enum("", &[], Variants { at: self, variants }),
        }
    }
}

impl<'de, 's> DeserializeSeed<'de> for At<'_, 's> {
    type Value = Value<'s>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value<'s>, D::Error> {
        self.shape.bounds.part::<D::Error>(self.depth)?;
        match self.node {
            Node::Is(leaf) => leaf.read(deserializer),
            Node::Option(inner) => deserializer.deserialize_option(Inside(self.at(inner))),
            Node::Seq(inner) => deserializer.deserialize_seq(Inside(self.at(inner))),
            Node::Map(key, value) => deserializer.deserialize_map(Entries(self.at(key), self.at(value))),
            Node::Tuple(nodes) => deserializer.deserialize_tuple(nodes.len(), Elements { at: self, nodes }),
            Node::Array(inner, n) => deserializer.deserialize_tuple(*n, Inside(self.at(inner))),
            Node::Type(index) => match self.shape.types.get(*index) {
                Some(form) => self.form(form, deserializer),
                None => self.stop("the kept shape is malformed: it lacks one of its types"),
            },
            Node::Secret(inner) => {
                // Its type reads it without a level of its own. A document may repeat the mark, and each one would take stack.
                let (_, node) = opened(inner);
                let value = Self { node, ..self }.deserialize(deserializer)?;
                Ok(if self.shape.hidden.is_some() { Value::Str(HIDDEN.to_owned()) } else { value })
            }
            Node::Any(_) | Node::Unseen => self.stop("its shape is known in part only"),
        }
    }
}

impl Leaf {
    fn read<'de, D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value<'static>, D::Error> {
        use serde::Deserialize as _;

        Ok(match self {
            Self::Bool => Value::Bool(bool::deserialize(deserializer)?),
            Self::I8 => Value::Int(i8::deserialize(deserializer)?.into()),
            Self::I16 => Value::Int(i16::deserialize(deserializer)?.into()),
            Self::I32 => Value::Int(i32::deserialize(deserializer)?.into()),
            Self::I64 => Value::Int(i64::deserialize(deserializer)?.into()),
            Self::I128 => Value::Int(i128::deserialize(deserializer)?),
            Self::U8 => Value::Int(u8::deserialize(deserializer)?.into()),
            Self::U16 => Value::Int(u16::deserialize(deserializer)?.into()),
            Self::U32 => Value::Int(u32::deserialize(deserializer)?.into()),
            Self::U64 => Value::Int(u64::deserialize(deserializer)?.into()),
            Self::U128 => {
                let number = u128::deserialize(deserializer)?;
                i128::try_from(number).map_or(Value::Large(number), Value::Int)
            }
            Self::Float32 => Value::Float(f32::deserialize(deserializer)?.into()),
            Self::Float64 => Value::Float(f64::deserialize(deserializer)?),
            Self::Char => Value::Char(char::deserialize(deserializer)?),
            Self::Str => Value::Str(String::deserialize(deserializer)?),
            Self::Bytes => deserializer.deserialize_bytes(ByteString)?,
        })
    }
}

macro_rules! expecting {
    ($what:literal) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str($what)
        }
    };
}

struct ByteString;

impl Visitor<'_> for ByteString {
    type Value = Value<'static>;
    expecting!("bytes");

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Value::Bytes(bytes.to_owned()))
    }
}

/// Reads the content of an option, a sequence or an array.
struct Inside<'l, 's>(At<'l, 's>);

impl<'de, 's> Visitor<'de> for Inside<'_, 's> {
    type Value = Value<'s>;
    expecting!("an option or a sequence");

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Value::None)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Ok(Value::Some(Box::new(self.0.deserialize(deserializer)?)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        // An iterator that collects would take twice the stack for each level of the value.
        let mut values = Vec::new();
        while let Some(value) = access.next_element_seed(self.0)? {
            values.push(value);
        }
        Ok(Value::Seq(values))
    }
}

struct Entries<'l, 's>(At<'l, 's>, At<'l, 's>);

impl<'de, 's> Visitor<'de> for Entries<'_, 's> {
    type Value = Value<'s>;
    expecting!("a map");

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry_seed(self.0, self.1)? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

struct Elements<'l, 's> {
    at: At<'l, 's>,
    nodes: &'s [Node],
}

impl<'de, 's> Visitor<'de> for Elements<'_, 's> {
    type Value = Value<'s>;
    expecting!("a tuple");

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let next = |node| access.next_element_seed(self.at.at(node))?.ok_or_else(|| A::Error::custom("too short"));
        self.nodes.iter().map(next).collect::<Result<_, _>>().map(Value::Seq)
    }
}

struct Fields<'l, 's> {
    at: At<'l, 's>,
    fields: &'s [Field],
}

impl<'de, 's> Visitor<'de> for Fields<'_, 's> {
    type Value = Value<'s>;
    expecting!("a struct");

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let next = |field: &'s Field| {
            let value = access.next_element_seed(self.at.at(&field.node))?;
            let value = value.ok_or_else(|| A::Error::custom("too short"))?;
            let is_hidden = self.at.shape.hidden.is_some_and(|names| names.contains(&field.name.as_str()));
            let name = Name { name: &field.name, aliases: &field.aliases };
            Ok((name, if is_hidden { Value::Str(HIDDEN.to_owned()) } else { value }))
        };
        self.fields.iter().map(next).collect::<Result<_, _>>().map(Value::Struct)
    }
}

struct Variants<'l, 's> {
    at: At<'l, 's>,
    variants: &'s [Variant],
}

impl<'de, 's> Visitor<'de> for Variants<'_, 's> {
    type Value = Value<'s>;
    expecting!("an enum");

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Self::Value, A::Error> {
        let (number, content) = access.variant::<u32>()?;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(variant) = self.variants.get(index) else {
            return self.at.stop("it has a variant that its shape does not have");
        };
        let value = match &variant.form {
            None => return self.at.stop("its shape is known in part only"),
            Some(Form::Unit) => content.unit_variant().map(|()| Value::Unit),
            Some(Form::Newtype(inner)) => content.newtype_variant_seed(self.at.at(inner)),
            Some(Form::Tuple(nodes)) => content.tuple_variant(nodes.len(), Elements { at: self.at, nodes }),
            Some(Form::Struct(fields)) => content.tuple_variant(fields.len(), Fields { at: self.at, fields }),
            Some(Form::Enum(_)) => return self.at.stop("the kept shape is malformed: a variant is an enum"),
        }?;
        Ok(Value::Variant(&variant.name, Box::new(value)))
    }
}

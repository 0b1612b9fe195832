//! Values of a shape, to try whether today's type takes them.

use serde_json::{Map, Value as Json};

use crate::job::shape::{Field, Form, Leaf, Node, ShapeDocument, of_type::STRINGS};

/// From this depth on options and sequences stay empty, so that a sample stays small.
const DEEP: usize = 8;
/// The greatest depth of a sample. A shape that asks for more contains itself without an end and has no sample.
const DEEPEST: usize = 64;

/// The kind of value that a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    fill: Fill,
    /// Each enum has this variant.
    variant: usize,
}

/// The contents of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Options and sequences are empty.
    Little,
    /// Options and sequences are not empty.
    Much,
    /// Options and sequences are not empty, and numbers are the smallest.
    Smallest,
    /// Options and sequences are not empty, and numbers are the largest.
    Largest,
}

/// Returns every kind that is worth a try.
pub(super) fn kinds(document: &ShapeDocument) -> Vec<Kind> {
    let variants = document.forms().map(|form| if let Form::Enum(variants) = form { variants.len() } else { 1 });
    let most = variants.max().unwrap_or(1).min(200);
    let fills = [Fill::Little, Fill::Much, Fill::Smallest, Fill::Largest];
    fills.into_iter().flat_map(|fill| (0..most).map(move |variant| Kind { fill, variant })).collect()
}

/// Returns the texts to try, one after the other: types that parse a text take one of them.
pub(super) fn texts() -> &'static [&'static str] {
    &STRINGS
}

/// Returns a value of this kind with this text in place of every text; `None` for a shape that is known in part or endless.
pub(super) fn sample(document: &ShapeDocument, kind: Kind, text: &str) -> Option<Json> {
    Sampler { document, kind, text }.node(document.root(), 0)
}

struct Sampler<'s> {
    document: &'s ShapeDocument,
    kind: Kind,
    text: &'s str,
}

impl Sampler<'_> {
    fn node(&self, node: &Node, depth: usize) -> Option<Json> {
        if depth > DEEPEST {
            return None;
        }
        let is_little = self.kind.fill == Fill::Little || depth > DEEP;
        let inside = |node: &Node| self.node(node, depth + 1);
        Some(match node {
            Node::Is(leaf) => self.leaf(*leaf),
            Node::Option(_) if is_little => Json::Null,
            Node::Seq(_) if is_little => Json::Array(Vec::new()),
            Node::Map(..) if is_little => Json::Object(Map::new()),
            Node::Option(inner) | Node::Secret(inner) => inside(inner)?,
            Node::Seq(inner) => Json::Array(vec![inside(inner)?]),
            Node::Map(key, value) => Json::Array(vec![Json::Array(vec![inside(key)?, inside(value)?])]),
            Node::Tuple(nodes) => Json::Array(nodes.iter().map(inside).collect::<Option<_>>()?),
            Node::Array(inner, n) => Json::Array((0..(*n).min(10_000)).map(|_| inside(inner)).collect::<Option<_>>()?),
            Node::Type(index) => self.form(self.document.forms().nth(*index)?, depth + 1)?,
            Node::Any(_) | Node::Unseen => return None,
        })
    }

    fn form(&self, form: &Form, depth: usize) -> Option<Json> {
        Some(match form {
            Form::Unit => Json::Null,
            Form::Newtype(inner) => self.node(inner, depth)?,
            Form::Tuple(nodes) => Json::Array(nodes.iter().map(|node| self.node(node, depth)).collect::<Option<_>>()?),
            Form::Struct(fields) => {
                let field = |field: &Field| Some((field.name.clone(), self.node(&field.node, depth)?));
                Json::Object(fields.iter().map(field).collect::<Option<_>>()?)
            }
            Form::Enum(variants) => {
                let simplest = || variants.iter().position(|variant| variant.form == Some(Form::Unit)).unwrap_or(0);
                let index = if depth > DEEP { simplest() } else { self.kind.variant % variants.len().max(1) };
                let variant = variants.get(index)?;
                match variant.form.as_ref()? {
                    Form::Unit => Json::String(variant.name.clone()),
                    form => Json::Object([(variant.name.clone(), self.form(form, depth)?)].into_iter().collect()),
                }
            }
        })
    }

    fn leaf(&self, leaf: Leaf) -> Json {
        macro_rules! integer {
            ($type:ty) => {
                match self.kind.fill {
                    Fill::Smallest => Json::from(<$type>::MIN),
                    Fill::Largest => Json::from(<$type>::MAX),
                    // Not zero, which a `NonZero` refuses.
                    Fill::Little | Fill::Much => Json::from(1),
                }
            };
        }
        match leaf {
            Leaf::Bool => Json::Bool(true),
            Leaf::I8 => integer!(i8),
            Leaf::I16 => integer!(i16),
            Leaf::I32 => integer!(i32),
            Leaf::I64 | Leaf::I128 => integer!(i64),
            Leaf::U8 => integer!(u8),
            Leaf::U16 => integer!(u16),
            Leaf::U32 => integer!(u32),
            Leaf::U64 | Leaf::U128 => integer!(u64),
            Leaf::Float32 => Json::from(if self.kind.fill == Fill::Largest { f32::MAX } else { 0.5 }),
            Leaf::Float64 => Json::from(if self.kind.fill == Fill::Largest { f64::MAX } else { 0.5 }),
            Leaf::Char => Json::from("a"),
            Leaf::Str => Json::from(self.text),
            Leaf::Bytes => Json::Array(Vec::new()),
        }
    }
}

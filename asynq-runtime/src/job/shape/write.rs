//! Writes JSON as a postcard payload of a shape, so that a tool that does not know the job can edit its arguments.
//!
//! A value is written only if it fits at every place, so that a worker reads back the value that was given.

use serde::Serialize;
use serde_json::Value as Json;

use super::{Field, Form, HIDDEN, Leaf, Node, ShapeDocument, Variant, decode};
use crate::job::bounded::{DEEPEST, TOO_DEEP};

/// Returns `arguments` as a payload of this shape, without format byte and fingerprint.
///
/// # Errors
///
/// The arguments do not fit; the text says where and what to write, and holds no value.
pub(crate) fn encode(shape: &ShapeDocument, arguments: &Json) -> Result<Vec<u8>, String> {
    let written = write(shape, arguments, false)?;
    // A worker does not read more parts than this.
    decode(shape, &written).map(|_| written)
}

/// Returns made-up `arguments` as [`encode`] does, but takes a null that says two things.
///
/// # Errors
///
/// The arguments do not fit.
pub(crate) fn encode_sample(shape: &ShapeDocument, arguments: &Json) -> Result<Vec<u8>, String> {
    write(shape, arguments, true)
}

fn write(shape: &ShapeDocument, arguments: &Json, takes_any_null: bool) -> Result<Vec<u8>, String> {
    let mut writer = Writer { types: &shape.types, out: Vec::new(), depth: 0, takes_any_null };
    match writer.node(&shape.root, arguments) {
        Ok(()) => Ok(writer.out),
        Err(Wrong { path, what }) if path.is_empty() => Err(format!("the arguments: {what}")),
        Err(Wrong { mut path, what }) => {
            path.reverse();
            Err(format!("`{}`: {what}", path.concat().trim_start_matches('.')))
        }
    }
}

/// A mismatch, and the path to it from the innermost part outwards.
struct Wrong {
    path: Vec<String>,
    what: String,
}

type Written = Result<(), Wrong>;

struct Writer<'s> {
    types: &'s [Form],
    out: Vec<u8>,
    depth: usize,
    /// Whether null is taken where it may stand for an empty value, too.
    takes_any_null: bool,
}

fn wrong(what: impl Into<String>) -> Wrong {
    Wrong { path: Vec::new(), what: what.into() }
}

fn not(expected: &str, found: &Json) -> Wrong {
    let found = match found {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    wrong(format!("expected {expected}, found {found}"))
}

/// Adds a step to the path of a mismatch.
fn at(step: impl FnOnce() -> String) -> impl FnOnce(Wrong) -> Wrong {
    |mut wrong| {
        wrong.path.push(step());
        wrong
    }
}

impl Writer<'_> {
    fn put(&mut self, value: &impl Serialize) -> Written {
        let out = std::mem::take(&mut self.out);
        self.out = postcard::to_extend(value, out).map_err(|_| wrong("it cannot be encoded"))?;
        Ok(())
    }

    fn node(&mut self, node: &Node, json: &Json) -> Written {
        if self.depth > DEEPEST {
            return Err(wrong(TOO_DEEP));
        }
        self.depth += 1;
        let written = self.at_node(node, json);
        self.depth -= 1;
        written
    }

    fn at_node(&mut self, node: &Node, json: &Json) -> Written {
        match node {
            Node::Is(leaf) => self.leaf(*leaf, json),
            Node::Option(inner) if json.is_null() && !self.takes_any_null && self.may_be_null(inner, 0) => Err(wrong(
                "null says two things here, nothing and an empty value; only the job's own program can write it",
            )),
            Node::Option(_) if json.is_null() => self.put(&false),
            Node::Option(inner) => {
                self.put(&true)?;
                self.node(inner, json)
            }
            Node::Seq(inner) => {
                let items = json.as_array().ok_or_else(|| not("an array", json))?;
                self.put(&items.len())?;
                self.each(items, |_| inner)
            }
            Node::Map(key, value) => self.map(key, value, json),
            Node::Tuple(nodes) => self.tuple(nodes, json),
            Node::Array(inner, n) => {
                let items = array_of(*n, json)?;
                self.each(items, |_| inner)
            }
            Node::Type(index) => match self.types.get(*index) {
                Some(Form::Enum(variants)) => self.variant(variants, json),
                Some(form) => self.form(form, json),
                None => Err(wrong("the kept shape is malformed: it lacks one of its types")),
            },
            Node::Secret(_) if json.as_str() == Some(HIDDEN) => {
                Err(wrong("a secret is shown as ***: write it anew, or it would become ***"))
            }
            Node::Secret(inner) => self.node(inner, json),
            Node::Any(_) | Node::Unseen => {
                Err(wrong("its shape is known in part only; only the job's own program can write it"))
            }
        }
    }

    /// Returns whether a value of this node may be shown as `null`.
    fn may_be_null(&self, node: &Node, depth: usize) -> bool {
        let inside = |node: &Node| depth <= DEEPEST && self.may_be_null(node, depth + 1);
        match (node, node.form(self.types)) {
            (Node::Option(_), _) | (_, Some(Form::Unit)) => true,
            (Node::Secret(inner), _) => inside(inner),
            (_, Some(Form::Newtype(inner))) => inside(inner),
            _ => false,
        }
    }

    fn form(&mut self, form: &Form, json: &Json) -> Written {
        match form {
            Form::Unit if json.is_null() => Ok(()),
            Form::Unit => Err(not("null", json)),
            Form::Newtype(inner) => self.node(inner, json),
            Form::Tuple(nodes) => self.tuple(nodes, json),
            Form::Struct(fields) => self.fields(fields, json),
            Form::Enum(_) => Err(wrong("the kept shape is malformed: a variant is an enum")),
        }
    }

    fn each<'n>(&mut self, items: &[Json], node: impl Fn(usize) -> &'n Node) -> Written {
        for (index, item) in items.iter().enumerate() {
            self.node(node(index), item).map_err(at(|| format!("[{index}]")))?;
        }
        Ok(())
    }

    fn tuple(&mut self, nodes: &[Node], json: &Json) -> Written {
        let items = array_of(nodes.len(), json)?;
        self.each(items, |index| &nodes[index])
    }

    fn fields(&mut self, fields: &[Field], json: &Json) -> Written {
        let expected = || first_names(fields.iter().map(|field| &field.name));
        let given = json.as_object().ok_or_else(|| not(&format!("an object with {}", expected()), json))?;
        if let Some(unknown) = given.keys().find(|name| !fields.iter().any(|field| field.name == **name)) {
            return Err(wrong(format!("there is no `{unknown}`; there are {}", expected())));
        }
        for field in fields {
            let json = match given.get(&field.name) {
                Some(json) => json,
                None if field.node.is_optional() => &Json::Null,
                None => return Err(wrong(format!("`{}` is missing", field.name))),
            };
            self.node(&field.node, json).map_err(at(|| format!(".{}", field.name)))?;
        }
        Ok(())
    }

    fn map(&mut self, key: &Node, value: &Node, json: &Json) -> Written {
        match json {
            Json::Object(entries) => {
                self.put(&entries.len())?;
                for (name, json) in entries {
                    self.key(key, name).map_err(at(|| format!(".{name}")))?;
                    self.node(value, json).map_err(at(|| format!(".{name}")))?;
                }
                Ok(())
            }
            Json::Array(pairs) => {
                self.put(&pairs.len())?;
                for (index, pair) in pairs.iter().enumerate() {
                    let [name, json] = array_of(2, pair).map_err(at(|| format!("[{index}]")))? else { continue };
                    self.node(key, name).map_err(at(|| format!("[{index}][0]")))?;
                    self.node(value, json).map_err(at(|| format!("[{index}][1]")))?;
                }
                Ok(())
            }
            _ => Err(not("an object", json)),
        }
    }

    /// Writes a key of an object, which is a text, whatever the shape's keys are.
    fn key(&mut self, key: &Node, name: &str) -> Written {
        let before = self.out.len();
        let as_text = self.node(key, &Json::String(name.to_owned()));
        let Err(wrong) = as_text else { return Ok(()) };
        self.out.truncate(before);
        match serde_json::from_str(name) {
            Ok(json) => self.node(key, &json),
            Err(_) => Err(wrong),
        }
    }

    fn variant(&mut self, variants: &[Variant], json: &Json) -> Written {
        let expected = || first_names(variants.iter().map(|variant| &variant.name));
        let with_content = json.as_object().filter(|one| one.len() == 1).and_then(|one| one.iter().next());
        let (name, content) = match (json, with_content) {
            (Json::String(name), _) => (name, &Json::Null),
            (_, Some(variant)) => variant,
            _ => return Err(not(&format!("one of {}, or an object with one of them", expected()), json)),
        };
        let found = variants.iter().enumerate().find(|(_, variant)| variant.name == *name);
        let Some((number, variant)) = found else {
            return Err(wrong(format!("there is no variant `{name}`; there are {}", expected())));
        };
        let Some(form) = &variant.form else {
            return Err(wrong("its shape is known in part only; only the job's own program can write it"));
        };
        self.put(&u32::try_from(number).unwrap_or(u32::MAX))?;
        self.form(form, content).map_err(at(|| format!(".{name}")))
    }

    fn leaf(&mut self, leaf: Leaf, json: &Json) -> Written {
        macro_rules! integer {
            ($type:ty) => {{
                let expected = || not(&format!("an integer from {} to {}", <$type>::MIN, <$type>::MAX), json);
                let number = integer(json).and_then(|number| <$type>::try_from(number).ok());
                self.put(&number.ok_or_else(expected)?)
            }};
        }
        match leaf {
            Leaf::Bool => self.put(&json.as_bool().ok_or_else(|| not("true or false", json))?),
            Leaf::I8 => integer!(i8),
            Leaf::I16 => integer!(i16),
            Leaf::I32 => integer!(i32),
            Leaf::I64 => integer!(i64),
            Leaf::I128 => integer!(i128),
            Leaf::U8 => integer!(u8),
            Leaf::U16 => integer!(u16),
            Leaf::U32 => integer!(u32),
            Leaf::U64 => integer!(u64),
            Leaf::U128 => {
                let large = || json.as_str().and_then(|text| text.parse::<u128>().ok());
                let number = integer(json).and_then(|number| u128::try_from(number).ok()).or_else(large);
                self.put(&number.ok_or_else(|| not("an integer of at least 0", json))?)
            }
            Leaf::Float32 => {
                #[expect(clippy::cast_possible_truncation, reason = "a decimal is rounded to the nearest one")]
                let number = float(json)? as f32;
                self.put(&number)
            }
            Leaf::Float64 => self.put(&float(json)?),
            Leaf::Char => {
                let mut letters = json.as_str().unwrap_or_default().chars();
                match (letters.next(), letters.next()) {
                    (Some(letter), None) => self.put(&letter),
                    _ => Err(not("a text of one character", json)),
                }
            }
            Leaf::Str => self.put(&json.as_str().ok_or_else(|| not("a text", json))?),
            Leaf::Bytes => {
                let byte = |json: &Json| json.as_u64().and_then(|number| u8::try_from(number).ok());
                let bytes = json.as_array().and_then(|items| items.iter().map(byte).collect::<Option<Vec<u8>>>());
                let bytes = bytes.ok_or_else(|| not("an array of integers from 0 to 255", json))?;
                self.put(&bytes)
            }
        }
    }
}

/// Returns the names of the first fields or variants.
fn first_names<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.take(20).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the items of an array that has exactly `n`.
fn array_of(n: usize, json: &Json) -> Result<&[Json], Wrong> {
    match json.as_array() {
        Some(items) if items.len() == n => Ok(items),
        Some(items) => Err(wrong(format!("expected an array of {n}, found one of {}", items.len()))),
        None => Err(not(&format!("an array of {n}"), json)),
    }
}

/// Returns an integer; one that JSON's numbers cannot hold is a text.
fn integer(json: &Json) -> Option<i128> {
    match json {
        Json::Number(number) => number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from)),
        Json::String(text) => {
            text.parse().ok().filter(|number| i64::try_from(*number).is_err() && u64::try_from(*number).is_err())
        }
        _ => None,
    }
}

/// Returns a number; one that JSON does not have is a text.
fn float(json: &Json) -> Result<f64, Wrong> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| not("a number", json))
}

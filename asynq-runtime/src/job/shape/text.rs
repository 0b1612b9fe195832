//! A shape in one line for people, as advice for a value that does not fit.

use super::{Form, Node, ShapeDocument};

/// Longest text in bytes, beside its last word.
const LONGEST: usize = 600;
/// Deepest nesting of named types that is written. The document may be data from outside, and newtypes around each other add no text.
const DEEPEST: usize = 128;

impl ShapeDocument {
    /// Returns a text such as `{to: str, copies: u32, note: str?}`; a long one ends in `…`.
    pub(crate) fn to_text(&self) -> String {
        let mut text = Text { types: &self.types, out: String::new(), around: Vec::new() };
        text.node(&self.root);
        text.out
    }

    /// Returns the text for people of this shape, whose fingerprint is made of the text `basis`. That one has each alias as if it were a
    /// field, because serde announces both, and must stay as it is, because tasks and files are compared by it. A shape by hand, or one
    /// that is known in part, says so behind its brackets, and has no other text.
    pub(in crate::job) fn text_of(&self, basis: &str) -> String {
        let is_whole = basis.ends_with(['}', ']', ')', '?']);
        let has_aliases = self.fields().any(|field| !field.aliases.is_empty());
        if is_whole && has_aliases { self.to_text() } else { basis.to_owned() }
    }
}

struct Text<'s> {
    types: &'s [Form],
    out: String,
    /// The types that are being written; a type inside itself is not written again.
    around: Vec<usize>,
}

impl Text<'_> {
    fn push(&mut self, text: &str) {
        if self.out.len() < LONGEST {
            self.out.push_str(if text.len() < LONGEST { text } else { "…" });
            if self.out.len() >= LONGEST {
                self.out.push('…');
            }
        }
    }

    /// Writes parts between brackets.
    fn parts<T>(&mut self, brackets: [&str; 2], parts: &[T], mut part: impl FnMut(&mut Self, &T)) {
        self.push(brackets[0]);
        for (at, one) in parts.iter().enumerate() {
            if self.out.len() >= LONGEST {
                return;
            }
            self.push(if at == 0 { "" } else { ", " });
            part(self, one);
        }
        self.push(brackets[1]);
    }

    fn node(&mut self, node: &Node) {
        if self.out.len() >= LONGEST {
            return;
        }
        match node {
            Node::Is(leaf) => self.push(&leaf.to_string()),
            Node::Option(inner) => {
                self.node(inner);
                self.push("?");
            }
            Node::Seq(inner) => self.parts(["[", "]"], &[inner], |text, inner| text.node(inner)),
            Node::Array(inner, n) => self.parts(["[", &format!("; {n}]")], &[inner], |text, inner| text.node(inner)),
            Node::Map(key, value) => {
                self.push("{");
                self.node(key);
                self.push(" => ");
                self.node(value);
                self.push("}");
            }
            Node::Tuple(nodes) => self.parts(["(", ")"], nodes, Self::node),
            Node::Type(index) => match self.types.get(*index) {
                Some(form) if self.around.len() < DEEPEST && !self.around.contains(index) => {
                    self.around.push(*index);
                    self.form(form);
                    self.around.pop();
                }
                _ => self.push("…"),
            },
            Node::Secret(inner) => self.node(inner),
            Node::Any(_) | Node::Unseen => self.push("_"),
        }
    }

    fn form(&mut self, form: &Form) {
        match form {
            Form::Unit => self.push("null"),
            Form::Newtype(inner) => self.node(inner),
            Form::Tuple(nodes) => self.parts(["(", ")"], nodes, Self::node),
            Form::Struct(fields) => self.parts(["{", "}"], fields, |text, field| {
                text.push(&field.name);
                text.push(": ");
                text.node(&field.node);
            }),
            Form::Enum(variants) => self.parts(["enum{", "}"], variants, |text, variant| {
                text.push(&variant.name);
                match &variant.form {
                    None | Some(Form::Unit) => {}
                    Some(form) => {
                        text.push(": ");
                        text.form(form);
                    }
                }
            }),
        }
    }
}

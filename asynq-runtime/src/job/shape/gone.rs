//! Finds the fields that a struct lost where it gained another one.

use std::collections::BTreeSet;

use super::{Field, Form, Node, ShapeDocument};

/// Most options, secrets and newtypes around one place that are looked through.
const DEEPEST: usize = 64;

impl ShapeDocument {
    /// Returns the names of the fields that the structs which gained the field `new` in `today` have no more, whatever their shape: a
    /// default for the new one makes their values vanish in silence. Several arguments are the fields of a struct.
    pub(in crate::job) fn gone_beside(&self, today: &Self, new: &str) -> BTreeSet<String> {
        let mut walk =
            Walk { before: &self.types, today: &today.types, new, seen: BTreeSet::new(), gone: BTreeSet::new() };
        if self.argument.is_some() == today.argument.is_some() {
            walk.node(&self.root, &today.root);
        } else {
            walk.fields(&self.arguments(), &today.arguments());
        }
        walk.gone
    }

    /// Returns the arguments, of which there may be one alone.
    fn arguments(&self) -> Vec<Field> {
        match (&self.argument, &self.root) {
            (Some(name), root) => {
                vec![Field { name: name.clone(), aliases: self.argument_aliases.clone(), node: root.clone() }]
            }
            (None, root) => match root.form(&self.types) {
                Some(Form::Struct(fields)) => fields.clone(),
                _ => Vec::new(),
            },
        }
    }
}

/// A walk through two documents at once.
struct Walk<'d> {
    before: &'d [Form],
    today: &'d [Form],
    new: &'d str,
    /// The pairs of types that were looked into; a type may be inside itself.
    seen: BTreeSet<(usize, usize)>,
    gone: BTreeSet<String>,
}

impl Walk<'_> {
    fn node(&mut self, before: &Node, today: &Node) {
        match (bare(self.before, before), bare(self.today, today)) {
            (Node::Seq(before) | Node::Array(before, _), Node::Seq(today) | Node::Array(today, _)) => {
                self.node(before, today);
            }
            (Node::Map(key, value), Node::Map(key_today, value_today)) => {
                self.node(key, key_today);
                self.node(value, value_today);
            }
            (Node::Tuple(before), Node::Tuple(today)) => self.nodes(before, today),
            (&Node::Type(before), &Node::Type(today)) if self.seen.insert((before, today)) => {
                if let (Some(before), Some(today)) = (self.before.get(before), self.today.get(today)) {
                    self.form(before, today);
                }
            }
            _ => {}
        }
    }

    fn nodes(&mut self, before: &[Node], today: &[Node]) {
        for (before, today) in before.iter().zip(today) {
            self.node(before, today);
        }
    }

    fn form(&mut self, before: &Form, today: &Form) {
        match (before, today) {
            (Form::Newtype(before), Form::Newtype(today)) => self.node(before, today),
            (Form::Tuple(before), Form::Tuple(today)) => self.nodes(before, today),
            (Form::Struct(before), Form::Struct(today)) => self.fields(before, today),
            (Form::Enum(before), Form::Enum(today)) => {
                for variant in today {
                    let earlier = before.iter().find(|earlier| earlier.name == variant.name);
                    if let (Some(before), Some(today)) = (earlier.and_then(|it| it.form.as_ref()), &variant.form) {
                        self.form(before, today);
                    }
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, before: &[Field], today: &[Field]) {
        if today.iter().any(|field| field.name == self.new && !before.iter().any(|other| is_same(field, other))) {
            let gone = before.iter().filter(|field| !today.iter().any(|other| is_same(field, other)));
            self.gone.extend(gone.map(|field| field.name.clone()));
        }
        for field in today {
            if let Some(earlier) = before.iter().find(|other| is_same(field, other)) {
                self.node(&earlier.node, &field.node);
            }
        }
    }
}

/// Returns whether two fields have a name in common.
fn is_same(one: &Field, other: &Field) -> bool {
    one.names().any(|name| other.names().any(|known| known == name))
}

/// Returns a place without the options, secrets and newtypes around it, through which a field is read alike.
fn bare<'d>(types: &'d [Form], mut node: &'d Node) -> &'d Node {
    for _ in 0..DEEPEST {
        node = match (node, node.form(types)) {
            (Node::Option(inner) | Node::Secret(inner), _) => inner.as_ref(),
            (_, Some(Form::Newtype(inner))) => inner,
            _ => return node,
        };
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_that_are_gone_beside_a_new_one_are_found_wherever_it_is() {
        let several = r#""root":{"type":0},"types":[{"struct":[{"name":"lines","is":{"seq":{"is":"str"}}},"#;
        let lone = r#""argument":"text","root":{"is":"str"}"#;
        for (before, today, expected) in [
            (lone.to_owned(), format!(r#"{several}{{"name":"n","is":{{"is":"u8"}}}}]}}]"#), "text"),
            (lone.to_owned(), format!(r#"{several}{{"name":"a","aliases":["text"],"is":{{"is":"str"}}}}]}}]"#), ""),
            (
                // An option around a newtype around an enum becomes the enum.
                r#""root":{"type":0},"types":[{"struct":[{"name":"by","is":{"option":{"type":1}}},{"name":"n","is":{"is":"u8"}}]},
                    {"newtype":{"type":2}},{"enum":[{"name":"Cash"},{"name":"Note","form":{"struct":[
                    {"name":"text","is":{"is":"str"}},{"name":"n","is":{"is":"u8"}}]}}]}]"#
                    .to_owned(),
                r#""root":{"type":0},"types":[{"struct":[{"name":"by","is":{"type":1}}]},
                    {"enum":[{"name":"Note","form":{"struct":[{"name":"lines","is":{"seq":{"is":"str"}}}]}}]}]"#
                    .to_owned(),
                "n, text",
            ),
            (
                // A type inside itself; nothing is gone where the field is new.
                r#""root":{"tuple":[{"type":0},{"type":1}]},"types":[{"struct":[{"name":"next","is":{"option":{"type":0}}}]},
                    {"struct":[{"name":"text","is":{"is":"str"}}]}]"#
                    .to_owned(),
                r#""root":{"tuple":[{"type":0},{"type":1}]},"types":[{"struct":[{"name":"next","is":{"option":{"type":0}}},
                    {"name":"lines","is":{"is":"u8"}}]},{"struct":[]}]"#
                    .to_owned(),
                "",
            ),
        ] {
            let [before, today] = [before, today]
                .map(|text| ShapeDocument::from_bytes(format!(r#"{{"v":1,{text}}}"#).as_bytes()).expect("a shape"));
            let gone = before.gone_beside(&today, "lines");
            assert_eq!(Vec::from_iter(gone).join(", "), expected, "{before:?}");
        }
    }
}

//! Joins the documents of two versions of a program whose payloads have the same shape.

use std::collections::HashMap;

use super::{Field, Form, Node, ShapeDocument, Variant};

/// Deepest nesting of places without a type of their own around them. Types are not nested here: each pair of them is joined once, whatever
/// the way to it.
const DEEPEST: usize = 256;

impl ShapeDocument {
    /// Returns this document with what another one of the same shape adds: a place is secret if either document says so, and a field or the
    /// only argument has the names that either gives it. `None` if the shapes differ. The other document is data from outside.
    pub(in crate::job) fn joined(&self, other: &Self) -> Option<Self> {
        let (ours, theirs) = (&self.types, &other.types);
        let mut join = Join { ours, theirs, pairs: Vec::new(), places: HashMap::new(), depth: 0 };
        let root = join.node(&self.root, &other.root)?;
        let mut types = Vec::new();
        while let Some(&(one, another)) = join.pairs.get(types.len()) {
            types.push(join.form(ours.get(one)?, theirs.get(another)?)?);
        }
        let argument = self.argument.clone();
        let argument_aliases = match &argument {
            Some(name) => names(name, self.argument_names().chain(other.argument_names())),
            None => Vec::new(),
        };
        Some(Self { version: self.version, argument, argument_aliases, root, types })
    }
}

/// Returns each of these names once, without `name`.
fn names<'n>(name: &str, all: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for other in all {
        if other != name && !names.iter().any(|known| known == other) {
            names.push(other.to_owned());
        }
    }
    names
}

struct Join<'d> {
    ours: &'d [Form],
    theirs: &'d [Form],
    /// The pairs of types of which the types of the joined document are made, in their order.
    pairs: Vec<(usize, usize)>,
    /// The place in `pairs` of each of them.
    places: HashMap<(usize, usize), usize>,
    depth: usize,
}

impl<'d> Join<'d> {
    fn node(&mut self, ours: &'d Node, theirs: &'d Node) -> Option<Node> {
        if self.depth > DEEPEST {
            return None;
        }
        self.depth += 1;
        let (is_ours_secret, ours) = opened(ours);
        let (is_theirs_secret, theirs) = opened(theirs);
        let node = self.opened_node(ours, theirs)?;
        self.depth -= 1;
        // The content of a newtype may be secret already.
        let is_marked = matches!(node, Node::Secret(_));
        Some(if !is_marked && (is_ours_secret || is_theirs_secret) { Node::Secret(Box::new(node)) } else { node })
    }

    fn opened_node(&mut self, ours: &'d Node, theirs: &'d Node) -> Option<Node> {
        // A newtype is its content on the wire.
        match (newtype(self.ours, ours), newtype(self.theirs, theirs)) {
            (Some(content), None) => return self.node(content, theirs),
            (None, Some(content)) => return self.node(ours, content),
            _ => {}
        }
        Some(match (ours, theirs) {
            (Node::Is(leaf), Node::Is(other)) if leaf == other => ours.clone(),
            (Node::Any(_), Node::Any(_)) | (Node::Unseen, Node::Unseen) => ours.clone(),
            (Node::Option(one), Node::Option(other)) => Node::Option(self.boxed(one, other)?),
            (Node::Seq(one), Node::Seq(other)) => Node::Seq(self.boxed(one, other)?),
            (Node::Map(key, value), Node::Map(other_key, other_value)) => {
                Node::Map(self.boxed(key, other_key)?, self.boxed(value, other_value)?)
            }
            (Node::Array(one, n), Node::Array(other, m)) if n == m => Node::Array(self.boxed(one, other)?, *n),
            (Node::Type(one), Node::Type(other)) => Node::Type(self.named(*one, *other)),
            // A tuple struct is a tuple on the wire.
            _ => Node::Tuple(self.nodes(elements(self.ours, ours)?, elements(self.theirs, theirs)?)?),
        })
    }

    fn boxed(&mut self, ours: &'d Node, theirs: &'d Node) -> Option<Box<Node>> {
        self.node(ours, theirs).map(Box::new)
    }

    fn nodes(&mut self, ours: &'d [Node], theirs: &'d [Node]) -> Option<Vec<Node>> {
        let pairs = (ours.len() == theirs.len()).then(|| ours.iter().zip(theirs))?;
        pairs.map(|(one, other)| self.node(one, other)).collect()
    }

    /// Returns the place of the joined type, which is made later: a type may hold itself.
    fn named(&mut self, ours: usize, theirs: usize) -> usize {
        let Self { pairs, places, .. } = self;
        *places.entry((ours, theirs)).or_insert_with(|| {
            pairs.push((ours, theirs));
            pairs.len() - 1
        })
    }

    fn form(&mut self, ours: &'d Form, theirs: &'d Form) -> Option<Form> {
        Some(match (ours, theirs) {
            (Form::Unit, Form::Unit) => Form::Unit,
            (Form::Newtype(one), Form::Newtype(other)) => Form::Newtype(self.node(one, other)?),
            (Form::Tuple(ones), Form::Tuple(others)) => Form::Tuple(self.nodes(ones, others)?),
            (Form::Struct(ones), Form::Struct(others)) if ones.len() == others.len() => {
                Form::Struct(ones.iter().zip(others).map(|(one, other)| self.field(one, other)).collect::<Option<_>>()?)
            }
            (Form::Enum(ones), Form::Enum(others)) if ones.len() == others.len() => {
                Form::Enum(ones.iter().zip(others).map(|(one, other)| self.variant(one, other)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    fn field(&mut self, ours: &'d Field, theirs: &'d Field) -> Option<Field> {
        let Field { name, aliases, node } = ours;
        let node = (*name == theirs.name).then(|| self.node(node, &theirs.node))??;
        let aliases = names(name, aliases.iter().chain(&theirs.aliases).map(String::as_str));
        Some(Field { name: name.clone(), aliases, node })
    }

    fn variant(&mut self, ours: &'d Variant, theirs: &'d Variant) -> Option<Variant> {
        let form = match (&ours.form, &theirs.form) {
            _ if ours.name != theirs.name => return None,
            (Some(one), Some(other)) => Some(self.form(one, other)?),
            (None, None) => None,
            _ => return None,
        };
        Some(Variant { name: ours.name.clone(), form })
    }
}

/// Returns whether the place is secret, and its node without that mark.
pub(super) fn opened(mut node: &Node) -> (bool, &Node) {
    let mut is_secret = false;
    while let Node::Secret(inner) = node {
        (is_secret, node) = (true, inner);
    }
    (is_secret, node)
}

/// Returns the content of a newtype.
fn newtype<'d>(types: &'d [Form], node: &Node) -> Option<&'d Node> {
    match node.form(types)? {
        Form::Newtype(content) => Some(content),
        _ => None,
    }
}

/// Returns the elements of a tuple or of a tuple struct.
fn elements<'d>(types: &'d [Form], node: &'d Node) -> Option<&'d [Node]> {
    match (node, node.form(types)) {
        (Node::Tuple(nodes), _) | (_, Some(Form::Tuple(nodes))) => Some(nodes),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! Writes a shape down as a document for the broker: with the names that payloads of postcard lack.

use std::collections::HashMap;

use super::arena::{Arena, Form, Named, Shape, Slot, Variant};
use crate::job::shape::{self, Node, ShapeDocument};

/// The names by which the fields of a struct or of a variant (`Some`) are read, in the order of the wire.
pub(super) type ReadNames = HashMap<(Named, Option<usize>), Vec<ReadName>>;

/// The names of one field.
#[derive(Debug)]
pub(super) struct ReadName {
    /// The name that serde gives the field.
    pub(super) name: &'static str,
    /// All names by which the field is read.
    pub(super) all: Vec<&'static str>,
}

impl ReadName {
    fn aliases(&self) -> Vec<String> {
        self.all.iter().filter(|&&name| name != self.name).map(|&name| name.to_owned()).collect()
    }
}

impl Arena {
    /// Returns the document. `names` are those of structs with aliases, which serde announces as if they were fields.
    pub(super) fn to_document(&self, root: Slot, names: &ReadNames) -> ShapeDocument {
        let types = self.all_named().map(|named| self.document_form(self.form(named), (named, None), names));
        ShapeDocument::new(self.document_node(root), types.collect())
    }

    fn document_node(&self, slot: Slot) -> Node {
        let node = |slot: &Slot| Box::new(self.document_node(*slot));
        let is = match self.shape(slot) {
            Shape::Unseen => Node::Unseen,
            Shape::Leaf(leaf) => Node::Is(*leaf),
            Shape::Opaque(name) => Node::Any(name.clone()),
            Shape::Option(inner) => Node::Option(node(inner)),
            Shape::Seq(inner) => Node::Seq(node(inner)),
            Shape::Map(key, value) => Node::Map(node(key), node(value)),
            Shape::Tuple(slots) => Node::Tuple(self.document_nodes(slots)),
            Shape::Array(inner, n) => Node::Array(node(inner), *n),
            Shape::Named(named) => Node::Type(named.0),
        };
        if self.is_secret(slot) { Node::Secret(Box::new(is)) } else { is }
    }

    fn document_nodes(&self, slots: &[Slot]) -> Vec<Node> {
        slots.iter().map(|&slot| self.document_node(slot)).collect()
    }

    fn document_form(&self, form: &Form, of: (Named, Option<usize>), names: &ReadNames) -> shape::Form {
        match form {
            Form::Unit => shape::Form::Unit,
            Form::Newtype(slot) => shape::Form::Newtype(self.document_node(*slot)),
            Form::Tuple(slots) => shape::Form::Tuple(self.document_nodes(slots)),
            Form::Struct(fields) => {
                let field = |name: &str, aliases, node| shape::Field { name: name.to_owned(), aliases, node };
                shape::Form::Struct(match names.get(&of) {
                    Some(names) => {
                        let named = |(read, &(_, slot)): (&ReadName, &(_, Slot))| {
                            field(read.name, read.aliases(), self.document_node(slot))
                        };
                        names.iter().zip(fields).map(named).collect()
                    }
                    None => {
                        // The names do not show which of them are aliases: no payload must be read by them.
                        let is_unknown = self.has_more_names_than_fields(form);
                        let node = |slot| if is_unknown { Node::Unseen } else { self.document_node(slot) };
                        fields.iter().map(|&(name, slot)| field(name, Vec::new(), node(slot))).collect()
                    }
                })
            }
            Form::Enum(variants) => {
                // The number of a variant is its place among the names that are not aliases, and serde does not mark aliases.
                let has_aliases = variants.iter().any(Variant::is_avoided);
                let variant = |(index, variant): (usize, &Variant)| shape::Variant {
                    name: variant.name.to_owned(),
                    form: match &variant.form {
                        Some(form) if !has_aliases => Some(self.document_form(form, (of.0, Some(index)), names)),
                        _ => None,
                    },
                };
                shape::Form::Enum(variants.iter().enumerate().map(variant).collect())
            }
        }
    }

    /// Returns whether serde announced more names than it read fields: then some of them are aliases.
    pub(super) fn has_more_names_than_fields(&self, form: &Form) -> bool {
        matches!(form, Form::Struct(fields) if fields.iter().any(|&(_, slot)| !self.is_seen(slot)))
    }

    /// Returns the structs, and variants with fields, some of whose names are aliases.
    pub(super) fn with_aliases(&self) -> Vec<(Named, Option<usize>)> {
        let mut found = Vec::new();
        for named in self.all_named() {
            if self.has_more_names_than_fields(self.form(named)) {
                found.push((named, None));
            }
            for (index, variant) in self.variants(named).iter().enumerate() {
                if variant.form.as_ref().is_some_and(|form| self.has_more_names_than_fields(form)) {
                    found.push((named, Some(index)));
                }
            }
        }
        found
    }

    /// Returns the variant of `named` that leads to a type, or to a variant of that type.
    pub(super) fn variant_towards(&self, named: Named, to: (Named, Option<usize>)) -> Option<usize> {
        if let (true, Some(index)) = (named == to.0, to.1) {
            return Some(index);
        }
        let is_it = |inner: Named| inner == to.0;
        let leads = |variant: &Variant| {
            variant.form.as_ref().is_some_and(|form| self.form_leads(form, &mut vec![named], &is_it))
        };
        self.variants(named).iter().position(leads)
    }

    /// Returns the announced names and their slots.
    pub(super) fn names_of(&self, (named, variant): (Named, Option<usize>)) -> Vec<(&'static str, Slot)> {
        let form = match variant {
            None => Some(self.form(named)),
            Some(index) => self.variants(named).get(index).and_then(|variant| variant.form.as_ref()),
        };
        match form {
            Some(Form::Struct(fields)) => fields.clone(),
            _ => Vec::new(),
        }
    }
}

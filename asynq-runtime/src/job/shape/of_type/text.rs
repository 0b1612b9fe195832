//! Writes a shape as text, from which the fingerprint is made: a change here orphans every task that waits.

use std::fmt::Write as _;

use super::arena::{Arena, Form, Named, Shape, Slot};

impl Arena {
    /// Returns the shape as text. A type inside itself is written `^n`: the n-th named type outwards.
    pub(super) fn to_text(&self, root: Slot) -> String {
        let mut text = String::new();
        self.write_slot(root, &mut text, &mut Vec::new());
        text
    }

    fn write_slot(&self, slot: Slot, out: &mut String, around: &mut Vec<Named>) {
        match self.shape(slot) {
            Shape::Unseen => out.push('_'),
            Shape::Leaf(leaf) => out.push_str(&leaf.to_string()),
            Shape::Opaque(name) => {
                let _ = write!(out, "any<{name}>");
            }
            Shape::Option(inner) => {
                self.write_slot(*inner, out, around);
                out.push('?');
            }
            Shape::Seq(inner) => {
                out.push('[');
                self.write_slot(*inner, out, around);
                out.push(']');
            }
            Shape::Map(key, value) => {
                out.push('{');
                self.write_slot(*key, out, around);
                out.push_str(" => ");
                self.write_slot(*value, out, around);
                out.push('}');
            }
            Shape::Tuple(slots) => self.write_tuple(slots, out, around),
            Shape::Array(inner, n) => {
                out.push('[');
                self.write_slot(*inner, out, around);
                let _ = write!(out, "; {n}]");
            }
            Shape::Named(named) => match around.iter().rev().position(|outer| outer == named) {
                Some(outwards) => {
                    let _ = write!(out, "^{}", outwards + 1);
                }
                None => {
                    around.push(*named);
                    self.write_form(self.form(*named), out, around);
                    around.pop();
                }
            },
        }
    }

    fn write_form(&self, form: &Form, out: &mut String, around: &mut Vec<Named>) {
        match form {
            Form::Unit => out.push_str("()"),
            Form::Newtype(slot) => self.write_slot(*slot, out, around),
            Form::Tuple(slots) => self.write_tuple(slots, out, around),
            Form::Struct(fields) => {
                out.push('{');
                for (i, (name, slot)) in fields.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    let _ = write!(out, "{name}: ");
                    self.write_slot(*slot, out, around);
                }
                out.push('}');
            }
            Form::Enum(variants) => {
                out.push_str("enum{");
                for (i, variant) in variants.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    out.push_str(variant.name);
                    match &variant.form {
                        None if variant.is_unseen() => out.push_str(" _"),
                        None | Some(Form::Unit) => {}
                        Some(Form::Newtype(slot)) => self.write_tuple(&[*slot], out, around),
                        Some(form) => self.write_form(form, out, around),
                    }
                }
                out.push('}');
            }
        }
    }

    fn write_tuple(&self, slots: &[Slot], out: &mut String, around: &mut Vec<Named>) {
        out.push('(');
        for (i, slot) in slots.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            self.write_slot(*slot, out, around);
        }
        out.push(')');
    }
}

//! Values of a shape, to try whether today's type takes them.

use std::rc::Rc;

use serde_json::Value as Json;

use super::contents::Sample;
use crate::job::shape::{Field, Form, Leaf, Node, ShapeDocument, Variant};

/// Past one of these depths options and sequences stay empty and enums are simple. The first depth is taken whose samples have
/// no more than [`MOST_PARTS`].
const DEPTHS: [usize; 10] = [48, 24, 16, 12, 8, 6, 4, 2, 1, 0];
/// The greatest depth of a sample. JSON has at most two levels per step, and `serde_json` reads 128.
const DEEPEST: usize = 60;
/// A type is tried as often inside itself, the outermost one included. Further in it is as simple as it can be.
const MOST_INSIDE_ITSELF: usize = 2;
/// The most parts that all samples of a shape have together, and that are looked at for them.
const MOST_PARTS: usize = 100_000;
/// A longer array, or arrays inside each other with more elements together, have no sample: it is written in its whole length.
const LONGEST_ARRAY: usize = 100_000;

/// Values of a shape with every variant of every enum, wherever the enum stands.
#[derive(Debug, Default)]
pub(super) struct Samples<'s> {
    pub(super) values: Vec<Rc<Sample<'s>>>,
    /// The shape is too deep or too large, and something in it was left out.
    pub(super) is_cut: bool,
    /// A part of the shape is not known, and was left out.
    pub(super) has_unknown: bool,
}

/// Returns the samples of a shape whose options and sequences are all empty, or all filled.
pub(super) fn samples(document: &ShapeDocument, is_little: bool) -> Samples<'_> {
    let heights = heights(&document.types);
    let at_depth = |deep| {
        let mut sampler = Sampler {
            inside: vec![0; document.types.len()],
            forms: &document.types,
            heights: &heights,
            is_little,
            deep,
            left: MOST_PARTS,
            is_cut: false,
            has_unknown: false,
        };
        let values = sampler.node(&document.root, Place { depth: 0, is_simple: false, repeated: 1 }).ok()?;
        Some(Samples { values, is_cut: sampler.is_cut, has_unknown: sampler.has_unknown })
    };
    DEPTHS.into_iter().find_map(at_depth).unwrap_or(Samples { is_cut: true, ..Samples::default() })
}

struct Sampler<'f, 's> {
    forms: &'s [Form],
    heights: &'f [Option<usize>],
    /// How often each type is around the place.
    inside: Vec<usize>,
    is_little: bool,
    deep: usize,
    /// How many parts the samples may still have.
    left: usize,
    is_cut: bool,
    has_unknown: bool,
}

#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// How often the value of the place is written, because of the arrays around it.
    repeated: usize,
    /// The place is as simple as it can be, because its type was tried further out.
    is_simple: bool,
}

/// The samples have more than [`MOST_PARTS`].
struct TooMany;

type Made<'s> = Result<Vec<Rc<Sample<'s>>>, TooMany>;

impl<'s> Sampler<'_, 's> {
    fn node(&mut self, node: &'s Node, place: Place) -> Made<'s> {
        // A node without a sample costs time as well.
        self.spend(1)?;
        if place.depth > DEEPEST {
            self.is_cut = true;
            return Ok(Vec::new());
        }
        let next = Place { depth: place.depth + 1, ..place };
        match node {
            Node::Is(leaf) => self.one(leaf_of(*leaf)),
            Node::Option(inner) => self.filled(inner, next, Sample::Fixed(Json::Null), |inner| inner),
            Node::Seq(inner) => {
                self.filled(inner, next, Sample::List(Vec::new()), |inner| Rc::new(Sample::List(vec![inner])))
            }
            // A struct with `#[serde(flatten)]` is read as a map. Its fields are not known, so that an empty map may lack some of them.
            Node::Map(key, _) if matches!(**key, Node::Any(_)) => self.node(key, next),
            Node::Map(..) if self.is_empty(place) => self.one(Sample::Map(None)),
            Node::Map(key, value) => {
                let entries = self.together([&**key, &**value].into_iter(), next)?;
                let entry = |mut entry: Vec<_>| entry.pop().and_then(|value| Some((entry.pop()?, value)));
                let maps: Vec<_> = entries.into_iter().map(|it| Rc::new(Sample::Map(entry(it)))).collect();
                if maps.is_empty() { self.one(Sample::Map(None)) } else { Ok(maps) }
            }
            Node::Secret(inner) => self.node(inner, next),
            Node::Tuple(nodes) if nodes.is_empty() => self.one(Sample::Nothing),
            Node::Tuple(nodes) => self.list(nodes, next),
            Node::Array(_, 0) => self.one(Sample::List(Vec::new())),
            Node::Array(_, n) if place.repeated.saturating_mul(*n) > LONGEST_ARRAY => {
                self.is_cut = true;
                Ok(Vec::new())
            }
            Node::Array(inner, n) => {
                let inner = self.node(inner, Place { repeated: place.repeated * n, ..next })?;
                self.spend(inner.len().saturating_mul(n / 8 + 1))?;
                Ok(inner.into_iter().map(|inner| Rc::new(Sample::Repeat(inner, *n))).collect())
            }
            Node::Type(index) => self.named(*index, next),
            Node::Any(_) | Node::Unseen => {
                self.has_unknown = true;
                Ok(Vec::new())
            }
        }
    }

    /// Makes the samples of a type that has a name.
    fn named(&mut self, index: usize, place: Place) -> Made<'s> {
        let (Some(form), Some(inside)) = (self.forms.get(index), self.inside.get(index).copied()) else {
            self.has_unknown = true;
            return Ok(Vec::new());
        };
        let is_simple = place.is_simple || inside >= MOST_INSIDE_ITSELF;
        if is_simple && self.heights[index].is_none() {
            // A type that contains itself without an end has no value.
            return Ok(Vec::new());
        }
        self.inside[index] += 1;
        let made = self.form(form, Place { is_simple, ..place });
        self.inside[index] -= 1;
        made
    }

    fn form(&mut self, form: &'s Form, place: Place) -> Made<'s> {
        match form {
            Form::Unit => self.one(Sample::Fixed(Json::Null)),
            Form::Newtype(inner) => self.node(inner, place),
            Form::Tuple(nodes) => self.list(nodes, place),
            Form::Struct(fields) => {
                let values = self.together(fields.iter().map(|field| &field.node), place)?;
                let names = || fields.iter().map(|field: &Field| field.name.as_str());
                Ok(values.into_iter().map(|values| Rc::new(Sample::Object(names().zip(values).collect()))).collect())
            }
            Form::Enum(variants) if place.is_simple || place.depth > self.deep => {
                self.is_cut |= !place.is_simple && variants.len() > 1;
                let height = |variant: &&Variant| form_height(variant.form.as_ref()?, self.heights);
                let simplest = variants.iter().filter(|it| height(it).is_some()).min_by_key(height);
                simplest.map_or(Ok(Vec::new()), |variant| self.variant(variant, place))
            }
            Form::Enum(variants) => {
                let mut all = Vec::new();
                for variant in variants {
                    all.extend(self.variant(variant, place)?);
                }
                Ok(all)
            }
        }
    }

    fn variant(&mut self, variant: &'s Variant, place: Place) -> Made<'s> {
        let contents = match &variant.form {
            Some(Form::Unit) => return self.one(Sample::Fixed(Json::from(variant.name.as_str()))),
            Some(form) => self.form(form, place)?,
            None => {
                self.has_unknown = true;
                return Ok(Vec::new());
            }
        };
        self.spend(contents.len())?;
        let named = |inner| Rc::new(Sample::Object(vec![(variant.name.as_str(), inner)]));
        Ok(contents.into_iter().map(named).collect())
    }

    /// Makes the samples of an option or a sequence: `empty` where it stays so, or where nothing can be inside.
    fn filled(
        &mut self,
        inner: &'s Node,
        place: Place,
        empty: Sample<'s>,
        around: impl Fn(Rc<Sample<'s>>) -> Rc<Sample<'s>>,
    ) -> Made<'s> {
        let inner = if self.is_empty(place) { Vec::new() } else { self.node(inner, place)? };
        self.spend(inner.len())?;
        if inner.is_empty() { self.one(empty) } else { Ok(inner.into_iter().map(around).collect()) }
    }

    /// Returns whether an option or a sequence stays empty here, and notes it if that leaves something out.
    fn is_empty(&mut self, place: Place) -> bool {
        let is_wanted = !self.is_little && !place.is_simple;
        self.is_cut |= is_wanted && place.depth > self.deep;
        !is_wanted || place.depth > self.deep
    }

    fn list(&mut self, nodes: &'s [Node], place: Place) -> Made<'s> {
        let lists = self.together(nodes.iter(), place)?;
        Ok(lists.into_iter().map(|list| Rc::new(Sample::List(list))).collect())
    }

    /// Makes values that stand beside each other, so that every sample of each of them occurs.
    fn together(
        &mut self,
        nodes: impl Iterator<Item = &'s Node>,
        place: Place,
    ) -> Result<Vec<Vec<Rc<Sample<'s>>>>, TooMany> {
        let each = nodes.map(|node| self.node(node, place)).collect::<Result<Vec<_>, _>>()?;
        if each.iter().any(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let most = each.iter().map(Vec::len).max().unwrap_or(1);
        self.spend(most.saturating_mul(each.len() + 1))?;
        let beside = |index: usize| each.iter().map(|samples| Rc::clone(&samples[index % samples.len()])).collect();
        Ok((0..most).map(beside).collect())
    }

    fn one(&mut self, sample: Sample<'s>) -> Made<'s> {
        self.spend(1)?;
        Ok(vec![Rc::new(sample)])
    }

    fn spend(&mut self, parts: usize) -> Result<(), TooMany> {
        self.left = self.left.checked_sub(parts).ok_or(TooMany)?;
        Ok(())
    }
}

fn leaf_of(leaf: Leaf) -> Sample<'static> {
    match leaf {
        Leaf::Bool => Sample::Fixed(Json::Bool(true)),
        Leaf::Char => Sample::Fixed(Json::from("a")),
        // A UUID takes 16 bytes and refuses any other length, and no text has these.
        Leaf::Bytes => Sample::Repeat(Rc::new(Sample::Fixed(Json::from(255))), 16),
        Leaf::Str => Sample::Text,
        number => Sample::Number(number),
    }
}

/// Returns for each type how many types the least value of it has inside each other; `None` for a type without a value.
fn heights(forms: &[Form]) -> Vec<Option<usize>> {
    let mut heights = vec![None; forms.len()];
    loop {
        let next: Vec<_> = forms.iter().map(|form| form_height(form, &heights)).collect();
        if next == heights {
            return heights;
        }
        heights = next;
    }
}

fn form_height(form: &Form, heights: &[Option<usize>]) -> Option<usize> {
    match form {
        Form::Unit => Some(0),
        Form::Newtype(inner) => node_height(inner, heights),
        Form::Tuple(nodes) => greatest(nodes.iter(), heights),
        Form::Struct(fields) => greatest(fields.iter().map(|field| &field.node), heights),
        Form::Enum(variants) => {
            variants.iter().filter_map(|variant| form_height(variant.form.as_ref()?, heights)).min()
        }
    }
}

fn node_height(node: &Node, heights: &[Option<usize>]) -> Option<usize> {
    match node {
        Node::Map(key, _) if matches!(**key, Node::Any(_)) => None,
        Node::Is(_) | Node::Option(_) | Node::Seq(_) | Node::Map(..) | Node::Array(_, 0) => Some(0),
        Node::Secret(inner) | Node::Array(inner, _) => node_height(inner, heights),
        Node::Tuple(nodes) => greatest(nodes.iter(), heights),
        Node::Type(index) => heights.get(*index).copied().flatten().map(|height| height + 1),
        Node::Any(_) | Node::Unseen => None,
    }
}

fn greatest<'n>(mut nodes: impl Iterator<Item = &'n Node>, heights: &[Option<usize>]) -> Option<usize> {
    nodes.try_fold(0, |most, node| Some(most.max(node_height(node, heights)?)))
}

#[cfg(test)]
mod tests;

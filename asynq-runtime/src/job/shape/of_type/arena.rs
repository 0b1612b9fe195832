//! The findings of the passes so far: slots for shapes, and the named types to which shapes may return.

use std::collections::HashMap;

use crate::job::shape::Leaf;

/// A place for a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot(usize);

/// A named type: a struct, a newtype or an enum, told apart by its visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Named(pub(super) usize);

/// A place where the recorder can answer in more than one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// An option, a sequence or a map: with content, or empty.
    Inside(Slot),
    /// This variant of an enum, or another.
    Variant(Named, usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    Unseen,
    Leaf(Leaf),
    /// The recorder stopped here, at a type of this name.
    Opaque(String),
    Option(Slot),
    Seq(Slot),
    Map(Slot, Slot),
    Tuple(Vec<Slot>),
    /// A tuple of this many equal elements.
    Array(Slot, usize),
    Named(Named),
}

/// The content of a named type or a variant.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Unit,
    Newtype(Slot),
    Tuple(Vec<Slot>),
    Struct(Vec<(&'static str, Slot)>),
    Enum(Vec<Variant>),
}

#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    /// `None` until it is seen for the first time.
    pub(super) form: Option<Form>,
    progress: Progress,
    /// A mark of the variant that the type reads for this number, once it has been asked for it.
    mark: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Unseen,
    Begun,
    /// The variant came to an end, as the n-th; the first one needs the fewest others to end.
    Works(usize),
    /// The shape of its contents cannot be known.
    Avoided,
}

#[derive(Debug)]
struct Node {
    shape: Shape,
    /// The index of the sample that a leaf is given.
    sample: usize,
    /// Whether to answer with nothing inside, because the shape of the inside cannot be known.
    avoid: bool,
    /// Whether a `Secret` stands here.
    secret: bool,
}

#[derive(Debug)]
struct Type {
    form: Form,
    /// How often the type is on the way from the root to the current place.
    depth: usize,
}

/// Slots and types.
#[derive(Debug, Default)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    types: Vec<Type>,
    by_visitor: HashMap<&'static str, Named>,
}

impl Arena {
    pub(super) fn slot(&mut self) -> Slot {
        self.nodes.push(Node { shape: Shape::Unseen, sample: 0, avoid: false, secret: false });
        Slot(self.nodes.len() - 1)
    }

    pub(super) fn slots(&mut self, n: usize) -> Vec<Slot> {
        (0..n).map(|_| self.slot()).collect()
    }

    /// Returns the form of a struct, with a new slot for each field.
    pub(super) fn structure(&mut self, fields: &'static [&'static str]) -> Form {
        Form::Struct(fields.iter().map(|&name| (name, self.slot())).collect())
    }

    pub(super) fn shape(&self, slot: Slot) -> &Shape {
        &self.nodes[slot.0].shape
    }

    pub(super) fn is_seen(&self, slot: Slot) -> bool {
        *self.shape(slot) != Shape::Unseen
    }

    pub(super) fn is_secret(&self, slot: Slot) -> bool {
        self.nodes[slot.0].secret
    }

    pub(super) fn note_secret(&mut self, slot: Slot) {
        self.nodes[slot.0].secret = true;
    }

    /// Returns every named type, in the order of their indexes.
    pub(super) fn all_named(&self) -> impl Iterator<Item = Named> + use<> {
        (0..self.types.len()).map(Named)
    }

    /// Keeps the first shape that is seen at a slot.
    pub(super) fn see(&mut self, slot: Slot, shape: Shape) {
        let node = &mut self.nodes[slot.0];
        if node.shape == Shape::Unseen {
            node.shape = shape;
        }
    }

    pub(super) fn sample(&mut self, slot: Slot) -> &mut usize {
        &mut self.nodes[slot.0].sample
    }

    pub(super) fn is_avoided(&self, slot: Slot) -> bool {
        self.nodes[slot.0].avoid
    }

    pub(super) fn avoid(&mut self, choice: Choice) {
        match choice {
            Choice::Inside(slot) => self.nodes[slot.0].avoid = true,
            Choice::Variant(named, index) => self.set_progress(named, index, Progress::Avoided),
        }
    }

    /// Returns the type whose visitor is called `key`; a new type is made with `form`.
    pub(super) fn named(&mut self, key: &'static str, form: &dyn Fn(&mut Self) -> Form) -> Named {
        if let Some(&known) = self.by_visitor.get(key) {
            return known;
        }
        let form = form(self);
        self.types.push(Type { form, depth: 0 });
        let new = Named(self.types.len() - 1);
        self.by_visitor.insert(key, new);
        new
    }

    pub(super) fn form(&self, named: Named) -> &Form {
        &self.types[named.0].form
    }

    /// Returns how often the type is on the way from the root to the current place.
    pub(super) fn depth(&mut self, named: Named) -> &mut usize {
        &mut self.types[named.0].depth
    }

    pub(super) fn leave_all(&mut self) {
        for known in &mut self.types {
            known.depth = 0;
        }
    }

    pub(super) fn variants(&self, named: Named) -> &[Variant] {
        match self.form(named) {
            Form::Enum(variants) => variants,
            _ => &[],
        }
    }

    /// Notes the mark of the variant that is read for a number. Returns whether the number before is read as the same one, in a type whose
    /// marks differ at all: then an alias made the list of names longer than that of the numbers.
    pub(super) fn is_taken_twice(&mut self, named: Named, index: usize, mark: u64) -> bool {
        let Form::Enum(variants) = &mut self.types[named.0].form else { return false };
        let Some(variant) = variants.get_mut(index) else { return false };
        variant.mark = Some(mark);
        let before = index.checked_sub(1).and_then(|before| variants[before].mark);
        before == Some(mark) && variants.iter().filter_map(|variant| variant.mark).any(|other| other != mark)
    }

    /// Returns the form of a variant, made with `form` when it is seen for the first time.
    pub(super) fn variant_form(
        &mut self,
        named: Named,
        index: usize,
        form: &dyn Fn(&mut Self) -> Form,
    ) -> Option<Form> {
        if let Some(known) = self.variants(named).get(index).and_then(|variant| variant.form.clone()) {
            return Some(known);
        }
        let form = form(self);
        let Form::Enum(variants) = &mut self.types[named.0].form else { return None };
        variants.get_mut(index)?.form = Some(form.clone());
        Some(form)
    }

    pub(super) fn begin_variant(&mut self, named: Named, index: usize) {
        if self.variants(named).get(index).is_some_and(Variant::is_unseen) {
            self.set_progress(named, index, Progress::Begun);
        }
    }

    pub(super) fn variant_works(&mut self, named: Named, index: usize) {
        let variants = self.variants(named);
        let works = |variant: &&Variant| matches!(variant.progress, Progress::Works(_));
        if !variants.get(index).as_ref().is_some_and(works) {
            let order = variants.iter().filter(works).count();
            self.set_progress(named, index, Progress::Works(order));
        }
    }

    fn set_progress(&mut self, named: Named, index: usize, progress: Progress) {
        if let Form::Enum(variants) = &mut self.types[named.0].form
            && let Some(variant) = variants.get_mut(index)
        {
            variant.progress = progress;
        }
    }

    /// Returns the variant to answer with: one that was never seen; else one with unseen variants inside, but not if the pass
    /// answers with as little as possible (`again`); else the first one that came to an end; else one in turn, by the depth
    /// of the type, so that a recursion finds its way out.
    pub(super) fn choose_variant(&self, named: Named, again: bool) -> Option<usize> {
        let variants = self.variants(named);
        let unseen = variants.iter().position(Variant::is_unseen);
        let has_unseen = |inner: Named| self.variants(inner).iter().any(Variant::is_unseen);
        let unfinished = || {
            let candidate = |variant: &Variant| {
                !variant.is_avoided()
                    && variant.form.as_ref().is_some_and(|form| self.form_leads(form, &mut vec![named], &has_unseen))
            };
            if again { None } else { variants.iter().position(candidate) }
        };
        let in_turn = || {
            let open: Vec<usize> = (0..variants.len()).filter(|&i| !variants[i].is_avoided()).collect();
            open.get(self.types[named.0].depth % open.len().max(1)).copied()
        };
        let first_to_end = || {
            let order = |variant: &Variant| match variant.progress {
                Progress::Works(order) => Some(order),
                _ => None,
            };
            (0..variants.len()).filter_map(|i| Some((order(&variants[i])?, i))).min().map(|(_, i)| i)
        };
        unseen.or_else(unfinished).or_else(first_to_end).or_else(in_turn)
    }

    fn all_variants(&self) -> impl Iterator<Item = &Variant> {
        self.all_named().flat_map(move |named| self.variants(named))
    }

    pub(super) fn variants_seen(&self) -> usize {
        self.all_variants().filter(|variant| !variant.is_unseen()).count()
    }

    pub(super) fn all_variants_seen(&self) -> bool {
        !self.all_variants().any(Variant::is_unseen)
    }

    fn leads(&self, slot: Slot, seen: &mut Vec<Named>, is_it: &dyn Fn(Named) -> bool) -> bool {
        match self.shape(slot) {
            Shape::Unseen | Shape::Leaf(_) | Shape::Opaque(_) => false,
            Shape::Option(inner) | Shape::Seq(inner) | Shape::Array(inner, _) => self.leads(*inner, seen, is_it),
            Shape::Map(key, value) => self.leads(*key, seen, is_it) || self.leads(*value, seen, is_it),
            Shape::Tuple(slots) => slots.iter().any(|&slot| self.leads(slot, seen, is_it)),
            Shape::Named(named) if is_it(*named) => true,
            Shape::Named(named) if seen.contains(named) => false,
            Shape::Named(named) => {
                seen.push(*named);
                self.form_leads(self.form(*named), seen, is_it)
            }
        }
    }

    /// Returns whether a form leads to a type for which `is_it` holds. Types that were `seen` are not entered again.
    pub(super) fn form_leads(&self, form: &Form, seen: &mut Vec<Named>, is_it: &dyn Fn(Named) -> bool) -> bool {
        match form {
            Form::Unit => false,
            Form::Newtype(slot) => self.leads(*slot, seen, is_it),
            Form::Tuple(slots) => slots.iter().any(|&slot| self.leads(slot, seen, is_it)),
            Form::Struct(fields) => fields.iter().any(|&(_, slot)| self.leads(slot, seen, is_it)),
            Form::Enum(variants) => {
                let mut forms = variants.iter().filter_map(|variant| variant.form.as_ref());
                forms.any(|form| self.form_leads(form, seen, is_it))
            }
        }
    }

    /// Returns the names of the fields, if this is a struct.
    pub(super) fn fields(&self, slot: Slot) -> Option<Vec<&'static str>> {
        let Shape::Named(named) = self.shape(slot) else { return None };
        let Form::Struct(fields) = self.form(*named) else { return None };
        Some(fields.iter().map(|&(name, _)| name).collect())
    }

    /// Returns whether a value of this shape holds nothing.
    pub(super) fn is_empty(&self, mut slot: Slot) -> bool {
        // As many steps as there are types: newtypes may wrap each other for ever.
        for _ in 0..=self.types.len() {
            match self.shape(slot) {
                Shape::Tuple(slots) => return slots.is_empty(),
                Shape::Named(named) => match self.form(*named) {
                    Form::Unit => return true,
                    Form::Newtype(inner) => slot = *inner,
                    Form::Tuple(slots) => return slots.is_empty(),
                    Form::Struct(fields) => return fields.is_empty(),
                    Form::Enum(_) => return false,
                },
                _ => return false,
            }
        }
        false
    }
}

impl Form {
    pub(super) fn enumeration(names: &'static [&'static str]) -> Self {
        let variant = |&name| Variant { name, form: None, progress: Progress::Unseen, mark: None };
        Self::Enum(names.iter().map(variant).collect())
    }

    /// Returns the slots of the fields of a struct, or of the elements of a tuple.
    pub(super) fn slots(&self) -> Option<Vec<Slot>> {
        match self {
            Self::Tuple(slots) => Some(slots.clone()),
            Self::Struct(fields) => Some(fields.iter().map(|&(_, slot)| slot).collect()),
            _ => None,
        }
    }
}

impl Variant {
    pub(super) fn is_unseen(&self) -> bool {
        self.progress == Progress::Unseen
    }

    /// Returns whether the type refused the number of this variant, or the shape of its contents cannot be known.
    pub(super) fn is_avoided(&self) -> bool {
        self.progress == Progress::Avoided
    }
}

//! Collects every mistake of one attribute, so that all of them are reported at once and in source order.

use std::cell::RefCell;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far.
pub(crate) struct Errors(RefCell<Vec<(Position, syn::Error)>>);

/// Where a mistake stands; the order of the variants is the order of reporting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Position {
    /// The nth option of the attribute.
    Option(usize),
    /// Anywhere behind the attribute.
    Item,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Records a mistake and points at exactly these tokens.
    pub(crate) fn at(&self, position: Position, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(position, syn::Error::new_spanned(tokens, message));
    }

    /// Records a mistake that already knows its place in the source.
    pub(crate) fn push(&self, position: Position, error: syn::Error) {
        self.0.borrow_mut().push((position, error));
    }

    /// Returns the value, or records the mistake.
    pub(crate) fn ok<T>(&self, position: Position, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(position, error)).ok()
    }

    /// Returns the messages alone, in source order.
    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.sorted().map(|error| error.to_string()).collect()
    }

    /// Returns all mistakes as `compile_error!` items; empty when there are none.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.sorted().map(|error| error.to_compile_error()).collect()
    }

    fn sorted(self) -> impl Iterator<Item = syn::Error> {
        let mut found = self.0.into_inner();
        found.sort_by_key(|(position, _)| *position);
        found.into_iter().map(|(_, error)| error)
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn errors_come_out_in_source_order() {
        let errors = Errors::new();
        errors.at(Position::Item, quote!(third), "third");
        errors.at(Position::Option(1), quote!(second), "second");
        errors.at(Position::Option(0), quote!(first), "first");
        let text = errors.into_tokens().to_string();
        let places: Vec<_> = ["\"first\"", "\"second\"", "\"third\""].map(|m| text.find(m).expect(m)).into();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn no_errors_print_nothing() {
        assert!(Errors::new().into_tokens().is_empty());
    }
}

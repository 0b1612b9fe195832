//! Tokens that several parts of an expansion share.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use super::parameter::{Argument, Form};

/// Returns a name that cannot collide with one of the user's.
pub(super) fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Returns `self`, which is hygienic too: its declaration and its uses must come from the same place.
pub(super) fn this() -> Ident {
    local("self")
}

/// Returns the user's place in the source, with the macro's names.
pub(super) fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

pub(super) fn doc(text: &str) -> TokenStream {
    doc_at(Span::mixed_site(), text)
}

pub(super) fn doc_at(span: Span, text: &str) -> TokenStream {
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote_spanned!(span=> #(#[doc = #lines])*)
}

/// Prints the lints that users may deny and cannot repair in our code. A lint that a crate forbids cannot be allowed again: the
/// compiler refuses each job there (E0453). Everything public is documented all the same.
pub(super) fn allow() -> TokenStream {
    quote! {
        #[allow(
            dead_code,
            deprecated,
            missing_copy_implementations,
            missing_debug_implementations,
            non_camel_case_types,
            non_snake_case,
            private_interfaces,
            unreachable_pub,
            unused_qualifications,
            clippy::all,
            clippy::nursery,
            clippy::pedantic,
            clippy::restriction
        )]
    }
}

/// Prints a duration of whole milliseconds.
pub(super) fn time(span: Duration) -> TokenStream {
    if span.subsec_millis() == 0 {
        let seconds = Literal::u64_unsuffixed(span.as_secs());
        return quote!(__rt::Duration::from_secs(#seconds));
    }
    let ms = Literal::u64_unsuffixed(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    quote!(__rt::Duration::from_millis(#ms))
}

/// Returns the type of an argument's field.
pub(super) fn stored(argument: &Argument, private: &TokenStream) -> TokenStream {
    match &argument.form {
        Form::Owned | Form::Text => argument.ty.to_token_stream(),
        Form::BorrowedText => quote!(#private::String),
        Form::Slice(ty) => quote!(#private::Vec<#ty>),
        Form::Borrowed(ty) => ty.to_token_stream(),
        Form::Unsized(ty) => quote!(<#ty as ::std::borrow::ToOwned>::Owned),
    }
}

//! Facts that the tokens of a type show although the type is not known.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, PathSegment, Type, parse2};

/// Types that exist behind a reference only: of the standard library, and of camino, `serde_json` and bstr. A user's type of such a
/// name works too, if it is `Clone`.
pub(super) const UNSIZED: [&str; 6] = ["Path", "OsStr", "CStr", "Utf8Path", "RawValue", "BStr"];

/// Returns the type without the invisible brackets of `macro_rules!` and without parentheses.
pub(super) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        _ => ty,
    }
}

pub(super) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    }
}

/// Returns the type without references and `Arc`s around it.
pub(super) fn without_pointers(ty: &Type) -> &Type {
    match bare(ty) {
        Type::Reference(reference) => without_pointers(&reference.elem),
        ty => {
            let inner = last_segment(ty).filter(|last| last.ident == "Arc").and_then(only_argument);
            inner.map_or(ty, without_pointers)
        }
    }
}

/// Returns the one argument of a last segment. The other segments do not count, so that the type may be named by any path.
pub(super) fn only_argument(segment: &PathSegment) -> Option<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => match arguments.args.first() {
            Some(GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// How `'static` counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::job) enum Static {
    /// `'static` is allowed, but `&'static T` is not, because it cannot be decoded.
    Allowed,
    /// `&'static T` is as good as owned.
    Owned,
}

/// Returns the first `&` or lifetime that makes a type depend on something outside of it.
pub(in crate::job) fn borrow_in(tokens: TokenStream, statics: Static) -> Option<TokenTree> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let borrow = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) => borrow_in(group.stream(), statics),
        TokenTree::Punct(punct) => {
            let is_borrow = match (punct.as_char(), tokens.get(at + 1)) {
                // A lifetime follows, which is looked at itself.
                ('&', Some(TokenTree::Punct(next))) if next.as_char() == '\'' => statics == Static::Allowed,
                ('\'', Some(TokenTree::Ident(name))) => name != "static",
                (sign, _) => matches!(sign, '&' | '\''),
            };
            is_borrow.then(|| token.clone())
        }
        _ => None,
    };
    tokens.iter().enumerate().find_map(borrow)
}

/// Returns the first `Cow` of a `Cow<str>`, `Cow<[u8]>` or `Cow<Path>`. A function may leave the lifetime out, and the field of a
/// struct may not. A `Cow` of any other type may be the user's own, which has no lifetime.
pub(super) fn cow_without_a_lifetime(tokens: TokenStream) -> Option<TokenTree> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let is_unsized = |inner: &TokenTree| match inner {
        TokenTree::Ident(name) => name == "str" || UNSIZED.iter().any(|known| name == known),
        TokenTree::Group(group) => matches!(parse2(group.to_token_stream()), Ok(Type::Slice(_))),
        _ => false,
    };
    let is_cow = |three: &&[TokenTree]| match three {
        [TokenTree::Ident(name), TokenTree::Punct(open), inner] => {
            name == "Cow" && open.as_char() == '<' && is_unsized(inner)
        }
        _ => false,
    };
    let inside = |token: &TokenTree| match token {
        TokenTree::Group(group) => cow_without_a_lifetime(group.stream()),
        _ => None,
    };
    let here = tokens.windows(3).find(is_cow).map(|three| three[0].clone());
    here.or_else(|| tokens.iter().find_map(inside))
}

/// Returns the first occurrence of a keyword.
pub(in crate::job) fn keyword_in(tokens: TokenStream, keyword: &str) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match &token {
        TokenTree::Group(group) => keyword_in(group.stream(), keyword),
        TokenTree::Ident(ident) if ident == keyword => Some(token),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    #[test]
    fn a_static_reference_is_fine_where_nothing_is_decoded() {
        let borrows = |ty: &str| borrow_in(parse_str(ty).expect(ty), Static::Owned).is_some();
        assert!(!borrows("JobResult<&'static str>"));
        assert!(borrows("JobResult<&str>"));
        assert!(borrows("JobResult<Cow<'_, str>>"));
    }
}

//! The form in which an argument is stored, by its type.

use quote::ToTokens;
use syn::Type;

use super::{
    mistake::{Mistake, mistake},
    type_tokens::{Static, UNSIZED, bare, borrow_in, cow_without_a_lifetime, keyword_in, last_segment},
};

/// How an argument gets from the caller into the payload and from there into the function.
pub(in crate::job) enum Form {
    /// `T`, stored and passed as it is.
    Owned,
    /// `String`, taken as `impl Into<String>`.
    Text,
    /// `&str`, stored as `String`.
    BorrowedText,
    /// `&[T]`, stored as `Vec<T>`; holds the `T`.
    Slice(Type),
    /// `&T`, stored as `T`; holds the `T`.
    Borrowed(Type),
    /// `&Path` and the like, stored in their owned form; holds the `Path`.
    Unsized(Type),
}

impl Form {
    pub(super) fn read(ty: &Type) -> Result<Self, Mistake> {
        let Type::Reference(reference) = bare(ty) else {
            check_storable(ty)?;
            return Ok(if is_string(ty) { Self::Text } else { Self::Owned });
        };
        if reference.mutability.is_some() {
            return mistake(reference, "arguments arrive decoded from the queue; take `T` or `&T`");
        }
        // Any other lifetime is either refused with the generics or not declared at all.
        if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
            return mistake(lifetime, "arguments arrive decoded from the queue; leave the lifetime out");
        }
        let inner = bare(&reference.elem);
        match inner {
            Type::TraitObject(object) => {
                mistake(object, "arguments arrive decoded from the queue; write a concrete type")
            }
            Type::Slice(slice) => check_storable(&slice.elem).map(|()| Self::Slice((*slice.elem).clone())),
            _ if is_str(inner) => Ok(Self::BorrowedText),
            _ => {
                check_storable(inner)?;
                let is_unsized = last_segment(inner)
                    .is_some_and(|last| last.arguments.is_none() && UNSIZED.iter().any(|name| last.ident == name));
                Ok(if is_unsized { Self::Unsized(inner.clone()) } else { Self::Borrowed(inner.clone()) })
            }
        }
    }
}

/// Refuses a type of which a function cannot take a value.
pub(super) fn check_sized(ty: &Type) -> Result<(), Mistake> {
    match ty {
        Type::Slice(_) => mistake(ty, "a slice is taken by reference: write `&[T]`, or `Vec<T>`"),
        _ if is_str(ty) => mistake(ty, "text is taken as `&str` or `String`"),
        _ => Ok(()),
    }
}

fn is_str(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("str"))
}

/// Returns whether this is `String` by any of its usual paths. A user's own `String` is taken as `impl Into` of itself, which
/// works as well.
fn is_string(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let is_plain = path.qself.is_none() && path.path.segments.iter().all(|segment| segment.arguments.is_none());
    let names: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    is_plain && matches!(names[..], ["String"] | ["std" | "alloc", "string", "String"] | ["string", "String"])
}

fn check_storable(ty: &Type) -> Result<(), Mistake> {
    if let Some(token) = keyword_in(ty.to_token_stream(), "impl") {
        return mistake(token, "an argument is stored, so its type needs a name; write a concrete type");
    }
    if let Some(token) = cow_without_a_lifetime(ty.to_token_stream()) {
        return mistake(
            token,
            "an argument is stored, so nothing in it can be borrowed; write an owned type such as `String`, or a `'static` in the `Cow`: \
             `Cow<'static, str>`",
        );
    }
    match borrow_in(ty.to_token_stream(), Static::Allowed) {
        Some(borrow) => mistake(borrow, "an argument is stored, so nothing in it can be borrowed; write an owned type"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    fn form(ty: &str) -> &'static str {
        match Form::read(&parse_str(ty).expect(ty)) {
            Ok(Form::Owned) => "owned",
            Ok(Form::Text) => "text",
            Ok(Form::BorrowedText) => "borrowed text",
            Ok(Form::Slice(_)) => "slice",
            Ok(Form::Borrowed(_)) => "borrowed",
            Ok(Form::Unsized(_)) => "unsized",
            Err(_) => "refused",
        }
    }

    #[test]
    fn the_form_follows_from_the_type() {
        for (ty, expected) in [
            ("u32", "owned"),
            ("Vec<String>", "owned"),
            ("Cow<'static, str>", "owned"),
            ("String", "text"),
            ("std::string::String", "text"),
            ("::std::string::String", "text"),
            ("alloc::string::String", "text"),
            ("smol::String", "owned"),
            ("String<8>", "owned"),
            ("&str", "borrowed text"),
            ("(&str)", "borrowed text"),
            ("&[u8]", "slice"),
            ("&Order", "borrowed"),
            ("&[u8; 4]", "borrowed"),
            ("&std::path::Path", "unsized"),
            ("&Utf8Path", "unsized"),
            ("&serde_json::value::RawValue", "unsized"),
            ("&BStr", "unsized"),
            ("&Path<T>", "borrowed"),
            ("&mut Order", "refused"),
            ("&'static str", "refused"),
            ("&'_ str", "borrowed text"),
            ("Option<&str>", "refused"),
            ("Option<&'static str>", "refused"),
            ("Cow<'_, str>", "refused"),
            ("Cow<str>", "refused"),
            ("&(u8, Vec<std::borrow::Cow<str>>)", "refused"),
            ("Cow<[u8]>", "refused"),
            ("Option<Cow<Path>>", "refused"),
            ("Cow<'static, [u8]>", "owned"),
            ("Cow<[u8; 4]>", "owned"),
            ("Cow<Order>", "owned"),
            ("&[&str]", "refused"),
            ("&dyn Display", "refused"),
            ("impl Display", "refused"),
            ("Vec<impl Display>", "refused"),
        ] {
            assert_eq!(form(ty), expected, "{ty}");
        }
    }
}

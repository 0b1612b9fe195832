//! Understands one parameter: supplied by the worker, or an argument and in which form it is stored.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, GenericArgument, Ident, Pat, PatType, PathArguments, PathSegment, Type, TypeReference, ext::IdentExt,
};

use super::{Attribute as Kind, serde_words::misspelt_in};
use crate::errors::{Errors, Place};

/// One parameter of a job's function.
pub(super) enum Parameter {
    /// `ctx: &JobContext`.
    Context,
    /// `mailer: State<Mailer>`.
    State(Box<SharedState>),
    /// `#[from_context] tenant: Tenant`; holds the type.
    FromContext(Box<Type>),
    /// `cursor: Checkpoint<u64>`; holds the `u64`.
    Checkpoint(Box<Type>),
    /// `tick: Tick` of a periodic job; holds the type as it is written.
    Tick(Box<Type>),
    /// What is stored in the payload.
    Argument(Box<Argument>),
    /// `mailer: State`; holds an error to stand in the place of the type, which the compiler then says nothing about.
    Incomplete(Box<Type>),
    /// A mistake has been recorded; whether the caller gives something here all the same.
    Broken { is_argument: bool },
}

/// A state as a parameter.
pub(super) struct SharedState {
    /// The type as it is written.
    pub(super) ty: Type,
    /// What is in it.
    pub(super) inner: Type,
}

/// A parameter that is stored.
pub(super) struct Argument {
    pub(super) ident: Ident,
    /// The type as it is written.
    pub(super) ty: Type,
    pub(super) form: Form,
    /// The `#[serde(…)]` and doc attributes, which move to the field.
    pub(super) attrs: Vec<Attribute>,
}

/// How an argument gets from the caller into the payload and from there into the function.
pub(super) enum Form {
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

impl Parameter {
    pub(super) fn read(typed: &PatType, kind: Kind, errors: &Errors) -> Self {
        let wrong = |tokens: &dyn ToTokens, message: &str| {
            errors.at(Place::Item, tokens.to_token_stream(), message);
            Self::Broken { is_argument: true }
        };
        let ty = bare(&typed.ty);
        let is_marked = |mark: &str| typed.attrs.iter().any(|attr| attr.path().is_ident(mark));
        let recognised = match (is_marked(FROM_CONTEXT), is_marked(ARG)) {
            (true, _) => Ok(Some(Supplied::FromContext)),
            (false, true) => Ok(None),
            (false, false) => Supplied::recognise(ty, kind),
        };
        let supplied = match recognised {
            Ok(supplied) => supplied,
            Err((tokens, message))
                if last_segment(ty).is_some_and(|last| last.arguments.is_none() && is_generic(last)) =>
            {
                let error = syn::Error::new_spanned(tokens, message).into_compile_error();
                return Self::Incomplete(Box::new(Type::Verbatim(error)));
            }
            Err((tokens, message)) => {
                wrong(&tokens, message);
                return Self::Broken { is_argument: false };
            }
        };
        if supplied.is_some()
            && let Some(serde) = typed.attrs.iter().find(|attr| attr.path().is_ident("serde"))
        {
            wrong(serde, "this parameter is not stored; leave `#[serde(…)]` out");
        }
        if supplied.is_some()
            && let Pat::TupleStruct(pattern) = &*typed.pat
        {
            let name = pattern.elems.first().map(|inner| inner.to_token_stream().to_string()).unwrap_or_default();
            let ty = ty.to_token_stream().to_string().replace(' ', "");
            wrong(
                pattern,
                &format!("a state is no tuple to take apart; write `{name}: {ty}`, which dereferences to it"),
            );
            return Self::Broken { is_argument: false };
        }
        if let Some(cfg) = typed.attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            return wrong(cfg, "the stored arguments must not depend on `cfg`; put it on the whole job");
        }
        match supplied {
            Some(Supplied::Context) => return Self::Context,
            Some(Supplied::State(state)) => return Self::State(state),
            Some(Supplied::FromContext) => return Self::FromContext(Box::new(ty.clone())),
            Some(Supplied::Checkpoint(value)) => return Self::Checkpoint(value),
            Some(Supplied::Tick) => return Self::Tick(Box::new(ty.clone())),
            None if kind == Kind::Periodic => {
                wrong(
                    ty,
                    "a periodic job has no caller to give it arguments; take `Tick`, `&JobContext` or `State<T>`",
                );
                return Self::Broken { is_argument: false };
            }
            None => {}
        }
        // Both the name and the type are looked at, so that both mistakes are reported.
        let ident = match &*typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(pat.ident.clone()),
            Pat::Wild(wild) => {
                wrong(wild, "arguments are stored by name; give this one a name");
                None
            }
            pattern => {
                wrong(pattern, "arguments are stored by name; take this one apart inside the function");
                None
            }
        };
        let form = Form::read(ty).map_err(|(tokens, message)| wrong(&tokens, message));
        let misspelt = typed.attrs.iter().filter(|attr| attr.path().is_ident("serde")).find_map(misspelt_in);
        if let Some((word, meant)) = &misspelt {
            wrong(word, &format!("serde has no attribute `{word}` for a field; did you mean `{meant}`?"));
        }
        match (ident, form) {
            (Some(ident), Ok(form)) if misspelt.is_none() => {
                let attrs = typed.attrs.iter().filter(|attr| moves_to_field(attr)).cloned().collect();
                Self::Argument(Box::new(Argument { ident, ty: ty.clone(), form, attrs }))
            }
            _ => Self::Broken { is_argument: true },
        }
    }
}

impl Parameter {
    /// The type of what is made of the context, as it is written.
    pub(super) fn supplied(&self) -> Option<&Type> {
        match self {
            Self::State(state) => Some(&state.ty),
            Self::FromContext(ty) => Some(ty),
            Self::Context
            | Self::Checkpoint(_)
            | Self::Tick(_)
            | Self::Argument(_)
            | Self::Incomplete(_)
            | Self::Broken { .. } => None,
        }
    }
}

impl Argument {
    /// Whether its type alone decides how it is stored: no `#[serde(with = …)]` or the like, and no `$crate`, which cannot be
    /// written in quotes.
    pub(super) fn is_plain(&self) -> bool {
        const BY_OTHERS: [&str; 7] =
            ["with", "serialize_with", "deserialize_with", "skip", "skip_serializing", "skip_deserializing", "getter"];
        let by_others = |attr: &Attribute| {
            let is_serde = attr.path().is_ident("serde");
            is_serde && BY_OTHERS.iter().any(|word| keyword_in(attr.meta.to_token_stream(), word).is_some())
        };
        !self.attrs.iter().any(by_others) && !self.ty.to_token_stream().to_string().contains('$')
    }

    /// The name of the argument as a user says it: without `r#`.
    pub(super) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

/// The mark of a parameter whose type implements `FromContext`.
const FROM_CONTEXT: &str = "from_context";
/// The mark of a parameter that is an argument, whatever its type is called.
const ARG: &str = "arg";

/// Whether an attribute of a parameter speaks to the macro alone.
pub(super) fn is_mark(attr: &Attribute) -> bool {
    attr.path().is_ident(FROM_CONTEXT) || attr.path().is_ident(ARG)
}

/// Whether an attribute of a parameter belongs on the field and not on the function.
pub(super) fn moves_to_field(attr: &Attribute) -> bool {
    attr.path().is_ident("serde") || attr.path().is_ident("doc")
}

type Mistake = (TokenStream, &'static str);

fn mistake<T>(tokens: impl ToTokens, message: &'static str) -> Result<T, Mistake> {
    Err((tokens.to_token_stream(), message))
}

/// What the worker supplies.
enum Supplied {
    Context,
    State(Box<SharedState>),
    FromContext,
    Checkpoint(Box<Type>),
    Tick,
}

impl Supplied {
    fn recognise(ty: &Type, kind: Kind) -> Result<Option<Self>, Mistake> {
        let (reference, inner) = match ty {
            Type::Reference(reference) => (Some(reference), bare(&reference.elem)),
            _ => (None, ty),
        };
        let Some(last) = last_segment(inner) else { return Ok(None) };
        match (last.ident.to_string().as_str(), reference) {
            ("JobContext", Some(TypeReference { mutability: None, .. })) => Ok(Some(Self::Context)),
            ("JobContext", _) => mistake(ty, "take the context by reference: `&JobContext`"),
            ("Tick", None) if kind == Kind::Periodic => Ok(Some(Self::Tick)),
            ("Tick", Some(_)) if kind == Kind::Periodic => mistake(ty, "take the tick by value: `Tick` is small"),
            ("State" | "Shared", None) => Self::state(ty, last).map(Some),
            ("Checkpoint", None) => Self::checkpoint(last).map(Some),
            ("Checkpoint", Some(_)) => mistake(ty, "take the checkpoint by value: `Checkpoint<T>`"),
            ("State" | "Shared", Some(_)) => mistake(ty, "take state by value: `State<T>` is a cheap handle"),
            _ => Ok(None),
        }
    }

    fn state(ty: &Type, segment: &PathSegment) -> Result<Self, Mistake> {
        let Some(inner) = only_argument(segment) else {
            return mistake(
                segment,
                "write the type of the state: `State<T>`; an argument of this name is marked with `#[arg]`",
            );
        };
        if let Some(borrow) = borrow_in(inner.to_token_stream(), Static::Owned) {
            return mistake(borrow, "state is shared by all workers' threads; write an owned type in `State<…>`");
        }
        Ok(Self::State(Box::new(SharedState { ty: ty.clone(), inner: inner.clone() })))
    }

    fn checkpoint(segment: &PathSegment) -> Result<Self, Mistake> {
        let Some(ty) = only_argument(segment) else {
            return mistake(segment, "write the type that is kept: `Checkpoint<T>`");
        };
        if let Some(borrow) = borrow_in(ty.to_token_stream(), Static::Kept) {
            return mistake(borrow, "a checkpoint is stored; write an owned type in `Checkpoint<…>`");
        }
        Ok(Self::Checkpoint(Box::new(ty.clone())))
    }
}

/// Whether the compiler would ask for the arguments of this type of ours.
fn is_generic(segment: &PathSegment) -> bool {
    ["State", "Shared", "Checkpoint"].iter().any(|name| segment.ident == name)
}

/// Only the last segment and its one argument count, so that the type may be named by any path.
fn only_argument(segment: &PathSegment) -> Option<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => match arguments.args.first() {
            Some(GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

impl Form {
    fn read(ty: &Type) -> Result<Self, Mistake> {
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
            Type::Path(path) if path.path.is_ident("str") => Ok(Self::BorrowedText),
            _ => {
                check_storable(inner)?;
                let is_unsized = last_segment(inner)
                    .is_some_and(|last| last.arguments.is_none() && UNSIZED.iter().any(|name| last.ident == name));
                Ok(if is_unsized { Self::Unsized(inner.clone()) } else { Self::Borrowed(inner.clone()) })
            }
        }
    }
}

/// The standard library's types that exist behind a reference only. A user's type of such a name works too.
const UNSIZED: [&str; 3] = ["Path", "OsStr", "CStr"];

/// The type without the invisible brackets of `macro_rules!` and without parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        _ => ty,
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    }
}

/// `String` by any of its usual paths. A user's own `String` is taken as `impl Into` of itself, which works as well.
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
    match borrow_in(ty.to_token_stream(), Static::Kept) {
        Some(borrow) => mistake(borrow, "an argument is stored, so nothing in it can be borrowed; write an owned type"),
        None => Ok(()),
    }
}

/// What to think of `'static`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Static {
    /// A name like any other, but `&'static T` cannot be decoded.
    Kept,
    /// `&'static T` is as good as owned.
    Owned,
}

/// The first `&` or lifetime that makes a type depend on something outside of it.
pub(super) fn borrow_in(tokens: TokenStream, statics: Static) -> Option<TokenTree> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Group(group) => {
                if let Some(found) = borrow_in(group.stream(), statics) {
                    return Some(found);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let before_lifetime = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\'');
                if statics == Static::Kept || !before_lifetime {
                    return Some(token);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let is_static = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "static");
                if !is_static {
                    return Some(token);
                }
            }
            _ => {}
        }
    }
    None
}

/// The first occurrence of a keyword.
pub(super) fn keyword_in(tokens: TokenStream, keyword: &str) -> Option<TokenTree> {
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
            ("&Path<T>", "borrowed"),
            ("&mut Order", "refused"),
            ("&'static str", "refused"),
            ("&'_ str", "borrowed text"),
            ("Option<&str>", "refused"),
            ("Option<&'static str>", "refused"),
            ("Cow<'_, str>", "refused"),
            ("&[&str]", "refused"),
            ("&dyn Display", "refused"),
            ("impl Display", "refused"),
            ("Vec<impl Display>", "refused"),
        ] {
            assert_eq!(form(ty), expected, "{ty}");
        }
    }

    #[test]
    fn context_and_state_are_recognised_by_their_last_segment() {
        let kind = |ty: &str| match Supplied::recognise(&parse_str(ty).expect(ty), Kind::Job) {
            Ok(Some(Supplied::Context)) => "context",
            Ok(Some(Supplied::State(_))) => "state",
            Ok(Some(Supplied::FromContext)) => "marked",
            Ok(Some(Supplied::Checkpoint(_))) => "checkpoint",
            Ok(Some(Supplied::Tick)) => "tick",
            Ok(None) => "argument",
            Err(_) => "refused",
        };
        for (ty, expected) in [
            ("&JobContext", "context"),
            ("&asynq_runtime::JobContext", "context"),
            ("JobContext", "refused"),
            ("&mut JobContext", "refused"),
            ("State<Mailer>", "state"),
            ("::asynq_runtime::State<Arc<Mailer>>", "state"),
            ("&State<Mailer>", "refused"),
            ("State", "refused"),
            ("State<A, B>", "refused"),
            ("State<&'static str>", "state"),
            ("State<&str>", "refused"),
            ("Shared<Mailer>", "state"),
            ("Checkpoint<u64>", "checkpoint"),
            ("asynq_runtime::Checkpoint<(u64, String)>", "checkpoint"),
            ("&Checkpoint<u64>", "refused"),
            ("Checkpoint", "refused"),
            ("Checkpoint<&str>", "refused"),
            ("Stateful<A>", "argument"),
            // Anybody's type, where there is no schedule.
            ("Tick", "argument"),
        ] {
            assert_eq!(kind(ty), expected, "{ty}");
        }
    }

    #[test]
    fn a_static_reference_is_fine_where_nothing_is_decoded() {
        let borrows = |ty: &str| borrow_in(parse_str(ty).expect(ty), Static::Owned).is_some();
        assert!(!borrows("JobResult<&'static str>"));
        assert!(borrows("JobResult<&str>"));
        assert!(borrows("JobResult<Cow<'_, str>>"));
    }
}

//! Reads one parameter: supplied by the worker, or an argument in one of the forms in which it is stored.

mod form;
mod mistake;
mod supplied;
mod type_tokens;

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Attribute, Ident, Pat, PatType, Type, ext::IdentExt};

pub(super) use self::{
    form::Form,
    type_tokens::{Static, borrow_in, keyword_in},
};
use self::{
    form::check_sized,
    mistake::Mistake,
    supplied::{is_generic, recognise},
    type_tokens::{bare, last_segment, without_pointers},
};
use super::{
    Attribute as Kind,
    serde_words::{aliases_in, misspelt_in, rename_in, word_in},
};
use crate::errors::{Errors, Position};

/// One parameter of a job's function.
pub(super) enum Parameter {
    /// `ctx: &JobContext`.
    Context,
    /// `mailer: State<Mailer>`; holds the type as it is written, and the `Mailer`.
    State { ty: Box<Type>, inner: Box<Type> },
    /// `#[from_context] tenant: Tenant`; holds the type.
    FromContext(Box<Type>),
    /// `cursor: Checkpoint<u64>`; holds the `u64`.
    Checkpoint(Box<Type>),
    /// `tick: Tick` of a periodic job; holds the type as it is written.
    Tick(Box<Type>),
    /// A value that is stored in the payload.
    Argument(Box<Argument>),
    /// `mailer: State` or `name: str`; the error takes the place of the type, about which the compiler then says nothing.
    Incomplete { error: syn::Error, is_argument: bool },
    /// A mistake has been recorded; `is_argument` says here and above whether the caller gives a value all the same.
    Broken { is_argument: bool },
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

impl Parameter {
    pub(super) fn read(typed: &PatType, kind: Kind, errors: &Errors) -> Self {
        match Self::read_supplied(typed, kind, errors) {
            Ok(None) => Self::read_argument(typed, errors),
            Ok(Some(parameter)) | Err(parameter) => parameter,
        }
    }

    /// Reads a parameter that the worker supplies; `None` for an argument. The error is the parameter after its mistake.
    fn read_supplied(typed: &PatType, kind: Kind, errors: &Errors) -> Result<Option<Self>, Self> {
        let broken = |is_argument: bool, tokens: &dyn ToTokens, message: &str| {
            errors.at(Position::Item, tokens.to_token_stream(), message);
            Self::Broken { is_argument }
        };
        let ty = bare(&typed.ty);
        let attribute = |name: &str| typed.attrs.iter().find(|attr| attr.path().is_ident(name));
        if let Some(mark) = typed.attrs.iter().find(|attr| is_mark(attr) && attr.meta.require_path_only().is_err()) {
            let is_argument = mark.path().is_ident(ARG);
            let message = match is_argument {
                true => "this mark stands alone; the default of an argument is `#[serde(default)]`",
                false => "this mark stands alone; the `FromContext` of the type says how the value is made",
            };
            return Err(broken(is_argument, mark, message));
        }
        let recognised = match (attribute(FROM_CONTEXT), attribute(ARG)) {
            (Some(_), Some(mark)) => {
                let message = "a parameter is an argument or made of the context; leave one mark out";
                return Err(broken(true, mark, message));
            }
            (Some(_), None) => Ok(Some(Self::FromContext(Box::new(ty.clone())))),
            (None, Some(_)) => Ok(None),
            (None, None) => recognise(ty, kind),
        };
        let supplied = recognised.map_err(|(tokens, message)| {
            let is_incomplete = last_segment(ty).is_some_and(|last| last.arguments.is_none() && is_generic(last));
            if is_incomplete { Self::incomplete((tokens, message), false) } else { broken(false, &tokens, message) }
        })?;
        if let (Some(_), Some(serde)) = (&supplied, attribute("serde")) {
            // The parameter itself is as it should be.
            errors.at(Position::Item, serde, "this parameter is not stored; leave `#[serde(…)]` out");
        }
        if let Some(Self::State { .. }) = supplied
            && let Pat::TupleStruct(pattern) = &*typed.pat
        {
            let name = pattern.elems.first().map(|inner| inner.to_token_stream().to_string()).unwrap_or_default();
            let ty = ty.to_token_stream().to_string().replace(' ', "");
            let message =
                format!("a state is not a tuple to take apart; write `{name}: {ty}`, which dereferences to it");
            return Err(broken(false, pattern, &message));
        }
        if let Some(cfg) = attribute("cfg").or_else(|| attribute("cfg_attr")) {
            let message = "the stored arguments must not depend on `cfg`; put it on the whole job";
            return Err(broken(supplied.is_none(), cfg, message));
        }
        if supplied.is_none() && kind == Kind::Periodic {
            let message = "a periodic job has no caller to give it arguments; take `Tick`, `&JobContext`, `State<T>` or `Checkpoint<T>`, or mark it with `#[from_context]`";
            return Err(broken(false, ty, message));
        }
        Ok(supplied)
    }

    fn read_argument(typed: &PatType, errors: &Errors) -> Self {
        let wrong = |tokens: &dyn ToTokens, message: &str| errors.at(Position::Item, tokens.to_token_stream(), message);
        let ty = bare(&typed.ty);
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
        if let Err(mistake) = check_sized(ty) {
            return Self::incomplete(mistake, true);
        }
        let form = Form::read(ty).map_err(|(tokens, message)| wrong(&tokens, message));
        let misspelt = misspelt_in(&typed.attrs);
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

    fn incomplete((tokens, message): Mistake, is_argument: bool) -> Self {
        Self::Incomplete { error: syn::Error::new_spanned(tokens, message), is_argument }
    }

    /// Returns the argument that this parameter is; `None` for every other parameter.
    pub(super) fn argument(&self) -> Option<&Argument> {
        match self {
            Self::Argument(argument) => Some(argument),
            _ => None,
        }
    }

    /// Returns the type of a parameter that is made of the context, as it is written.
    pub(super) fn supplied(&self) -> Option<&Type> {
        match self {
            Self::State { ty, .. } | Self::FromContext(ty) => Some(ty),
            _ => None,
        }
    }

    /// Returns the type of the value that a checkpoint keeps.
    pub(super) fn checkpoint(&self) -> Option<&Type> {
        match self {
            Self::Checkpoint(ty) => Some(ty),
            _ => None,
        }
    }

    /// Returns whether a mistake hides what the parameter is, so that it may be any argument that another mistake is about.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Incomplete { .. } | Self::Broken { .. })
    }

    /// Returns whether the function takes a value that it may only borrow from.
    pub(super) fn is_supplied_by_value(&self) -> bool {
        matches!(self, Self::State { .. } | Self::FromContext(_) | Self::Checkpoint(_))
    }
}

impl Argument {
    /// Returns whether the type alone decides how the argument of this job is stored: no `#[serde(with = …)]` or the like, no
    /// `#[serde(bound = …)]`, of which serde takes one, no `$crate`, which cannot be written in quotes, and no name of the job, which can be
    /// stored only if its arguments can.
    pub(super) fn is_plain(&self, job: &Ident) -> bool {
        const BY_OTHERS: [&str; 8] = [
            "with",
            "serialize_with",
            "deserialize_with",
            "skip",
            "skip_serializing",
            "skip_deserializing",
            "getter",
            "bound",
        ];
        word_in(&self.attrs, &BY_OTHERS).is_none()
            && !self.ty.to_token_stream().to_string().contains('$')
            && !mentions(&self.ty, job)
    }

    /// Returns the word of `#[serde(…)]` that makes no sense of an argument which is the payload itself: one that leaves it out, or
    /// gives it a default where it is left out.
    pub(super) fn not_of_a_payload(&self) -> Option<Ident> {
        let words = ["skip", "skip_serializing", "skip_deserializing", "default"];
        word_in(&self.attrs, &words)
    }

    /// Returns the word of `#[serde(…)]` by which the argument is written otherwise than in a unique key, or is not read again.
    pub(super) fn not_of_a_key(&self) -> Option<Ident> {
        word_in(&self.attrs, &["with", "serialize_with", "skip", "skip_serializing", "skip_deserializing"])
    }

    /// Returns the trait that the compiler reports if the argument cannot be stored. A type of the user may be called as one that
    /// workers supply elsewhere, so that the name alone is not a mistake.
    pub(super) fn asked(&self) -> Ident {
        let name = match last_segment(without_pointers(&self.ty)).map(|last| last.ident.to_string()).as_deref() {
            Some("Client") => "ClientArgument",
            Some("Tick") => "TickArgument",
            _ => "Argument",
        };
        Ident::new(name, Span::mixed_site())
    }

    /// Returns the name of the argument as a user says it: without `r#`.
    pub(super) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Returns the name by which serde reads the argument among others.
    pub(super) fn serde_name(&self) -> String {
        rename_in(&self.attrs).unwrap_or_else(|| self.name())
    }

    /// Returns the other names by which serde reads the argument among others.
    pub(super) fn serde_aliases(&self) -> Vec<String> {
        aliases_in(&self.attrs)
    }
}

/// Returns whether the name of the job is in a type. A module of that name counts too: without the check the compiler's own errors
/// for the type appear, which are longer.
pub(super) fn mentions(ty: &Type, job: &Ident) -> bool {
    keyword_in(ty.to_token_stream(), &job.to_string()).is_some()
}

/// The mark of a parameter whose type implements `FromContext`.
const FROM_CONTEXT: &str = "from_context";
/// The mark of a parameter that is an argument, whatever its type is called.
const ARG: &str = "arg";

/// Returns whether an attribute of a parameter is for the macro alone.
pub(super) fn is_mark(attr: &Attribute) -> bool {
    attr.path().is_ident(FROM_CONTEXT) || attr.path().is_ident(ARG)
}

/// Returns whether an attribute of a parameter belongs on the field and not on the function.
pub(super) fn moves_to_field(attr: &Attribute) -> bool {
    attr.path().is_ident("serde") || attr.path().is_ident("doc")
}

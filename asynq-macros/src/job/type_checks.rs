//! The traits that a job asks of the types in its signature: checked in one place, taken for granted everywhere else.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{LitStr, Type, spanned::Spanned};

use super::{
    model::JobModel,
    parameter::{Argument, Parameter, mentions},
    tokens::{at, stored},
};

/// Prints the one place where the compiler is asked whether the types fit; see `job/type_checks.rs` of the runtime.
pub(super) fn check(job: &JobModel) -> TokenStream {
    let (ident, private) = (job.ident(), quote!(__rt));
    let arguments = job.arguments().filter(|argument| argument.is_plain(ident)).map(|argument| {
        let ty = stored(argument, &private);
        let asked = argument.asked();
        quote_spanned!(at(argument.ty.span())=> let () = <#ty as __rt::#asked>::FITS;)
    });
    let supplied = job.parameters().iter().filter_map(Parameter::supplied);
    let supplied = supplied.map(|ty| quote_spanned!(at(ty.span())=> let _ = <#ty as __rt::FromContext>::REQUIRES;));
    let part = job.attr.aggregates.as_deref();
    let part = part.map(|path| quote_spanned!(at(path.span())=> let () = <#path as __rt::Part>::FITS;));
    // In a direct job `Job::Output` asks. A result that holds the job can be stored only if this constant compiles, so the constant
    // must not ask for such a result.
    let output = (!job.is_direct() && !mentions(&job.signature.output, ident)).then(|| {
        let ty = &job.signature.output;
        quote_spanned!(at(ty.span())=> let () = <#ty as __rt::IntoJobResult>::FITS;)
    });
    // A checkpoint may hold jobs, which can be stored only if the first constant compiles, so it has a constant of its own.
    let checkpoint = job.parameters().iter().find_map(Parameter::checkpoint).map(|ty| {
        let fits = quote_spanned!(at(ty.span())=> let () = <#ty as __rt::CheckpointValue>::FITS;);
        quote!(const CHECKPOINT: usize = { #fits 0 };)
    });
    quote! {
        impl __rt::Checked for #ident {
            const OK: usize = {
                #(#arguments)*
                #(#supplied)*
                #part
                #output
                0
            };
            #checkpoint
        }
    }
}

/// Prints the bounds that serde's derive may take for granted of an argument's type.
pub(super) fn bound(job: &JobModel, argument: &Argument) -> TokenStream {
    let (ident, private) = (job.ident(), job.paths.private_text());
    let ty = stored(argument, &job.paths.private());
    let bound = format!("for<'__job> {ty}: {private}::Stored<'__job, {{ <{ident} as {private}::Checked>::OK }}>");
    // The bound has the span of the user's type, so that a wrong name of the type is reported once.
    let bound = LitStr::new(&bound, argument.ty.span());
    quote!(#[serde(bound(serialize = #bound, deserialize = #bound))])
}

/// Prints the constant that silences further errors of a wrong type.
pub(super) fn ok(job: &JobModel) -> TokenStream {
    let ident = job.ident();
    quote!({ <#ident as __rt::Checked>::OK })
}

pub(super) fn requires(job: &JobModel) -> Option<TokenStream> {
    let key = |inner: &Type| quote_spanned!(at(inner.span())=> __rt::StateKey::of::<#inner>());
    let (mut states, mut others) = (Vec::new(), Vec::new());
    for parameter in job.parameters() {
        match parameter {
            Parameter::State { inner, .. } => states.push(key(inner)),
            Parameter::FromContext(ty) => {
                others.push(quote_spanned!(at(ty.span())=> <#ty as __rt::FromContext>::REQUIRES));
            }
            _ => {}
        }
    }
    if others.is_empty() {
        return (!states.is_empty()).then(|| quote!(const REQUIRES: &'static [__rt::StateKey] = &[#(#states),*];));
    }
    Some(quote! {
        const REQUIRES: &'static [__rt::StateKey] = {
            const EACH: &[&[__rt::StateKey]] = &[&[#(#states),*], #(#others),*];
            &__rt::StateKey::all::<{ __rt::StateKey::count(EACH) }>(EACH)
        };
    })
}

/// Prints a supplied value by its type as written: a foreign type of the same name is reported at its place.
pub(super) fn from_context(job: &JobModel, ty: &Type, ctx: &Ident) -> TokenStream {
    let ok = ok(job);
    quote_spanned!(at(ty.span())=> <#ty as __rt::Supplied<#ok>>::from_context(#ctx).await?)
}

//! Prints the call of the function: its parameters, and its result as the framework's.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use super::{
    model::JobModel,
    parameter::{Form, Parameter},
    tokens::{at, local, this},
    type_checks::{from_context, ok},
};

pub(super) fn run(job: &JobModel) -> TokenStream {
    let is_needed = (job.signature.is_blocking && !job.signature.is_contract)
        || job.parameters().iter().any(|p| !matches!(p, Parameter::Argument(_)));
    let ctx = local(if is_needed { "ctx" } else { "_ctx" });
    let body = match (job.signature.is_contract, job.signature.is_blocking) {
        (true, _) => quote!(__rt::Err(__rt::no_handler::<Self>())),
        (false, true) => blocking(job, &ctx),
        (false, false) => asynchronous(job, &ctx),
    };
    let this = this();
    let output = quote_spanned!(at(job.signature.output.span())=> Self::Output);
    // The span is the name of the function, where the compiler reports a future that is not `Send`. The report would be
    // longer for an `async fn`, and for code with the span of a macro.
    let future = quote_spanned!(job.ident().span()=> impl __rt::Future<Output = #output> + ::std::marker::Send);
    quote_spanned! {at(job.ident().span())=>
        fn run(#this, #ctx: &__rt::JobContext) -> #future {
            async move { #body }
        }
    }
}

fn asynchronous(job: &JobModel, ctx: &Ident) -> TokenStream {
    let function = job.ident();
    let value = |parameter| supplied(job, parameter, ctx).unwrap_or_else(|| passed(job, parameter, ctx));
    let passed = job.parameters().iter().map(value);
    settled(job, quote!(#function(#(#passed),*).await))
}

fn blocking(job: &JobModel, ctx: &Ident) -> TokenStream {
    let function = job.ident();
    let mut states = Vec::new();
    let value = |parameter| match supplied(job, parameter, ctx) {
        Some(value) => {
            let name = local(&format!("state_{}", states.len()));
            states.push(quote!(let #name = #value;));
            name.into_token_stream()
        }
        None => passed(job, parameter, ctx),
    };
    let passed: Vec<_> = job.parameters().iter().map(value).collect();
    let takes_context = job.parameters().iter().any(|p| matches!(p, Parameter::Context | Parameter::Tick(_)));
    let inner = if takes_context { ctx.to_token_stream() } else { quote!(_) };
    let settled = settled(job, quote!(#function(#(#passed),*)));
    quote! {
        #(#states)*
        __rt::run_blocking(#ctx, move |#inner| #settled).await
    }
}

/// Prints the function's result as the framework's.
fn settled(job: &JobModel, call: TokenStream) -> TokenStream {
    match job.attr.on_error.as_deref() {
        None if job.is_direct() => call,
        Some(policy) => {
            let ok = ok(job);
            quote_spanned!(at(policy.span())=> __rt::OnError { result: #call, policy: #policy }.into_job_result::<#ok>())
        }
        None => {
            let ty = &job.signature.output;
            let ok = ok(job);
            quote_spanned!(at(ty.span())=> <#ty as __rt::Returned<#ok>>::into_job_result(#call))
        }
    }
}

/// Prints a value that the worker supplies and may lack; without it the function is not called.
fn supplied(job: &JobModel, parameter: &Parameter, ctx: &Ident) -> Option<TokenStream> {
    if let Parameter::Checkpoint(ty) = parameter {
        let function = job.ident();
        let ok = quote!({ <#function as __rt::Checked>::CHECKPOINT });
        return Some(quote_spanned!(at(ty.span())=> <#ty as __rt::Loaded<#ok>>::checkpoint(#ctx).await?));
    }
    parameter.supplied().map(|ty| from_context(job, ty, ctx))
}

/// Prints any other parameter as it is passed to the function.
fn passed(job: &JobModel, parameter: &Parameter, ctx: &Ident) -> TokenStream {
    if let Parameter::Tick(ty) = parameter {
        let cron = job.paths.cron();
        return quote_spanned!(at(ty.span())=> #cron::Tick::of(#ctx));
    }
    let Parameter::Argument(argument) = parameter else { return ctx.to_token_stream() };
    let (this, ident) = (this(), &argument.ident);
    match argument.form {
        Form::Owned | Form::Text => quote!(#this.#ident),
        _ => quote!(&#this.#ident),
    }
}

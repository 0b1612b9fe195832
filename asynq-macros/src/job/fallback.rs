//! Prints a stub for a job whose signature is wrong, so that the places that use the job cause no further errors.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::{
    expand::{Handle, handle, payload, scoped, taken},
    model::JobModel,
    parameter::Parameter,
    tokens::local,
};

/// Prints a job that has everything but a body. The job never runs: the mistakes that lead here stop the compilation.
pub(super) fn stub(job: &JobModel) -> TokenStream {
    let (ident, name) = (job.ident(), &job.name);
    let payload = payload(job, false);
    let handle = handle(job, &anything(job));
    let scoped = scoped(
        job,
        &quote! {
            impl __rt::Job for #ident {
                const NAME: &'static str = #name;
                type Output = __rt::JobResult<()>;

                async fn run(self, _ctx: &__rt::JobContext) -> Self::Output {
                    ::std::unimplemented!()
                }
            }
        },
    );
    quote!(#payload #handle #scoped)
}

/// Returns as many parameters as the function has arguments; the wrong ones take any value.
fn anything(job: &JobModel) -> Handle {
    let mut parameters = Vec::new();
    let mut forwarded = Vec::new();
    for (position, parameter) in job.parameters().iter().enumerate() {
        match parameter {
            Parameter::Argument(argument) => {
                parameters.push(taken(argument, &job.paths));
                forwarded.push(argument.ident.to_token_stream());
            }
            Parameter::Incomplete { is_argument: true, .. } | Parameter::Broken { is_argument: true } => {
                let name = local(&format!("argument_{position}"));
                parameters.push(quote!(#name: impl ::std::marker::Sized));
                forwarded.push(name.into_token_stream());
            }
            _ => {}
        }
    }
    let builder = quote! {
        let _ = (#(#forwarded,)*);
        ::std::unimplemented!()
    };
    Handle { parameters, forwarded, builder }
}

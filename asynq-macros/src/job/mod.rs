//! `#[job]` and `#[periodic]`: attribute and signature become a model, the model becomes tokens.

mod attr;
mod docs;
mod entry;
mod expand;
mod fallback;
mod literal;
mod model;
mod options;
mod parameter;
mod periodic;
mod run;
mod schedule;
mod serde_words;
mod setting;
mod signature;
mod tokens;
mod type_checks;

use proc_macro2::TokenStream;
use quote::quote;

use self::{
    attr::Attr,
    model::JobModel,
    parameter::Parameter,
    signature::{Health, JobSignature},
};
use crate::{
    errors::{Errors, Position},
    item::Item,
    paths::Home,
};

/// The attribute that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// `#[job]`
    Job,
    /// `#[periodic]`: a job with a schedule and no arguments.
    Periodic,
}

/// Runs the whole pipeline. All mistakes are reported at once, and the parts that can still be made are printed, so that the
/// rest of the user's program causes no further errors.
pub(crate) fn expand(attribute: Attribute, home: Home, options: TokenStream, item: TokenStream) -> TokenStream {
    let errors = Errors::new();
    let attr = Attr::parse(options, attribute, &errors);
    let mut tokens = match syn::parse2::<Item>(item.clone()) {
        Ok(function) => {
            let signature = JobSignature::read(&function, attribute, &errors);
            printed(&JobModel::new(function, attr, signature, home, &errors))
        }
        Err(error) => {
            errors.push(Position::Item, error);
            item
        }
    };
    tokens.extend(errors.into_tokens());
    tokens
}

/// Prints the function as it was written, and the items beside it.
fn printed(job: &JobModel) -> TokenStream {
    // A contract has only its struct: an `fn` without a body is not valid Rust.
    let function = (!job.signature.is_contract).then_some(&job.function);
    // clippy asks for references in a blocking function, which the worker does not supply.
    let is_blamed = job.signature.is_blocking && job.parameters().iter().any(Parameter::is_supplied_by_value);
    let allow = (function.is_some() && is_blamed).then(|| quote!(#[allow(clippy::needless_pass_by_value)]));
    let beside = match job.signature.health {
        Health::Sound => expand::job(job),
        Health::Broken => fallback::stub(job),
        Health::Method => TokenStream::new(),
    };
    quote!(#allow #function #beside)
}

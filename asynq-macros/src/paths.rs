//! The only place that spells `::asynq_runtime` and `::asynq_cron`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Path;

/// The way from the user's crate to the runtime.
pub(crate) struct Paths {
    root: TokenStream,
}

impl Paths {
    /// `crate_path` is the user's `crate = …`, for a renamed or re-exported dependency.
    pub(crate) fn new(crate_path: Option<&Path>) -> Self {
        let root = crate_path.map_or_else(|| quote!(::asynq_runtime), ToTokens::to_token_stream);
        Self { root }
    }

    /// The module for generated code alone.
    pub(crate) fn private(&self) -> TokenStream {
        let root = &self.root;
        quote!(#root::__private)
    }

    /// What the expansion of a schedule needs besides.
    pub(crate) fn cron(&self) -> TokenStream {
        quote!(::asynq_cron::__private)
    }

    /// serde by way of the runtime, as `#[serde(crate = "…")]` wants it.
    pub(crate) fn serde(&self) -> String {
        let mut path = self.private().to_string();
        path.push_str("::serde");
        path.retain(|c| c != ' ');
        path
    }
}

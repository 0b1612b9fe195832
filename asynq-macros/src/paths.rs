//! The only place that spells `::asynq_runtime` and `::asynq_cron`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;

/// The way from the user's crate to the runtime.
pub(crate) struct Paths {
    root: TokenStream,
    is_given: bool,
    cron: TokenStream,
}

impl Paths {
    /// The user's `crate = …` and `cron_crate = …`, for renamed or re-exported dependencies.
    pub(crate) fn new(crate_path: Option<&Path>, cron_crate: Option<&Path>) -> Self {
        let root = crate_path.map_or_else(|| quote!(::asynq_runtime), ToTokens::to_token_stream);
        let cron = cron_crate.map_or_else(|| quote!(::asynq_cron), ToTokens::to_token_stream);
        Self { root, is_given: crate_path.is_some(), cron }
    }

    /// The module for generated code alone.
    pub(crate) fn private(&self) -> TokenStream {
        let root = &self.root;
        quote!(#root::__private)
    }

    /// The same at this place in the source. A path that the user gave stays at its own, where `$crate` may stand in it.
    pub(crate) fn private_at(&self, span: Span) -> TokenStream {
        if self.is_given { self.private() } else { quote_spanned!(span=> ::asynq_runtime::__private) }
    }

    /// What the expansion of a schedule needs besides.
    pub(crate) fn cron(&self) -> TokenStream {
        let cron = &self.cron;
        quote!(#cron::__private)
    }

    /// serde by way of the runtime, as `#[serde(crate = "…")]` wants it.
    pub(crate) fn serde(&self) -> String {
        self.private_text() + "::serde"
    }

    /// [`private`](Self::private) for attributes that take paths in quotes.
    pub(crate) fn private_text(&self) -> String {
        let mut path = self.private().to_string();
        path.retain(|c| c != ' ');
        path
    }
}

//! The only place that spells `::asynq_runtime`, `::asynq_cron` and the facade's `::asynq_jobs`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;

/// The crate whose attribute was written, which the user's crate depends on.
#[derive(Clone, Copy)]
pub(crate) enum Home {
    /// asynq-runtime or asynq-cron.
    Runtime,
    /// asynq-jobs.
    Facade,
}

/// The way from the user's crate to the runtime.
pub(crate) struct Paths {
    home: Home,
    given: Option<TokenStream>,
    cron: TokenStream,
}

impl Paths {
    /// The user's `crate = …` and `cron_crate = …`, for renamed or re-exported dependencies.
    pub(crate) fn new(home: Home, crate_path: Option<&Path>, cron_crate: Option<&Path>) -> Self {
        let cron = || match home {
            Home::Runtime => quote!(::asynq_cron),
            Home::Facade => quote!(::asynq_jobs::cron),
        };
        let cron = cron_crate.map_or_else(cron, ToTokens::to_token_stream);
        Self { home, given: crate_path.map(ToTokens::to_token_stream), cron }
    }

    /// The module for generated code alone.
    pub(crate) fn private(&self) -> TokenStream {
        self.private_at(Span::call_site())
    }

    /// The same at this place in the source. A path that the user gave stays at its own, where `$crate` may stand in it.
    pub(crate) fn private_at(&self, span: Span) -> TokenStream {
        match (&self.given, self.home) {
            (Some(root), _) => quote!(#root::__private),
            (None, Home::Runtime) => quote_spanned!(span=> ::asynq_runtime::__private),
            (None, Home::Facade) => quote_spanned!(span=> ::asynq_jobs::__private),
        }
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

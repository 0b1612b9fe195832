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

/// The path from the user's crate to the runtime.
pub(crate) struct Paths {
    home: Home,
    given: Option<TokenStream>,
    cron: TokenStream,
}

impl Paths {
    /// Takes the user's `crate = …` and `cron_crate = …`, for renamed or re-exported dependencies.
    pub(crate) fn new(home: Home, crate_path: Option<&Path>, cron_crate: Option<&Path>) -> Self {
        let cron = match (cron_crate, home, crate_path) {
            (Some(cron), ..) => quote!(#cron),
            (None, Home::Runtime, _) => quote!(::asynq_cron),
            (None, Home::Facade, Some(facade)) => quote!(#facade::cron),
            (None, Home::Facade, None) => quote!(::asynq_jobs::cron),
        };
        Self { home, given: crate_path.map(ToTokens::to_token_stream), cron }
    }

    /// Returns the path of the module for generated code alone.
    pub(crate) fn private(&self) -> TokenStream {
        self.private_at(Span::call_site())
    }

    /// [`private`](Self::private) with `span`. A path that the user gave keeps its own span, at which the compiler reports a crate that does not
    /// exist.
    pub(crate) fn private_at(&self, span: Span) -> TokenStream {
        match (&self.given, self.home) {
            (Some(root), _) => quote!(#root::__private),
            (None, Home::Runtime) => quote_spanned!(span=> ::asynq_runtime::__private),
            (None, Home::Facade) => quote_spanned!(span=> ::asynq_jobs::__private),
        }
    }

    /// Returns the path of the module that the expansion of a schedule uses besides.
    pub(crate) fn cron(&self) -> TokenStream {
        let cron = &self.cron;
        quote!(#cron::__private)
    }

    /// Returns the path of serde through the runtime, as `#[serde(crate = "…")]` wants it.
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

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn each_attribute_reaches_the_crates_that_its_user_depends_on() {
        let (ours, theirs): (Path, Path) = (parse_quote!(::company::jobs), parse_quote!(::company::cron));
        for (home, given, cron_given, root, cron) in [
            (Home::Runtime, None, None, "::asynq_runtime", "::asynq_cron"),
            (Home::Runtime, Some(&ours), None, "::company::jobs", "::asynq_cron"),
            (Home::Runtime, None, Some(&theirs), "::asynq_runtime", "::company::cron"),
            (Home::Facade, None, None, "::asynq_jobs", "::asynq_jobs::cron"),
            (Home::Facade, Some(&ours), None, "::company::jobs", "::company::jobs::cron"),
            (Home::Facade, Some(&ours), Some(&theirs), "::company::jobs", "::company::cron"),
        ] {
            let paths = Paths::new(home, given, cron_given);
            assert_eq!(paths.private_text(), format!("{root}::__private"));
            assert_eq!(paths.cron().to_string().replace(' ', ""), format!("{cron}::__private"));
        }
    }
}

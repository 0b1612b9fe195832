//! A mistake in the type of a parameter: its place, and what to write.

use proc_macro2::TokenStream;
use quote::ToTokens;

pub(super) type Mistake = (TokenStream, &'static str);

pub(super) fn mistake<T>(tokens: impl ToTokens, message: &'static str) -> Result<T, Mistake> {
    Err((tokens.to_token_stream(), message))
}

//! Finds the place of some bytes inside a string literal.

use std::ops::Range;

use proc_macro2::Span;
use syn::LitStr;

/// The span of these bytes of the literal's value.
///
/// The whole literal where it cannot be told: on stable Rust, and when escapes make value and source differ.
pub(super) fn within(literal: &LitStr, bytes: Range<usize>) -> Span {
    let token = literal.token();
    let is_plain = token.to_string() == format!("\"{}\"", literal.value());
    if !is_plain || bytes.is_empty() {
        return literal.span();
    }
    // One more for the opening quote.
    token.subspan(bytes.start + 1..bytes.end + 1).unwrap_or_else(|| literal.span())
}

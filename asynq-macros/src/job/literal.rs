//! Finds the place of some bytes inside a string literal.

use std::ops::Range;

use proc_macro2::Span;
use syn::LitStr;

/// Returns the span of these bytes of the literal's value.
///
/// On stable Rust, and if escapes make value and source differ, it is the span of the whole literal.
pub(super) fn within(literal: &LitStr, bytes: Range<usize>) -> Span {
    let token = literal.token();
    let is_plain = token.to_string() == format!("\"{}\"", literal.value());
    if !is_plain || bytes.is_empty() {
        return literal.span();
    }
    // The opening quote is one byte more.
    token.subspan(bytes.start + 1..bytes.end + 1).unwrap_or_else(|| literal.span())
}

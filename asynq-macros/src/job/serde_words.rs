//! Finds misspelt words in `#[serde(…)]`, which serde reports together with errors about the whole job.

use asynq_grammar::nearest;
use proc_macro2::TokenTree;
use syn::{Attribute, Ident};

/// serde's attributes of a field.
const OF_SERDE: [&str; 14] = [
    "rename",
    "alias",
    "default",
    "flatten",
    "skip",
    "skip_serializing",
    "skip_deserializing",
    "skip_serializing_if",
    "serialize_with",
    "deserialize_with",
    "with",
    "borrow",
    "bound",
    "getter",
];

/// Returns a word in `#[serde(…)]` that is nearly one of serde's, and serde's word. serde would report it, and the compiler
/// would add that the job is neither `Serialize` nor `Deserialize`. Other unknown words are left to serde: a newer one may
/// know them.
pub(super) fn misspelt_in(attr: &Attribute) -> Option<(Ident, &'static str)> {
    let list = attr.meta.require_list().ok()?;
    let mut begins = true;
    for token in list.tokens.clone() {
        if let (true, TokenTree::Ident(word)) = (begins, &token) {
            let text = word.to_string();
            if !OF_SERDE.contains(&text.as_str())
                && let Some(meant) = nearest(&text, OF_SERDE)
            {
                return Some((word.clone(), meant));
            }
        }
        begins = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
    }
    None
}

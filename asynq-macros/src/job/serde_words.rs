//! Reads `#[serde(…)]` of a field: misspelt words, which serde reports together with errors about the whole job, and the
//! field's names.

use asynq_grammar::nearest;
use quote::ToTokens as _;
use syn::{Attribute, Expr, Ident, LitStr, Meta, MetaNameValue, Token, punctuated::Punctuated};

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

/// Returns the words in `#[serde(…)]`, such as `default` and `rename = "to"`. An attribute that holds anything else is left to serde.
fn words_in(attrs: &[Attribute]) -> impl Iterator<Item = Meta> {
    let of_serde = attrs.iter().filter(|attr| attr.path().is_ident("serde"));
    of_serde.flat_map(|attr| attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default())
}

/// Returns the first of `words` that is in `#[serde(…)]`.
pub(super) fn word_in(attrs: &[Attribute], words: &[&str]) -> Option<Ident> {
    let is_there = |word: &&str| words_in(attrs).find(|found| found.path().is_ident(word));
    words.iter().find_map(is_there)?.path().get_ident().cloned()
}

/// Returns a word in `#[serde(…)]` that is nearly one of serde's, and serde's word. serde would report it, and the compiler
/// would add that the job is neither `Serialize` nor `Deserialize`. Other unknown words are left to serde: a newer one may
/// know them.
pub(super) fn misspelt_in(attrs: &[Attribute]) -> Option<(Ident, &'static str)> {
    words_in(attrs).find_map(|word| {
        let word = word.path().get_ident()?.clone();
        let text = word.to_string();
        let meant = nearest(&text, OF_SERDE)?;
        (!OF_SERDE.contains(&text.as_str())).then_some((word, meant))
    })
}

/// Returns the name by which serde reads the field, if an attribute gives it one: `rename = "to"` or
/// `rename(deserialize = "to")`.
pub(super) fn rename_in(attrs: &[Attribute]) -> Option<String> {
    words_in(attrs).filter(|word| word.path().is_ident("rename")).find_map(|word| {
        let given = match word {
            Meta::NameValue(given) => given,
            Meta::List(list) => {
                let sides = list.parse_args_with(Punctuated::<MetaNameValue, Token![,]>::parse_terminated).ok()?;
                sides.into_iter().find(|side| side.path.is_ident("deserialize"))?
            }
            Meta::Path(_) => return None,
        };
        text(given.value)
    })
}

/// Returns the other names by which serde reads the field, if an attribute gives it any: `alias = "to"`.
pub(super) fn aliases_in(attrs: &[Attribute]) -> Vec<String> {
    let aliases = words_in(attrs).filter(|word| word.path().is_ident("alias"));
    aliases.filter_map(|word| text(word.require_name_value().ok()?.value.clone())).collect()
}

/// Returns the text of a literal.
fn text(value: Expr) -> Option<String> {
    // A macro may have put the text into a group without delimiters, which parsing looks through.
    syn::parse2::<LitStr>(value.into_token_stream()).ok().map(|text| text.value())
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn a_field_has_the_name_by_which_serde_reads_it() {
        let attrs: [(Attribute, Option<&str>); 5] = [
            (parse_quote!(#[serde(rename = "to")]), Some("to")),
            (parse_quote!(#[serde(default = "ann", rename = "to", bound(deserialize = "T: Read"))]), Some("to")),
            (parse_quote!(#[serde(rename(serialize = "out", deserialize = "to"))]), Some("to")),
            (parse_quote!(#[serde(rename(serialize = "out"))]), None),
            (parse_quote!(#[serde(default, alias = "to")]), None),
        ];
        for (attr, expected) in attrs {
            assert_eq!(rename_in(std::slice::from_ref(&attr)).as_deref(), expected, "{}", attr.to_token_stream());
        }
    }

    #[test]
    fn a_field_has_the_aliases_by_which_serde_reads_it() {
        let attr: Attribute = parse_quote!(#[serde(alias = "to", rename = "address", alias = "recipient")]);
        assert_eq!(aliases_in(&[attr]), ["to", "recipient"]);
        assert!(aliases_in(&[parse_quote!(#[serde(default)])]).is_empty());
    }
}

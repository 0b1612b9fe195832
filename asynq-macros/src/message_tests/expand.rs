//! Expands the attributes in a source file as the compiler does: outside in and top down, each with the item below it.

use std::{collections::VecDeque, ops::Range};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::LitStr;

use super::token_ranges::TokenRanges;
use crate::job::{self, Attribute};

/// A `compile_error!` of an expansion.
pub(super) struct Diagnostic {
    pub(super) message: String,
    /// The bytes of the source that the compiler underlines.
    pub(super) bytes: Range<usize>,
    /// The name of the attribute when the error has the span of the call site; the compiler underlines the whole attribute.
    pub(super) call_site: Option<&'static str>,
}

/// Returns the mistakes in a file, in the order of the compiler's messages.
pub(super) fn diagnostics(source: &str) -> Vec<Diagnostic> {
    let tokens: TokenStream = source.parse().expect("the case consists of tokens");
    let mut expander = Expander { ranges: TokenRanges::of(&tokens), diagnostics: Vec::new() };
    expander.expand(tokens);
    expander.diagnostics
}

struct Expander {
    ranges: TokenRanges,
    diagnostics: Vec<Diagnostic>,
}

impl Expander {
    fn expand(&mut self, tokens: TokenStream) {
        let mut rest: VecDeque<TokenTree> = tokens.into_iter().collect();
        // The attributes in front of ours belong to the item that the macro gets.
        let mut others = Vec::new();
        while let Some(token) = rest.pop_front() {
            match (token, rest.front().cloned()) {
                (TokenTree::Punct(hash), Some(TokenTree::Group(brackets)))
                    if hash.as_char() == '#' && brackets.delimiter() == Delimiter::Bracket =>
                {
                    rest.pop_front();
                    let Some((name, attribute, options)) = ours(&brackets) else {
                        others.extend([TokenTree::from(hash), brackets.into()]);
                        continue;
                    };
                    let item = others.drain(..).chain(take_item(&mut rest)).collect();
                    let expansion: Vec<_> =
                        job::expand(attribute, crate::paths::Home::Runtime, options, item).into_iter().collect();
                    let site = hash.span().byte_range().start..brackets.span().byte_range().end;
                    self.read_errors(&expansion, name, &site);
                    // The compiler expands the attributes in an expansion, too.
                    expansion.into_iter().rev().for_each(|token| rest.push_front(token));
                }
                (TokenTree::Group(group), _) => {
                    others.clear();
                    self.expand(group.stream());
                }
                _ => others.clear(),
            }
        }
    }

    /// Adds the `compile_error!`s among the tokens of an expansion.
    fn read_errors(&mut self, expansion: &[TokenTree], name: &'static str, site: &Range<usize>) {
        for tokens in expansion.windows(3) {
            let [TokenTree::Ident(path), _, TokenTree::Group(argument)] = tokens else { continue };
            if path != "compile_error" {
                continue;
            }
            let message = syn::parse2::<LitStr>(argument.stream()).expect("the message").value();
            // syn gives the path the first span of the error, and the argument the last one.
            let (first, last) = (path.span().byte_range(), argument.span().byte_range());
            self.diagnostics.push(match first.is_empty() {
                true => Diagnostic { message, bytes: site.clone(), call_site: Some(name) },
                false => {
                    let bytes = self.ranges.on_stable(&first).start..self.ranges.on_stable(&last).end;
                    Diagnostic { message, bytes, call_site: None }
                }
            });
        }
    }
}

/// Returns the name, the kind and the options of `job` or `periodic` in the brackets of an attribute.
fn ours(brackets: &Group) -> Option<(&'static str, Attribute, TokenStream)> {
    let mut tokens = brackets.stream().into_iter();
    let Some(TokenTree::Ident(name)) = tokens.next() else { return None };
    let (name, attribute) = match name.to_string().as_str() {
        "job" => ("job", Attribute::Job),
        "periodic" => ("periodic", Attribute::Periodic),
        _ => return None,
    };
    match tokens.next() {
        None => Some((name, attribute, TokenStream::new())),
        Some(TokenTree::Group(group)) => Some((name, attribute, group.stream())),
        Some(other) => panic!("`{other}` behind the name of the attribute"),
    }
}

/// Takes an item away from the front of the tokens; it ends with its first braces or semicolon.
fn take_item(tokens: &mut VecDeque<TokenTree>) -> Vec<TokenTree> {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let last = tokens.iter().position(is_end).expect("the item has an end");
    tokens.drain(..=last).collect()
}

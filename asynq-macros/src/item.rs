//! A function whose body is kept as it was written: never parsed, never reprinted.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::{
    Abi, Attribute, FnArg, Result, Signature, Token, Visibility,
    parse::{Parse, ParseStream},
};

/// The item under the attribute.
pub(crate) struct Item {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The braces and everything in them, or the semicolon of a function without a body.
    pub(crate) body: TokenStream,
}

impl Item {
    /// Returns whether a semicolon stands where the body would.
    pub(crate) fn is_without_body(&self) -> bool {
        matches!(self.body.clone().into_iter().next(), Some(TokenTree::Punct(punct)) if punct.as_char() == ';')
    }

    /// Takes away the attributes of parameters that do not belong on a function, such as `#[serde(…)]`.
    pub(crate) fn strip_parameters(&mut self, is_foreign: impl Fn(&Attribute) -> bool) {
        for input in &mut self.sig.inputs {
            if let FnArg::Typed(typed) = input {
                typed.attrs.retain(|attr| !is_foreign(attr));
            }
        }
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !begins_a_function(&input.fork()) {
            return Err(input.error("this attribute goes on a free `async fn`, or on a free `fn` for blocking work"));
        }
        Ok(Self { attrs, vis, sig: input.parse()?, body: input.parse()? })
    }
}

impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.append_all(&self.attrs);
        self.vis.to_tokens(tokens);
        self.sig.to_tokens(tokens);
        self.body.to_tokens(tokens);
    }
}

/// Returns whether an `fn` follows, behind the words that may stand before it.
fn begins_a_function(input: ParseStream<'_>) -> bool {
    input.parse::<Option<Token![const]>>().is_ok()
        && input.parse::<Option<Token![async]>>().is_ok()
        && input.parse::<Option<Token![unsafe]>>().is_ok()
        && input.parse::<Option<Abi>>().is_ok()
        && input.peek(Token![fn])
}

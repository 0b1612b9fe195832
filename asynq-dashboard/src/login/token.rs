//! The bearer token of programs.

use std::{collections::BTreeSet, fmt};

use subtle::ConstantTimeEq as _;

/// A secret that is never shown.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Fewest bytes: shorter tokens can be guessed.
    pub(crate) const SHORTEST: usize = 16;

    /// Fewest different bytes: sixteen equal ones are not a secret.
    pub(crate) const FEWEST: usize = 8;

    /// Creates a token, unless the text is too short, has characters that a header cannot carry, or too few different ones.
    pub(crate) fn new(text: String) -> Option<Self> {
        let different: BTreeSet<_> = text.bytes().collect();
        let is_fit = text.len() >= Self::SHORTEST
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && different.len() >= Self::FEWEST;
        is_fit.then_some(Self(text))
    }

    /// Returns whether `given` is the token, in constant time.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_printable_and_never_shown() {
        assert!(Token::new("short".into()).is_none() && Token::new("with a space in it".into()).is_none());
        for few in ["a".repeat(64), "abcdefg".repeat(8)] {
            assert!(Token::new(few).is_none());
        }
        assert!(Token::new("abcdefgh".repeat(2)).is_some());
        let token = Token::new("0123456789abcdef".into()).expect("long enough");
        assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcdeX") && !token.is(b"") && !token.is(b"0"));
        assert_eq!(format!("{token:?}"), "Token(***)");
    }
}

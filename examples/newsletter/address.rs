//! Decides whether mail can be delivered to an address, and says what is wrong with a broken one.

use std::fmt;

/// An address that is worth a try: one `@`, no white space, a domain of at least two labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
    at: usize,
}

/// Why an address is broken. The texts hold no address, so that equal mistakes are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    NoAt,
    TwoAts,
    WhiteSpace,
    NothingBeforeAt,
    NoDot,
    EmptyLabel,
}

impl Address {
    /// Checks `text`; nothing is trimmed, because an address that needs trimming was mistyped.
    pub(crate) fn parse(text: &str) -> Result<Self, Broken> {
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Broken::WhiteSpace);
        }
        let Some((local, domain)) = text.split_once('@') else { return Err(Broken::NoAt) };
        if domain.contains('@') {
            return Err(Broken::TwoAts);
        }
        if local.is_empty() {
            return Err(Broken::NothingBeforeAt);
        }
        if domain.split('.').any(str::is_empty) {
            return Err(Broken::EmptyLabel);
        }
        if !domain.contains('.') {
            return Err(Broken::NoDot);
        }
        Ok(Self { text: text.to_owned(), at: local.len() })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAt => "bad address: no @",
            Self::TwoAts => "bad address: more than one @",
            Self::WhiteSpace => "bad address: white space",
            Self::NothingBeforeAt => "bad address: nothing before the @",
            Self::NoDot => "bad address: a domain without a dot",
            Self::EmptyLabel => "bad address: an empty label in the domain",
        })
    }
}

impl std::error::Error for Broken {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_or_refused_with_its_reason() {
        let cases = [
            ("ann@example.com", Ok("example.com")),
            ("o'sullivan@mail.example", Ok("mail.example")),
            ("sales/emea@example.org", Ok("example.org")),
            ("a@b.example", Ok("b.example")),
            ("ann.example.com", Err(Broken::NoAt)),
            ("", Err(Broken::NoAt)),
            ("ann@bob@example.com", Err(Broken::TwoAts)),
            ("ann@@example.com", Err(Broken::TwoAts)),
            (" ann@example.com", Err(Broken::WhiteSpace)),
            ("ann@example.com ", Err(Broken::WhiteSpace)),
            ("an n@example.com", Err(Broken::WhiteSpace)),
            ("ann@example.com\t", Err(Broken::WhiteSpace)),
            ("ann\u{a0}b@example.com", Err(Broken::WhiteSpace)),
            ("ann@example.com\r\nBcc: all@example.com", Err(Broken::WhiteSpace)),
            ("@example.com", Err(Broken::NothingBeforeAt)),
            ("ann@example", Err(Broken::NoDot)),
            ("ann@example..com", Err(Broken::EmptyLabel)),
            ("ann@.example.com", Err(Broken::EmptyLabel)),
            ("ann@example.com.", Err(Broken::EmptyLabel)),
            ("ann@", Err(Broken::EmptyLabel)),
        ];
        for (text, expected) in cases {
            let found = Address::parse(text);
            assert_eq!(found.as_ref().map(Address::domain).map_err(|&broken| broken), expected, "{text:?}");
        }
    }
}

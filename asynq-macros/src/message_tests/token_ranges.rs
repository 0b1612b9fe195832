//! Knows the places of a file that the stable compiler can underline.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

/// The bytes of every token, and those of every group as a whole.
#[derive(Default)]
pub(super) struct TokenRanges {
    tokens: Vec<Range<usize>>,
    groups: Vec<Range<usize>>,
}

impl TokenRanges {
    pub(super) fn of(tokens: &TokenStream) -> Self {
        let mut ranges = Self::default();
        ranges.read(tokens.clone());
        ranges
    }

    fn read(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            let mut range = token.span().byte_range();
            match token {
                TokenTree::Group(group) => {
                    self.groups.push(range);
                    self.tokens.push(group.span_open().byte_range());
                    self.read(group.stream());
                    self.tokens.push(group.span_close().byte_range());
                    continue;
                }
                // A lifetime is one token of the compiler.
                TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                    range.end = tokens.next().map_or(range.end, |name| name.span().byte_range().end);
                }
                _ => {}
            }
            self.tokens.push(range);
        }
    }

    /// Returns the place of a span on the stable compiler, which neither cuts a span nor joins two: the span of a part of
    /// a literal is that of the literal, and the span of several tokens is that of the first.
    pub(super) fn on_stable(&self, span: &Range<usize>) -> Range<usize> {
        let group = self.groups.iter().find(|range| *range == span);
        let token = || self.tokens.iter().find(|range| range.contains(&span.start));
        group.or_else(token).expect("the span is in the file").clone()
    }
}

//! Shortens the texts that are kept with tasks, and writes errors with their causes.

use std::{error::Error, iter};

/// How deep causes are followed, because an error may be its own cause.
const DEEPEST_CAUSE: usize = 32;
/// Most bytes of the text of one cause, which may quote whatever a program or a server was given.
const LONGEST_CAUSE: usize = 4096;

/// At most `most` bytes of a text, cut between two characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// Returns an error and its causes, the nearest first, at most [`DEEPEST_CAUSE`] of them.
pub(crate) fn chain<'e>(first: Option<&'e (dyn Error + 'static)>) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(first, |&error| error.source()).take(DEEPEST_CAUSE)
}

/// Returns `text` with the texts of `first` and of its causes behind it, but for each that the text so far contains.
pub(crate) fn add_causes(mut text: String, first: Option<&(dyn Error + 'static)>) -> String {
    for cause in chain(first) {
        let more = cause.to_string();
        let more = cut(&more, LONGEST_CAUSE);
        if !text.contains(more) {
            text.push_str(": ");
            text.push_str(more);
        }
    }
    text
}

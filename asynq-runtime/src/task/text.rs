//! Shortens the texts that are kept with tasks.

/// At most `most` bytes of a text, cut between two characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

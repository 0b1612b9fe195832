//! Foreign text of any length: cut on pages, whole on demand.

use maud::{Markup, html};

/// Most characters of a cell of a table.
pub(crate) const CELL: usize = 120;
/// Most characters of a block of text on a page.
pub(crate) const BLOCK: usize = 4000;
/// The limit of a block that is shown whole.
pub(crate) const WHOLE: usize = usize::MAX;

/// Returns the first `limit` characters, and how many more there are.
pub(crate) fn cut(text: &str, limit: usize) -> (&str, usize) {
    match text.char_indices().nth(limit) {
        None => (text, 0),
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
    }
}

/// Renders a text for a cell of a table, cut to [`CELL`] characters.
pub(crate) fn cell(text: &str) -> Markup {
    beginning(text, CELL)
}

/// Renders the first `limit` characters of a text, and whether there are more.
pub(crate) fn beginning(text: &str, limit: usize) -> Markup {
    let (head, more) = cut(text, limit);
    html! { (head) @if more > 0 { "…" } }
}

/// Returns an id for a table: the ends of a long one, because ids that were made one after another differ in the last characters.
pub(crate) fn id(text: &str) -> String {
    let length = text.chars().count();
    if length <= 24 {
        return text.to_owned();
    }
    let (head, tail) = (text.chars().take(8), text.chars().skip(length - 12));
    head.chain(['…']).chain(tail).collect()
}

/// Renders a block of text; a text that is cut links to the whole text at `all`.
pub(crate) fn block(text: &str, class: &str, limit: usize, all: &str) -> Markup {
    let (head, more) = cut(text, limit);
    html! {
        pre.(class) tabindex="0" { (head) @if more > 0 { "…" } }
        @if more > 0 {
            p.soft {
                (super::super::format::count(more as u64)) " more characters. "
                a href=(all) { "Show all" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), ("äöü", 0));
        assert_eq!(cut("äöü", 2), ("äö", 1));
        assert_eq!(cut("", 0), ("", 0));
    }

    #[test]
    fn a_long_id_shows_both_ends() {
        assert_eq!(id("0dc1f3a5-8e01-7001-8000-0000000004d2"), "0dc1f3a5…0000000004d2");
        assert_eq!(id(&"ä".repeat(24)), "ä".repeat(24));
    }

    #[test]
    fn text_that_is_cut_off_can_be_expanded() {
        let whole = block("abc", "", 3, "/x").into_string();
        assert!(!whole.contains("Show all"), "{whole}");
        let part = block("<b>&", "bad", 2, "/x?all=1").into_string();
        assert!(part.contains("&lt;b…") && part.contains(r#"href="/x?all=1""#), "{part}");
        assert!(!block(&"x".repeat(70_000), "", WHOLE, "/x").into_string().contains("more characters"));
    }
}

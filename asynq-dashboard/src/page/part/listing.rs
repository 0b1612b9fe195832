//! The surroundings of a list: links to its pages, and a text in place of an empty list.

use maud::{Markup, html};

use crate::{page::format::count, span::Span};

impl Span {
    /// Renders the position and the links to other pages; `link` returns the address of a page.
    pub(crate) fn pages(self, link: impl Fn(usize) -> String) -> Markup {
        let last = self.last();
        let (from, to) = (self.offset() as u64 + 1, ((self.offset() + self.per) as u64).min(self.total));
        html! {
            nav.pages aria-label="Pages" {
                span { (count(from)) "–" (count(to)) " of " (count(self.total)) }
                span.grow {}
                @if self.page > 1 {
                    @if self.page > 2 { a.button href=(link(1)) { "First" } }
                    a.button rel="prev" href=(link(self.page - 1)) { "Previous" }
                }
                @if last > 1 { span { "Page " (count(self.page as u64)) " of " (count(last as u64)) } }
                @if self.page < last {
                    a.button rel="next" href=(link(self.page + 1)) { "Next" }
                    @if self.page + 1 < last { a.button href=(link(last)) { "Last" } }
                }
            }
        }
    }
}

/// Renders a text in place of an empty list, and the next step.
pub(crate) fn empty(message: &str, then: &Markup) -> Markup {
    html! { div.empty { strong { (message) } (then) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lead_to_their_neighbours_and_the_ends() {
        let html = |page| Span::new(page, 30, 100).pages(|n| format!("?page={n}")).into_string();
        let links = |page: usize| -> Vec<usize> {
            html(page).split("?page=").skip(1).filter_map(|s| s.split('"').next()?.parse().ok()).collect()
        };
        assert_eq!((links(1), links(3), links(4)), (vec![2, 4], vec![1, 2, 4], vec![1, 3]));
        assert!(html(4).contains("91–100 of 100"));
    }
}

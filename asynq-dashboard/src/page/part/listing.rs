//! The surroundings of a list: links to its pages, and a text in place of an empty list.

use maud::{Markup, html};

use crate::page::format::count;

/// One page of a longer list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Counted from 1.
    pub(crate) page: usize,
    /// Rows per page.
    pub(crate) per: usize,
    /// Rows in all.
    pub(crate) total: u64,
}

impl Span {
    /// Creates the requested page, moved to the last one if there are fewer.
    pub(crate) fn new(page: usize, per: usize, total: u64) -> Self {
        let span = Self { page: 1, per: per.max(1), total };
        Self { page: page.clamp(1, span.last()), ..span }
    }

    /// Returns the number of the last page; 1 for an empty list.
    pub(crate) fn last(self) -> usize {
        usize::try_from(self.total.div_ceil(self.per as u64)).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the number of rows before this page.
    pub(crate) fn offset(self) -> usize {
        (self.page - 1).saturating_mul(self.per)
    }

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
    fn a_page_that_is_not_there_is_the_nearest_one() {
        for (requested, total, page, last) in
            [(1, 0, 1, 1), (9, 30, 1, 1), (9, 31, 2, 2), (0, 100, 1, 4), (3, 100, 3, 4)]
        {
            let span = Span::new(requested, 30, total);
            assert_eq!((span.page, span.last()), (page, last), "{requested} of {total}");
        }
    }

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

//! The numbers of one page of a longer list, for the data and for the links below it.

use serde::Deserialize;

/// The query of a list of several pages.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PageQuery {
    /// Counted from 1; the first page is also 0.
    pub(crate) page: usize,
}

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

    /// Returns the number of rows behind this page.
    pub(crate) fn behind(self) -> u64 {
        self.total.saturating_sub(self.offset().saturating_add(self.per) as u64)
    }
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
    fn each_row_is_before_a_page_on_it_or_behind_it() {
        for (page, before, behind) in [(1, 0, 70), (3, 60, 10), (4, 90, 0)] {
            let span = Span::new(page, 30, 100);
            assert_eq!((span.offset(), span.behind()), (before, behind), "{page}");
        }
    }
}

//! The median of the runs of one order, and how far the runs lie apart.

use crate::measured::short;

/// A figure that stands for several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Median {
    pub(crate) figure: f64,
    /// Half of the distance from the least to the greatest, as a share of the figure. Infinite where it is not told.
    pub(crate) spread: f64,
    /// The number of runs.
    pub(crate) n: usize,
}

impl Median {
    /// Returns the median, which for an even number is the middle between two; `None` if there is no figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures = sorted(figures);
        let upper = *figures.get(figures.len() / 2)?;
        let figure =
            if figures.len().is_multiple_of(2) { (figures[figures.len() / 2 - 1] + upper) / 2.0 } else { upper };
        let range = figures.last()? - figures.first()?;
        let spread = if range == 0.0 { 0.0 } else { range / 2.0 / figure.abs() };
        Some(Self { figure, spread, n: figures.len() })
    }

    /// Returns the least figure in place of the median, for a promise that no run may break. It is at the end of the range, so that it
    /// has no spread.
    pub(crate) fn least_of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures = sorted(figures);
        Some(Self { figure: *figures.first()?, spread: f64::INFINITY, n: figures.len() })
    }

    /// Returns the spread as text, which is empty for one run and where it is not a share of the figure.
    pub(crate) fn spread(self) -> String {
        let is_told = self.n > 1 && self.spread.is_finite();
        if is_told { format!("±{:.0} %", self.spread * 100.0) } else { String::new() }
    }

    /// Returns the figure with its spread.
    pub(crate) fn formatted(self) -> String {
        format!("{} {}", short(self.figure), self.spread()).trim_end().to_owned()
    }
}

fn sorted(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_no_spread_and_an_even_number_has_its_median_in_the_middle() {
        let of = |figures: &[f64]| Median::of(figures.iter().copied());
        assert_eq!(of(&[]), None);
        for (figures, figure, spread, formatted) in [
            (&[7.0][..], 7.0, 0.0, "7"),
            (&[12.0, 8.0][..], 10.0, 0.2, "10 ±20 %"),
            (&[30.0, 10.0, 20.0][..], 20.0, 0.5, "20 ±50 %"),
            (&[4.0, 1.0, 3.0, 2.0][..], 2.5, 0.6, "2.50 ±60 %"),
            (&[0.0, 0.0][..], 0.0, 0.0, "0 ±0 %"),
            (&[0.0, 0.0, 1.0][..], 0.0, f64::INFINITY, "0"),
        ] {
            let median = of(figures).unwrap();
            assert_eq!(median, Median { figure, spread, n: figures.len() }, "{figures:?}");
            assert_eq!(median.formatted(), formatted, "{figures:?}");
        }
    }

    #[test]
    fn the_least_run_tells_whether_a_promise_was_kept() {
        let least = Median::least_of([0.4, -0.5, 0.7]).unwrap();
        assert_eq!((least.figure, least.n), (-0.5, 3));
        assert_eq!(least.formatted(), "-0.500", "half of the range is not a share of the least");
        assert_eq!(Median::least_of([]), None);
    }
}

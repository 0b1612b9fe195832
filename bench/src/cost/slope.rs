//! A straight line through the logarithms of some points.

/// Returns the slope of the line with the least squares; `None` for fewer than two points that have logarithms.
pub(super) fn slope(points: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let points: Vec<_> = points.filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        let from_middle = point.0 - x;
        (above + from_middle * (point.1 - y), below + from_middle * from_middle)
    });
    Some(above / below)
}

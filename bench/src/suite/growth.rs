//! How the cost of a task grows with the number of queues: the keys of the runs, and their plot.

use std::path::Path;

use asynq_runtime::prelude::BoxError;
use plotters::prelude::*;

use super::Found;
use crate::measured::Figure;

pub(super) const BROKERS: [&str; 2] = ["redis", "sqlite"];
/// Stands for the limit of Redis among the brokers.
pub(super) const LIMIT: &str = "redis limit";
pub(super) const QUEUES: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// The most rounds in which they are measured.
pub(super) const ROUNDS: usize = 3;
const SIZE: (u32, u32) = (640, 400);

/// Returns the key of a run.
pub(super) fn key(broker: &str, queues: u64) -> String {
    format!("{broker} growth queues {queues}")
}

/// Draws microseconds per task: lines with a mark at each point, both axes by powers of ten.
///
/// # Errors
///
/// The file cannot be written.
pub(super) fn draw(found: &Found, path: &Path) -> Result<(), BoxError> {
    let lines = BROKERS.map(|broker| {
        let points = QUEUES.into_iter().filter_map(|queues| {
            let time = Figure::Time.median(found.get(&key(broker, queues))?)?;
            Some((queues as f64, time.figure))
        });
        (broker, points.collect::<Vec<_>>())
    });
    let points = || lines.iter().flat_map(|(_, points)| points);
    let span = |of: fn(&(f64, f64)) -> f64| {
        let least = points().map(of).reduce(f64::min).unwrap_or(1.0);
        let most = points().map(of).reduce(f64::max).unwrap_or(10.0);
        least..most
    };
    let (x, y) = (span(|point| point.0), span(|point| point.1));
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("drain: microseconds per task, by queues", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((x.start..x.end * 1.2).log_scale(), (y.start / 2.0..y.end * 2.0).log_scale())?;
    let whole = |figure: &f64| format!("{figure:.0}");
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("queues").x_label_formatter(&whole).y_desc("µs per task").y_label_formatter(&whole).draw()?;
    for ((name, points), colour) in lines.iter().zip([RED, BLUE]) {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

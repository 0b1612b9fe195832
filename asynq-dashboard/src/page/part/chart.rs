//! A chart: its data for `charts.js`, and its last values as text.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::{Value, json};

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// One line per series.
    Lines,
    /// Areas on top of each other.
    Stack,
    /// A bar per day.
    Bars,
}

/// The unit of a chart's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Things.
    Count,
    /// Things per second.
    Rate,
    /// Seconds.
    Span,
}

/// Numbers over time.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// The id of the chart on its page, by which an update finds it.
    pub(crate) id: &'static str,
    /// The title.
    pub(crate) title: &'static str,
    /// The way of drawing.
    pub(crate) kind: Kind,
    /// The unit of the numbers.
    pub(crate) unit: Unit,
    /// The last values in words.
    pub(crate) now: String,
    /// Unix seconds, ascending.
    pub(crate) times: Vec<i64>,
    /// The series.
    pub(crate) series: Vec<Series>,
}

/// One row of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// The colour: a state, `processed`, `failed` or `latency`.
    pub(crate) class: &'static str,
    /// The name for people.
    pub(crate) name: &'static str,
    /// A number per time.
    pub(crate) values: Vec<f64>,
}

impl Chart {
    /// Renders the figure. With less than two points the figure says that points are on their way.
    pub(crate) fn show(&self) -> Markup {
        let label = format!("{}: {}", self.title, self.now);
        html! {
            figure.chart.panel id=(self.id) {
                h3 { (self.title) span data-at { (self.now) } }
                @if self.times.len() < 2 {
                    div.plot.soft { "The first points come within seconds." }
                } @else {
                    div.plot id={ (self.id) "-plot" } role="img" aria-label=(label) data-chart=(self.data()) {}
                }
                @if self.series.len() > 1 {
                    figcaption.legend {
                        @for series in &self.series { span class={ "state off s-" (series.class) } { (series.name) } }
                    }
                }
            }
        }
    }

    fn data(&self) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|s| json!([s.class, s.name, s.values.iter().copied().map(rounded).collect::<Vec<_>>()]))
            .collect();
        json!({ "k": self.kind, "u": self.unit, "t": self.times, "s": series })
    }
}

/// Rounds to three digits behind the point: a chart cannot show more.
fn rounded(value: f64) -> Value {
    let rounded = (value * 1000.0).round() / 1000.0;
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 { json!(rounded as i64) } else { json!(rounded) }
}

/// Renders a line without axes: processed tasks, and failed ones.
pub(crate) fn spark(id: &str, processed: &[f64], failed: &[f64]) -> Markup {
    let row = |values: &[f64]| values.iter().map(|&v| rounded(v).to_string()).collect::<Vec<_>>().join(",");
    html! {
        @if processed.len() < 2 { div.spark {} } @else {
            div.spark id=(id) aria-hidden="true" data-spark={ (row(processed)) ";" (row(failed)) } {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(times: Vec<i64>) -> Chart {
        let series = vec![Series { class: "failed", name: "Failed", values: vec![1.0 / 3.0; times.len()] }];
        Chart { id: "c", title: "Rate", kind: Kind::Lines, unit: Unit::Rate, now: "0.3/s".into(), times, series }
    }

    #[test]
    fn a_chart_carries_its_numbers_and_says_them() {
        assert_eq!(
            chart(vec![1, 2]).data(),
            json!({ "k": "lines", "u": "rate", "t": [1, 2], "s": [["failed", "Failed", [0.333, 0.333]]] })
        );
        let html = chart(vec![1, 2]).show().into_string();
        assert!(html.contains(r#"aria-label="Rate: 0.3/s""#) && html.contains("data-chart="), "{html}");
        assert!(!chart(vec![1]).show().into_string().contains("data-chart="));
    }

    #[test]
    fn a_spark_is_short() {
        let html = spark("s", &[1.0, 0.5], &[0.0, 2.5]).into_string();
        assert!(html.contains(r#"data-spark="1,0.5;0,2.5""#), "{html}");
    }
}

//! The numbers of queues in Prometheus's text format, by asynq's names, so that boards made for it work.

use std::{fmt::Write as _, time::Duration};

use asynq_runtime::{TaskState, broker::QueueStats};
use metrics_exporter_prometheus::formatting::{write_help_line, write_type_line};

use super::collector::Collected;

/// One name with its kind, its meaning and its lines.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    lines: fn(&Collected, &mut Lines<'_>),
}

/// Declares the families of [`FAMILIES`], each with its name, kind, help and lines.
macro_rules! families {
    ($($name:literal, $kind:literal, $help:literal, $lines:expr;)*) => {
        /// Every name that is read from the broker. Two of asynq's gauges end in `_total`, because boards use these names.
        const FAMILIES: &[Family] = &[$(Family { name: $name, kind: $kind, help: $help, lines: $lines }),*];
    };
}

families! {
    "asynq_tasks_enqueued_total", "gauge", "Tasks in the queue by state; those that wait in groups are not among them.",
        |all, lines| all.queues.iter().for_each(|(queue, _)| states(lines, queue));
    "asynq_queue_size", "gauge", "Tasks in the queue in all states, those in groups included.",
        |all, lines| lines.per_queue(all, |queue, _| Some(queue.size as f64));
    "asynq_queue_latency_seconds", "gauge", "For how long the next task of the queue has waited, pending or due.",
        |all, lines| lines.per_queue(all, |queue, _| Some(queue.latency.as_secs_f64()));
    "asynq_queue_memory_usage_approx_bytes", "gauge",
        "Bytes that the queue takes, estimated from some of its tasks once a minute.",
        |all, lines| lines.per_queue(all, |_, bytes| bytes.map(|bytes| bytes as f64));
    "asynq_tasks_processed_total", "counter", "Runs that ended since the beginning, failed ones included.",
        |all, lines| lines.per_queue(all, |queue, _| Some(queue.processed_total as f64));
    "asynq_tasks_failed_total", "counter", "Runs that failed since the beginning.",
        |all, lines| lines.per_queue(all, |queue, _| Some(queue.failed_total as f64));
    "asynq_queue_paused_total", "gauge", "1 if the queue is paused, else 0.",
        |all, lines| lines.per_queue(all, |queue, _| Some(f64::from(u8::from(queue.paused))));
    "asynq_broker_up", "gauge", "1 if the broker answered this scrape, else 0; then there are no numbers of queues.",
        |all, lines| lines.one(f64::from(u8::from(all.is_up)));
    "asynq_queues", "gauge", "Queues that the broker names.",
        |all, lines| lines.one(all.known as f64);
    "asynq_queues_unread", "gauge",
        "Queues without numbers of this moment: failed ones are left out, late ones are shown as they were.",
        |all, lines| {
            lines.labelled(&[("reason", "failed")], all.failed as f64);
            lines.labelled(&[("reason", "late")], all.late as f64);
        };
    "asynq_scrape_seconds", "gauge", "How long reading the queues took.",
        |all, lines| lines.one(all.took.max(Duration::from_nanos(1)).as_secs_f64());
}

/// Returns the text of a scrape.
pub(crate) fn of(collected: &Collected) -> String {
    let mut text = String::with_capacity(2048 + collected.queues.len() * 1024);
    for Family { name, kind, help, lines } in FAMILIES {
        write_help_line(&mut text, name, None, None, help);
        write_type_line(&mut text, name, None, None, kind);
        lines(collected, &mut Lines { text: &mut text, name });
        text.push('\n');
    }
    text
}

/// Returns the text of a recorder without the names of [`FAMILIES`]: a name must not appear twice, whatever names a
/// program gives to its own metrics.
pub(crate) fn without_our_names(text: &str) -> String {
    let is_ours = |line: &str| {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        let name = name.split(['{', ' ']).next().unwrap_or_default();
        FAMILIES.iter().any(|family| family.name == name)
    };
    text.split_inclusive('\n').filter(|line| !is_ours(line)).collect()
}

/// The lines of one family.
struct Lines<'t> {
    text: &'t mut String,
    name: &'static str,
}

impl Lines<'_> {
    fn one(&mut self, value: f64) {
        self.labelled(&[], value);
    }

    fn labelled(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.text.push_str(self.name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if n == 0 { '{' } else { ',' }, escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn per_queue(&mut self, all: &Collected, value: fn(&QueueStats, Option<u64>) -> Option<f64>) {
        for (queue, bytes) in &all.queues {
            if let Some(value) = value(queue, *bytes) {
                self.labelled(&[("queue", queue.name.as_str())], value);
            }
        }
    }
}

/// Escapes the value of a label. The exporter's own function takes a backslash before another one, or before a quotation mark, as an
/// escape, so that two queues would have the same labels.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// Writes asynq's states, in asynq's order.
fn states(lines: &mut Lines<'_>, queue: &QueueStats) {
    for state in TaskState::ALL.into_iter().filter(|&state| state != TaskState::Aggregating) {
        lines.labelled(&[("queue", queue.name.as_str()), ("state", state.as_str())], queue.count(state) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_labels_of_its_own_whatever_its_name() {
        for (queue, expected) in [
            ("a", "a"),
            (r"a\b", r"a\\b"),
            (r"a\\b", r"a\\\\b"),
            (r#"a"b"#, r#"a\"b"#),
            (r#"a\"b"#, r#"a\\\"b"#),
            ("a\nb", r"a\nb"),
            (r"a\nb", r"a\\nb"),
        ] {
            let mut text = String::new();
            Lines { text: &mut text, name: "x" }.labelled(&[("queue", queue), ("state", "retry")], 1.5);
            assert_eq!(text, format!("x{{queue=\"{expected}\",state=\"retry\"}} 1.5\n"));
        }
    }

    #[test]
    fn a_line_without_labels_has_no_braces() {
        let mut text = String::new();
        Lines { text: &mut text, name: "x" }.one(2.0);
        assert_eq!(text, "x 2\n");
    }
}

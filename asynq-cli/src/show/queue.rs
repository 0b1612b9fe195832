//! Queues for people: their table, and some of their numbers as text.

use asynq_runtime::{
    broker::QueueStats,
    inspector::{CountOf, Statistics},
};

use super::{
    table::{Cell, Style, Table},
    text::{about, short_name},
};

/// Returns a rate such as `2.00%`, as Go's tool writes it.
pub(crate) fn error_rate(processed: u64, failed: u64) -> String {
    match processed {
        0 => "N/A".to_owned(),
        processed => format!("{:.2}%", failed as f64 * 100.0 / processed as f64),
    }
}

/// Returns a table of queues with the numbers of their tasks.
pub(crate) fn queue_table(queues: &[QueueStats], style: Style) -> String {
    let counts = Statistics::QUEUE_COLUMNS;
    let headings: Vec<&str> =
        ["QUEUE"].into_iter().chain(counts.iter().map(|(heading, _)| *heading)).chain(["WAITING", ""]).collect();
    let mut table = Table::new(style, &headings).right(1..=counts.len() + 1);
    for q in queues {
        let count = |&(heading, count): &(&str, CountOf)| match (heading, count(q)) {
            ("ACTIVE", n @ 1..) => Cell::count(n).good(),
            ("RETRY", n @ 1..) => Cell::count(n).warning(),
            ("ARCHIVED", n @ 1..) => Cell::count(n).bad(),
            (_, n) => Cell::count(n),
        };
        let ends = [Cell::from(latency(q)), if q.paused { Cell::from("paused").warning() } else { "".into() }];
        table.row([Cell::from(short_name(q.name.as_str()))].into_iter().chain(counts.iter().map(count)).chain(ends));
    }
    table.into_text()
}

/// Returns for how long the next task has waited, for people.
pub(crate) fn latency(queue: &QueueStats) -> String {
    if queue.pending == 0 && queue.latency.is_zero() { "-".to_owned() } else { about(queue.latency) }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::QueueName;
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_long_name_does_not_widen_every_row() {
        let queue = |name: &str| QueueStats::empty(QueueName::from_wire(name), DateTime::UNIX_EPOCH);
        let text = queue_table(&[queue(&"q".repeat(300)), queue("low")], Style::default());
        assert!(text.contains(&format!("\n{}…  ", "q".repeat(59))), "{text}");
    }

    #[test]
    fn no_runs_have_no_error_rate() {
        assert_eq!((error_rate(0, 0), error_rate(200, 4)), ("N/A".to_owned(), "2.00%".to_owned()));
    }
}

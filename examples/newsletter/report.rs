//! The table at the end: the outcome of the campaign, however many runs it took.

use std::{collections::BTreeMap, fmt, time::Duration};

use asynq_runtime::prelude::{TaskInfo, TaskState};

use crate::{campaign::Campaign, meter::Readings, tally::Tally};

/// The content of the table.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) campaign: Campaign,
    pub(crate) tally: Tally,
    pub(crate) readings: Readings,
    /// Where messages went, in words.
    pub(crate) destination: String,
    pub(crate) settled: Settled,
}

/// The settled tasks of a campaign, as the broker has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) sent: usize,
    /// Sent tasks that were refused before.
    pub(crate) retried: usize,
    /// The number of archived tasks for each reason.
    pub(crate) archived: BTreeMap<String, usize>,
}

impl Settled {
    pub(crate) fn count(&mut self, task: &TaskInfo) {
        match task.state {
            TaskState::Completed => {
                self.sent += 1;
                self.retried += usize::from(task.retried > 0);
            }
            TaskState::Archived => {
                let reason = task.last_error.clone().unwrap_or_else(|| "no reason given".to_owned());
                *self.archived.entry(reason).or_default() += 1;
            }
            _ => {}
        }
    }

    fn given_up(&self) -> usize {
        self.archived.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { campaign, tally, readings, destination, settled } = self;
        writeln!(f, "Campaign {} on {}", campaign.id, campaign.broker)?;
        row(f, "rows read", tally.rows, "")?;
        row(f, "sent", settled.sent, destination)?;
        row(f, "  retried", settled.retried, "refused at first, taken on a later attempt")?;
        row(f, "archived", settled.given_up(), "")?;
        let mut reasons: Vec<_> = settled.archived.iter().collect();
        reasons.sort_by_key(|&(reason, count)| (std::cmp::Reverse(*count), reason));
        for (reason, count) in reasons {
            row(f, "", *count, reason)?;
        }
        row(f, "duplicates", tally.duplicates, "refused: one task per address")?;
        if tally.already_done > 0 {
            row(f, "already done", tally.already_done, "settled by an earlier run, not sent again")?;
        }
        if tally.left_over > 0 {
            row(f, "left over", tally.left_over, "enqueued by an earlier run, finished by this one")?;
        }
        match readings.rate() {
            Some(rate) => {
                let jobs = format!("{} jobs in {}", grouped(readings.ended), formatted(readings.took));
                row(f, "jobs per second", rate.round() as usize, &jobs)?;
            }
            None => writeln!(f, "  {:<18} {:>7}", "jobs per second", "-")?,
        }
        if let (Some(p50), Some(p99)) = (readings.percentile(0.50), readings.percentile(0.99)) {
            writeln!(f, "  {:<18} p50 {}, p99 {}", "enqueue to start", formatted(p50), formatted(p99))?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, count: usize, note: &str) -> fmt::Result {
    let line = format!("  {label:<18} {:>7}   {note}", grouped(count));
    writeln!(f, "{}", line.trim_end())
}

/// Writes `1234567` as `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn formatted(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let archived = [("bad address: no @", 3), ("bad address: white space", 11)];
        Report {
            campaign: Campaign { id: "20261124-091500-250".into(), broker: "sqlite://asynq.db".into(), finished: true },
            tally: Tally { rows: 2_004, enqueued: 1_960, duplicates: 44, ..Tally::default() },
            readings: Readings {
                waits: vec![Duration::from_millis(7), Duration::from_millis(1_234)],
                ended: 1_960,
                took: Duration::from_millis(490),
            },
            destination: "to outbox/".into(),
            settled: Settled {
                sent: 1_946,
                retried: 34,
                archived: archived.map(|(reason, count)| (reason.to_owned(), count)).into(),
            },
        }
    }

    #[test]
    fn the_table_of_one_run() {
        let expected = "\
Campaign 20261124-091500-250 on sqlite://asynq.db
  rows read            2,004
  sent                 1,946   to outbox/
    retried               34   refused at first, taken on a later attempt
  archived                14
                          11   bad address: white space
                           3   bad address: no @
  duplicates              44   refused: one task per address
  jobs per second      4,000   1,960 jobs in 490 ms
  enqueue to start   p50 7 ms, p99 1.23 s
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn a_run_that_found_work_reports_it_and_one_that_did_none_claims_no_speed() {
        let mut report = report();
        report.tally = Tally { rows: 2_004, duplicates: 44, left_over: 960, already_done: 1_000, ..Tally::default() };
        report.readings = Readings::default();
        let table = report.to_string();
        assert!(
            table.contains("  already done         1,000   settled by an earlier run, not sent again\n"),
            "{table}"
        );
        assert!(table.contains("  left over              960   enqueued by an earlier run"), "{table}");
        assert!(table.contains("  jobs per second          -\n"), "{table}");
        assert!(!table.contains("enqueue to start"), "{table}");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        assert_eq!(cases.map(|(number, _)| grouped(number)), cases.map(|(_, text)| text));
    }
}

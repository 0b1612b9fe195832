//! The printed report: a line for each binary that ends, and at the end a table, the skips with their reasons, the failures.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    suite::{Ended, Part},
    temporary,
};

/// The most lines of a failed binary that are printed; its log has all.
const FAILED_LINES: usize = 150;

/// The counts of libtest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    skipped: usize,
}

/// Collects the runs that ended.
#[derive(Debug)]
pub(crate) struct Report {
    logs: PathBuf,
    began: Instant,
    rows: Vec<(Ended, Counts)>,
}

impl Report {
    /// Reports into `logs`, which gets a file with the whole output of each run.
    pub(crate) fn new(logs: PathBuf) -> Self {
        Self { logs, began: Instant::now(), rows: Vec::new() }
    }

    /// Prints a run that ended, and keeps it for the table.
    pub(crate) fn add(&mut self, ended: Ended) {
        let counts = count(&ended.output);
        let _ = fs::write(self.logs.join(format!("{}.log", title(&ended))), ended.output.join("\n") + "\n");
        println!("{}", row(&ended, counts));
        self.rows.push((ended, counts));
    }

    /// Prints the table, the files that are left over and the failures; returns whether every run succeeded.
    pub(crate) fn close(mut self) -> bool {
        self.rows.sort_by_key(|(ended, _)| std::cmp::Reverse(ended.took));
        println!("\n        passed  failed ignored skipped  seconds      cpu");
        for (ended, counts) in &self.rows {
            println!("{}", row(ended, *counts));
        }
        let reasons = reasons(self.rows.iter().flat_map(|(ended, _)| &ended.output));
        if !reasons.is_empty() {
            println!("\nskipped:");
            for (reason, times) in &reasons {
                println!("{times:>8}  {reason}");
            }
        }
        temporary::remove();
        for (ended, _) in self.rows.iter().filter(|(ended, _)| !ended.is_success) {
            println!("\n== {} failed; its whole output is in {}", title(ended), self.logs.display());
            if let Some(fault) = &ended.fault {
                println!("{fault}");
            }
            let from = ended.output.iter().position(|line| line == "failures:").unwrap_or(0);
            let from = from.max(ended.output.len().saturating_sub(FAILED_LINES));
            println!("{}", ended.output[from..].join("\n"));
        }
        let sum = self.rows.iter().fold(Counts::default(), |sum, (ended, counts)| Counts {
            passed: sum.passed + counts.passed,
            // A binary that was killed, died or ended early prints no result, and counts as one failure at least.
            failed: sum.failed + counts.failed.max(usize::from(!ended.is_success)),
            ignored: sum.ignored + counts.ignored,
            skipped: sum.skipped + counts.skipped,
        });
        let cpu: Duration = self.rows.iter().filter_map(|(ended, _)| ended.cpu).sum();
        println!(
            "\n{} tests were skipped and {} ignored, in {} s and {} s of processors.",
            sum.skipped,
            sum.ignored,
            self.began.elapsed().as_secs(),
            cpu.as_secs()
        );
        println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped + sum.ignored);
        sum.failed == 0
    }
}

fn title(ended: &Ended) -> String {
    match ended.part {
        Part::Parallel { .. } => ended.name.clone(),
        Part::Timing => format!("{} (timing)", ended.name),
    }
}

fn row(ended: &Ended, counts: Counts) -> String {
    let Counts { passed, failed, ignored, skipped } = counts;
    let verdict = if ended.is_success { "ok    " } else { "FAILED" };
    let seconds = ended.took.as_secs_f64();
    let cpu = ended.cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{:.1}", cpu.as_secs_f64()));
    format!("{verdict} {passed:>7} {failed:>7} {ignored:>7} {skipped:>7} {seconds:>8.1} {cpu:>8}  {}", title(ended))
}

/// Adds up the lines `test result: ok. 3 passed; 0 failed; 1 ignored; …`. A test that skipped itself does not count as
/// passed.
fn count(output: &[String]) -> Counts {
    let mut counts =
        Counts { skipped: output.iter().filter(|line| line.starts_with(SKIP)).count(), ..Counts::default() };
    for line in output.iter().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |label: &str| {
            let before = line.split(label).next().unwrap_or_default().trim_end();
            before.rsplit([' ', ';']).next().and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(0)
        };
        counts.passed += number("passed");
        counts.failed += number("failed");
        counts.ignored += number("ignored");
    }
    counts.passed = counts.passed.saturating_sub(counts.skipped);
    counts
}

/// The text before the name of a test that skips itself.
const SKIP: &str = "skip: ";

/// The number of skips for each reason.
fn reasons<'a>(output: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    let mut reasons = BTreeMap::new();
    for line in output.filter_map(|line| line.strip_prefix(SKIP)) {
        // The name of a test has two colons in a row, never one colon and a space.
        *reasons.entry(line.split_once(": ").map_or(line, |(_, reason)| reason)).or_insert(0) += 1;
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        let output = output(&[
            "skip: a::b: there is no Go here",
            "test a::b ... ok",
            "test result: ok. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ]);
        assert_eq!(count(&output), Counts { passed: 6, failed: 1, ignored: 2, skipped: 1 });
    }

    #[test]
    fn skips_are_listed_by_their_reason() {
        let output = output(&[
            "skip: a::b: sqlite: no Go program reads it",
            "skip: c: sqlite: no Go program reads it",
            "skip: d: other",
        ]);
        let reasons = reasons(output.iter());
        assert_eq!(reasons, BTreeMap::from([("other", 1), ("sqlite: no Go program reads it", 2)]));
    }
}

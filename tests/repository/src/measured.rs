//! The figures in the README are those of bench/RESULTS.md, and that page has the rows that are measured.

use std::collections::BTreeSet;

use crate::tree::{none, read};

/// The measured figure and the share in the row of a table whose figure begins with `figure`.
fn row(results: &str, figure: &str) -> (f64, String) {
    let line = results.lines().find(|line| line.starts_with(&format!("| {figure}"))).expect("a row of the figure");
    let cells: Vec<_> = line.split('|').map(str::trim).collect();
    (cells[2].parse().expect("a number"), cells[4].to_owned())
}

#[test]
fn the_readme_tells_the_figures_that_were_measured_last() {
    let (readme, results) = (read("README.md").replace('\n', " "), read("bench/RESULTS.md"));
    let (drain, share) = row(&results, "drain, Redis, concurrency 100,");
    let ms = |figure| format!("{:.1} ms", row(&results, figure).0);
    for told in [
        format!("a job starts {} after another process called `enqueue` on", ms("latency, SQLite, two processes, p50")),
        format!("SQLite (p50; p99 {})", ms("latency, SQLite, two processes, p99")),
        format!("and {} after it on Redis", ms("latency, Redis, enqueued by another process, p50")),
        format!("(p99 {})", ms("latency, Redis, enqueued by another process, p99")),
        format!("settles {:.0},000 tasks a second", drain / 1_000.0),
        format!("which is {share} of what Redis can do"),
    ] {
        assert!(readme.contains(&told), "README.md: write {told:?}, as bench/RESULTS.md says");
    }
}

/// The text between two marks, if both are there.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// The figure of a line of a table.
fn first_cell(line: &str) -> Option<String> {
    between(line, "| ", " |").filter(|cell| line.starts_with("| ") && *cell != "figure").map(str::to_owned)
}

/// The heading of a table that a row of `cost` becomes.
fn table(row: &str) -> Option<String> {
    Some(format!("{}, per {}", between(row, "Row { name: \"", "\"")?, between(row, "per: \"", "\"")?))
}

/// Compares the rows that a program declares with those that a section of the page shows.
fn stale(
    section: &str,
    program: &str,
    declared: impl Fn(&str) -> Option<String>,
    shown: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let page = read("bench/RESULTS.md") + "\n## ";
    let text = between(&page, &format!("\n## {section}\n"), "\n## ").unwrap_or_default();
    let shown: BTreeSet<String> = text.lines().filter_map(shown).collect();
    let declared: BTreeSet<String> = read(program).lines().filter_map(declared).collect();
    assert!(declared.len() > 10, "{program}: {declared:?}");
    let lacks = declared.difference(&shown).map(|row| format!("{section}: the page lacks {row:?}"));
    let has = shown.difference(&declared).map(|row| format!("{section}: {program} does not have {row:?}"));
    lacks.chain(has).collect()
}

#[test]
fn the_page_of_the_benchmarks_has_the_rows_that_are_measured_and_no_others() {
    let goal = |line: &str| between(line.strip_prefix("    goal(")?, "\"", "\"").map(str::to_owned);
    let row = |line: &str| between(line.strip_prefix("    row(")?, "\"", "\"").map(str::to_owned);
    let heading = |line: &str| line.strip_prefix("### ").map(str::to_owned);
    let mut broken = stale("Figures to reach", "bench/src/suite/goals.rs", goal, first_cell);
    broken.extend(stale("Beside other libraries", "bench/src/peers/plan.rs", row, first_cell));
    broken.extend(stale("What a call costs", "bench/src/cost/mod.rs", table, heading));
    none(broken, "bench/RESULTS.md is stale: run `scripts/bench`, `scripts/bench peers` or `scripts/bench cost`");
}

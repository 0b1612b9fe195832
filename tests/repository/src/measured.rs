//! The figures in the README are those of bench/RESULTS.md.

use crate::tree::read;

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

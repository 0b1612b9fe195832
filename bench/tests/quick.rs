//! Every workload works, and every goal finds its run.
#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use asynq_test_support::{has_go, skip};
use serde_json::Value;

/// Runs the program to its end, with its page in this folder if there is one; returns its output.
#[track_caller]
fn bench(arguments: &[&str], folder: Option<&Path>) -> String {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_asynq-bench"));
    bench.args(arguments);
    if let Some(folder) = folder {
        bench.arg("--out").arg(folder);
    }
    let output = bench.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program as [`bench`] does; returns the JSON of each line of its output.
#[track_caller]
fn lines_of(arguments: &[&str], folder: Option<&Path>) -> Vec<Value> {
    bench(arguments, folder).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_quick_run_measures_every_row_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    // A section of another command stands on the same page.
    std::fs::write(folder.path().join("RESULTS.md"), "# Old\n\n## Beside other libraries\n\nkept\n\n## Old\n").unwrap();
    bench(&["all", "--quick"], Some(folder.path()));

    let page = std::fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(page.contains("| drain, Redis, concurrency 10, tasks/s |"), "{page}");
    assert!(page.contains("\n- profile: "), "{page}");
    assert!(page.ends_with("\n## Beside other libraries\n\nkept\n") && !page.contains("Old"), "{page}");
    assert!(!page.contains("not measured") && !page.contains(": failed"), "{page}");
    // Only Linux tells the most memory that a process had.
    let mut missing = page.lines().filter(|line| line.contains("| not on this system |"));
    assert!(missing.all(|line| cfg!(not(target_os = "linux")) && line.contains(", RSS")), "{page}");
    let plot = std::fs::read_to_string(folder.path().join("queues.svg")).unwrap();
    assert!(plot.contains("<polyline"), "{plot}");
}

#[test]
fn a_run_prints_the_documented_numbers_as_json() {
    let lines = lines_of(&["drain", "--n", "300", "--concurrency", "10", "--runs", "2", "--json"], None);
    let brokers: Vec<_> = lines.iter().map(|line| line["broker"].as_str().unwrap()).collect();
    assert_eq!(brokers, ["redis", "sqlite", "redis", "sqlite"], "brokers take turns");
    for line in &lines {
        assert_eq!((&line["workload"], &line["n"], &line["concurrency"]), (&"drain".into(), &300.into(), &10.into()));
        assert!(line["rate"].as_f64().unwrap() > 0.0 && line["own_cpu_us"].as_f64().unwrap() > 0.0, "{line}");
        let of_redis = line["broker"] == "redis";
        assert_eq!(line["broker_cpu_us"].as_f64().is_some(), of_redis, "{line}");
        assert_eq!(line["broker_commands"].as_f64().is_some_and(|commands| commands > 1.0), of_redis, "{line}");
    }
}

/// A task of the latency takes 137 ms, so a limit of very many tasks would not end.
#[test]
fn the_limits_of_any_number_of_tasks_end_and_are_those_that_the_broker_has() {
    let of_redis = ["enqueue", "enqueue-concurrent", "enqueue-bulk", "drain", "end-to-end", "latency", "get"];
    // A file has no GET.
    let of_file = &of_redis[..6];
    for (broker, n, names, latencies) in [
        ("redis", 7, &of_redis[..], 7),
        ("redis", 100_000, &of_redis[..], 100),
        ("sqlite", 7, of_file, 7),
        ("sqlite", 100_000, of_file, 100),
    ] {
        let planned = lines_of(&["limit", "--plan", "--broker", broker, "--n", &n.to_string()], None);
        let planned: Vec<_> =
            planned.iter().map(|run| (run["workload"].as_str().unwrap(), run["n"].as_u64().unwrap())).collect();
        let expected: Vec<_> = names.iter().map(|name| format!("limit-{name}")).collect();
        let expected: Vec<_> =
            expected.iter().map(|name| (name.as_str(), if name == "limit-latency" { latencies } else { n })).collect();
        assert_eq!(planned, expected, "{broker}, {n} tasks");
    }
}

#[test]
fn go_asynq_is_measured_in_turns_with_ours_and_every_task_of_it_is_counted() {
    if !has_go() {
        skip!("there is no Go 1.24 or newer here to build the real asynq with");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("RESULTS.md"),
        "# Title\n\n## Beside other libraries\n\nold\n\n## Next\n\nkept\n",
    )
    .unwrap();
    let lines = lines_of(&["peers", "--quick", "--only", "asynq", "--json"], Some(folder.path()));
    let rows_of = |library: &str| -> Vec<_> {
        lines.iter().filter(|line| line["library"] == library).map(|line| line["row"].as_str().unwrap()).collect()
    };
    assert_eq!(rows_of("asynq (Go)"), rows_of("asynq-rs"), "Go asynq makes every run");
    for line in lines.iter().filter(|line| line["workload"] == "drain") {
        assert!(line["rate"].as_f64().unwrap() > 0.0 && line["broker_commands"].as_f64().unwrap() > 1.0, "{line}");
    }
    let page = std::fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(
        page.starts_with("# Title\n\n## Beside other libraries\n\n- machine") && page.ends_with("\n## Next\n\nkept\n"),
        "{page}"
    );
    assert!(page.contains("| drain, concurrency 10, tasks/s |") && !page.contains(": failed"), "{page}");
}

/// Tables of `asynq-bench cost` whose commands are counted, and that do not depend on time.
const BOUNDED: [&str; 4] =
    ["a page of 100 groups", "a page of grouped tasks", "the last page of waiting tasks", "a look for ripe groups"];

#[test]
fn reading_queues_costs_the_same_commands_with_ten_times_as_many_tasks_and_groups() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["cost", "--max", "10000", "--json", "--only", &BOUNDED.join(",")];
    let lines = lines_of(&arguments, Some(folder.path()));
    for row in BOUNDED {
        let commands = |size: u64| {
            let line = lines.iter().find(|line| line["row"] == row && line["size"] == size);
            line.and_then(|line| line["commands"].as_f64()).unwrap_or_else(|| panic!("{row}: no {size} in {lines:?}"))
        };
        assert!(commands(1_000) >= 1.0, "{row}: commands are counted");
        assert!(commands(10_000) <= 1.5 * commands(1_000), "{row}: {} and {}", commands(1_000), commands(10_000));
    }
    let page = std::fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(page.contains("### a page of 100 groups, per page") && page.contains("| slope |"), "{page}");
}

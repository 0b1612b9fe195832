//! Every workload works, and every goal finds its run.

use std::process::Command;

#[test]
fn a_quick_run_measures_every_row_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_asynq-bench"));
    let output = bench.args(["all", "--quick", "--out"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let page = std::fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(page.contains("| drain, Redis, concurrency 10, tasks/s |"), "{page}");
    assert!(!page.contains("not measured") && !page.contains("failed"), "{page}");
    for plot in ["queues", "waiting", "concurrency", "payload"] {
        let plot = std::fs::read_to_string(folder.path().join(plot).with_extension("svg")).unwrap();
        assert!(plot.contains("<polyline"), "{plot}");
    }
}

#[test]
fn a_run_says_in_json_what_the_issue_asks_for() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_asynq-bench"));
    let output = bench.args(["drain", "--n", "300", "--concurrency", "10", "--runs", "2", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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

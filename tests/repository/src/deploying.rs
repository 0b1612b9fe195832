//! The examples of docs/operations.md by which a worker is deployed.

use crate::tree::{none, read};

/// The examples of the section, each with its language in the first line.
fn examples(page: &str) -> impl Iterator<Item = &str> {
    let section = page.split_once("\n## Deploying\n").map(|(_, rest)| rest.split("\n##").next().unwrap_or_default());
    section.unwrap_or_default().split("```").skip(1).step_by(2)
}

/// A worker without `ASYNQ_URL` works on a file of its own, which in a container is lost with it; and the alerts read numbers that
/// `--metrics` alone does not export.
#[test]
fn an_example_of_a_deployment_names_the_broker_and_exports_what_the_alerts_read() {
    let page = read("docs/operations.md");
    let mut broken = Vec::new();
    for example in examples(&page) {
        let name = example.lines().nth(1).unwrap_or_default();
        if !example.contains("ASYNQ_URL") {
            broken.push(format!("{name}: ASYNQ_URL is missing"));
        }
        if example.contains("--metrics") && !example.contains("--metrics-queues") {
            broken.push(format!("{name}: --metrics-queues is missing"));
        }
    }
    none(broken, "an example that is copied as it is works on the shared broker, and can be watched");
    assert_eq!(examples(&page).count(), 2, "the examples are found: systemd and Kubernetes");
}

/// Returns the value of a setting of the systemd unit.
fn unit_setting<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let unit = examples(page).find(|example| example.contains("[Service]"))?;
    unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// A worker that starts while its broker is away ends at once. By default systemd starts it again after 100 ms, and gives the unit up
/// for good after five starts within ten seconds.
#[test]
fn the_systemd_unit_is_started_again_for_as_long_as_the_broker_is_away() {
    let page = read("docs/operations.md");
    assert_eq!(unit_setting(&page, "Restart"), Some("always"));
    let pause: Option<u32> = unit_setting(&page, "RestartSec").and_then(|seconds| seconds.parse().ok());
    assert!(pause.is_some_and(|seconds| seconds * 5 > 10), "five starts take longer than ten seconds: {pause:?}");
}

/// By default systemd sends TERM to every process of the unit. A program that a job has started ends by it, and the job fails, although
/// the worker still lets its jobs end.
#[test]
fn the_systemd_unit_asks_the_worker_alone_to_leave() {
    let page = read("docs/operations.md");
    assert_eq!(unit_setting(&page, "KillSignal"), Some("SIGTERM"));
    assert_eq!(unit_setting(&page, "KillMode"), Some("mixed"));
}

/// A worker listens when its set-up has ended. By default a liveness probe asks from the start of the container and gives up after 30 s,
/// so that a longer set-up would be cut off by TERM and begin anew each time.
#[test]
fn an_example_with_a_liveness_probe_waits_for_the_set_up() {
    let page = read("docs/operations.md");
    let probed: Vec<_> = examples(&page).filter(|example| example.contains("livenessProbe:")).collect();
    assert_eq!(probed.len(), 1, "the example is found: Kubernetes");
    assert!(probed.iter().all(|example| example.contains("startupProbe:")), "{probed:?}");
}

/// By default `systemctl kill` signals every process of the unit, whatever `KillMode` says, and TSTP stops a program that has no handler
/// for it.
#[test]
fn a_command_that_makes_a_worker_quiet_asks_the_worker_alone() {
    let page = read("docs/operations.md");
    let commands: Vec<_> = page.split("systemctl kill").skip(1).collect();
    assert!(!commands.is_empty(), "the page has the command");
    assert!(commands.iter().all(|command| command.starts_with(" --kill-who=main ")), "each names the worker alone");
}

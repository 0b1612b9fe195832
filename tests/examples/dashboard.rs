//! The dashboard's examples, asked over HTTP.

use tempfile::tempdir;

use crate::{
    process::{address_in, ask},
    program::{run, start},
};

const TOKEN: &str = "0123456789abcdef";

/// The response to a GET, head and body, at the URL in a line that the program has printed.
fn get(line: &str, path: &str, token: &str) -> String {
    let login = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    ask(address_in(line), &format!("GET {path}"), &login).unwrap()
}

#[test]
fn a_worker_has_a_dashboard_that_knows_its_jobs_and_an_endpoint_for_metrics() {
    let folder = tempdir().unwrap();
    let at = folder.path();
    run("dashboard", at, &["enqueue", "send", r#"{"to":"ann@example.com","key":"hidden away"}"#, "--in", "1h"], &[]);
    let worker = start("dashboard", at, &["--dashboard", "127.0.0.1:0", "--metrics", "0"], &[]);
    let (metrics, pages) = (worker.line("metrics at http://"), worker.line("dashboard at http://"));
    assert!(get(&pages, "/", "").starts_with("HTTP/1.1 200"));
    let shown = get(&pages, "/api/queues/mail/tasks?state=scheduled", "");
    assert!(shown.contains("ann@example.com") && shown.contains("***") && !shown.contains("hidden away"), "{shown}");
    // A worker shows its own measurements; only one place shows the numbers of queues.
    let own = get(&metrics, "/metrics", "");
    assert!(own.starts_with("HTTP/1.1 200") && !own.contains("asynq_queue_size"), "{own}");
    assert!(get(&pages, "/metrics", "").contains("asynq_queue_size"));
    assert!(get(&metrics, "/readyz", "").starts_with("HTTP/1.1 200"));
    assert!(get(&metrics, "/api/queues", "").starts_with("HTTP/1.1 404"));
    worker.terminate();
}

#[test]
fn the_command_on_the_pages_serves_the_dashboard() {
    for page in [include_str!("../../README.md"), include_str!("../../docs/operations.md")] {
        let (_, rest) = page.split_once("cargo run --example dashboard").expect("the page has the command");
        let words = rest.split(['`', '#', '\n']).next().unwrap().split_whitespace().skip_while(|word| *word == "--");
        // Another program of this machine may have the port of the page.
        let args: Vec<&str> = words.map(|word| if word == "8080" { "0" } else { word }).collect();
        assert!(args.contains(&"0"), "the page names an address: {args:?}");
        let folder = tempdir().unwrap();
        let worker = start("dashboard", folder.path(), &args, &[]);
        let pages = worker.line("dashboard at http://");
        assert!(get(&pages, "/", "").starts_with("HTTP/1.1 200"));
        worker.terminate();
    }
}

#[test]
fn one_worker_of_many_exports_the_numbers_of_queues() {
    let folder = tempdir().unwrap();
    let environment = [("ASYNQ_METRICS_QUEUES", "true")];
    for (args, environment) in
        [(&["--metrics", "0", "--metrics-queues"][..], &[][..]), (&["--metrics", "0"], &environment)]
    {
        let worker = start("dashboard", folder.path(), args, environment);
        let metrics = worker.line("metrics at http://");
        assert!(get(&metrics, "/metrics", "").contains("asynq_queue_size"));
        worker.terminate();
    }
}

#[test]
fn the_health_checks_of_the_metrics_port_stay_where_they_are_when_the_dashboard_is_mounted() {
    let folder = tempdir().unwrap();
    let mount = [("ASYNQ_DASHBOARD_MOUNT", "/jobs")];
    let worker = start("dashboard", folder.path(), &["--dashboard", "0", "--metrics", "0"], &mount);
    let (metrics, pages) = (worker.line("metrics at http://"), worker.line("dashboard at http://"));
    for path in ["/healthz", "/readyz", "/metrics", "/stats"] {
        assert!(get(&metrics, path, "").starts_with("HTTP/1.1 200"), "{path}");
    }
    assert!(get(&pages, "/jobs/api/queues", "").starts_with("HTTP/1.1 200"));
    worker.terminate();
}

#[test]
fn a_workers_dashboard_is_configured_by_the_environment_and_refuses_to_be_open_to_all() {
    let folder = tempdir().unwrap();
    let (at, token) = (folder.path(), folder.path().join("token"));
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let (status, output) = start("dashboard", at, &["--dashboard", "0.0.0.0:0"], &[]).end();
    let refusal = "service `dashboard` failed: --dashboard: the dashboard would be open to every client";
    assert!(!status.success() && output.contains(refusal) && !output.contains("serving"), "{output}");
    let environment = [
        ("ASYNQ_DASHBOARD", "0.0.0.0:0"),
        ("ASYNQ_DASHBOARD_TOKEN_FILE", token.to_str().unwrap()),
        ("ASYNQ_DASHBOARD_READ_ONLY", "true"),
    ];
    let worker = start("dashboard", at, &[], &environment);
    let pages = worker.line("dashboard at http://").replace("0.0.0.0", "127.0.0.1");
    assert!(get(&pages, "/api/queues", "").starts_with("HTTP/1.1 401"));
    assert!(get(&pages, "/api/queues", TOKEN).starts_with("HTTP/1.1 200"));
    assert!(!worker.terminate().contains(TOKEN));
    for (variable, value, says) in [
        ("ASYNQ_METRICS", "nowhere", "failed: ASYNQ_METRICS: `nowhere` is not an address to listen at"),
        ("ASYNQ_DASHBOARD_READ_ONLY", "maybe", "ASYNQ_DASHBOARD_READ_ONLY: it is `maybe`"),
        ("ASYNQ_DASHBOARD_TOKEN_FILE", "/nowhere", "ASYNQ_DASHBOARD_TOKEN_FILE: /nowhere cannot be read"),
        ("ASYNQ_DASHBOARD_PASSWORD_HASH", "secret", "$argon2id$"),
        ("ASYNQ_DASHBOARD_PASSWORD", "secret", "ASYNQ_DASHBOARD_PASSWORD: a dashboard takes only the hash"),
    ] {
        let (status, output) = start("dashboard", at, &["--dashboard", "0"], &[(variable, value)]).end();
        assert!(!status.success() && output.contains(says) && !output.contains("serving"), "{variable}: {output}");
    }
}

#[test]
fn an_application_has_the_dashboard_below_a_path() {
    let folder = tempdir().unwrap();
    let (status, output) = start("mounted", folder.path(), &[], &[("TOKEN", "")]).end();
    assert!(!status.success() && output.contains("export TOKEN=$(openssl rand -hex 16)"), "{output}");
    // A variable before the command alone would not reach the `curl` that follows.
    for page in [include_str!("../../README.md"), include_str!("../../examples/web/mounted.rs")] {
        assert!(page.contains("export TOKEN=$(openssl rand -hex 16)`") && !page.contains("-hex 16) cargo"));
    }
    let program = start("mounted", folder.path(), &[], &[("TOKEN", TOKEN)]);
    let line = program.line("http://");
    program.line("hello Ann");
    assert!(get(&line, "/", "").ends_with("the application\n"));
    assert!(get(&line, "/jobs", "").starts_with("HTTP/1.1 401"));
    assert!(get(&line, "/jobs", TOKEN).starts_with("HTTP/1.1 200"));
    assert!(get(&line, "/jobs/api/queues", TOKEN).contains("\"queue\":\"default\""));
    program.process.signal("TERM");
    program.end();
}

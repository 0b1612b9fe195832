//! Checks the files that `cargo generate` copies beside a template's sources; other tests build the sources unchanged.

use crate::tree::{files, none, read};

const TEMPLATES: [&str; 3] = ["producer", "web", "worker"];

#[test]
fn each_template_is_built_by_the_tests_and_depends_on_existing_crates() {
    let (tests, workspace, mut broken) = (read("tests/templates/Cargo.toml"), read("Cargo.toml"), Vec::new());
    for name in TEMPLATES {
        let (folder, source) = (format!("template/{name}"), format!("template/{name}/src/main.rs"));
        if !tests.contains(&format!("path = \"../../{source}\"")) {
            broken.push(format!("{source} is not built by tests/templates"));
        }
        let manifest = read(&format!("{folder}/Cargo.toml"));
        for part in
            ["name = \"{{project-name}}\"", "edition = \"2024\"", "asynq-jobs = { path = \"{{asynq}}/asynq-jobs\""]
        {
            if !manifest.contains(part) {
                broken.push(format!("{folder}/Cargo.toml lacks {part}"));
            }
        }
        if read(&source).contains("{{") {
            broken.push(format!("{source} has a place for a name, so that the tests cannot build it"));
        }
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default().lines();
        for dependency in dependencies.filter_map(|line| line.split(" = ").next()).filter(|name| !name.is_empty()) {
            if !workspace.contains(&format!("\n{dependency} = ")) {
                broken.push(format!("{folder} depends on {dependency}, which the workspace does not have"));
            }
        }
        // The first commit of a new program has neither what was built nor the tasks of an SQLite file, with their arguments.
        if read(&format!("{folder}/.gitignore")) != "/target\n*.db\n*.db-*\n" {
            broken.push(format!("{folder}/.gitignore does not name what a first run leaves"));
        }
        if !read(&format!("{folder}/cargo-generate.toml")).contains("[placeholders.asynq]") {
            broken.push(format!("{folder} does not ask where the crates are"));
        }
    }
    let folders = files("template").into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    assert_eq!(folders.count(), TEMPLATES.len(), "a template has no place in TEMPLATES");
    none(broken, "a new program builds at once");
}

#[test]
fn a_program_that_awaits_signals_awaits_sigterm_and_a_failure_of_its_worker() {
    let is_deaf = |path: &String| {
        let source = read(path);
        let has = |part: &str| source.contains(part);
        (has("ctrl_c()") || has("signal(")) && !(has("SignalKind::terminate()") && has(".failed()"))
    };
    let sources = files("template").into_iter().chain(files("examples")).filter(|path| path.ends_with(".rs"));
    none(
        sources.filter(is_deaf).collect(),
        "a supervisor's SIGTERM would be a crash of its tasks, and with a broken broker it would live on without a worker",
    );
}

#[test]
fn a_program_binds_its_port_before_its_worker_starts() {
    let mut late = Vec::new();
    for path in files("template").into_iter().chain(files("examples")).filter(|path| path.ends_with(".rs")) {
        let source = read(&path);
        if let (Some(bind), Some(start)) = (source.find("TcpListener::bind("), source.find(".start()"))
            && start < bind
        {
            late.push(path);
        }
    }
    none(
        late,
        "a program that cannot bind its port would end with a running worker, which counts as a crash of its tasks",
    );
}

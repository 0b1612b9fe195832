//! Every row of docs/features.md is linked to a test that exists, and every example is short, run and listed.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

/// One row of a table: what it is, and the tests that it names with their files.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    feature: &'a str,
    tests: Vec<(&'a str, &'a str)>,
}

/// The rows of the tables of a page: feature, asynq, go-workers, here, shown by.
fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let cells = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells[0] != "Feature");
    rows.map(|cells| {
        let [feature, _, _, _, shown] = cells[..] else { panic!("five cells were expected: {cells:?}") };
        Row { feature, tests: links(shown) }
    })
    .collect()
}

/// The parts of each [`test`](../file) in `text`, as (file, test).
fn links(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("[`").skip(1);
    parts
        .filter_map(|part| part.split_once("`](../"))
        .map(|(test, rest)| (rest.split(')').next().unwrap(), test))
        .collect()
}

/// What is wrong with a page whose files `read` gives.
fn mistakes(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (mut mistakes, mut features) = (Vec::new(), BTreeSet::new());
    for Row { feature, tests } in rows(page) {
        if !features.insert(feature) {
            mistakes.push(format!("{feature:?} is there twice"));
        }
        if tests.is_empty() {
            mistakes.push(format!("{feature:?} is linked to no test"));
        }
        for (file, test) in tests {
            match read(file) {
                None => mistakes.push(format!("{feature:?}: there is no {file}")),
                Some(text) if !is_test(&text, test) => {
                    mistakes.push(format!("{feature:?}: {file} has no test `{test}`"));
                }
                Some(_) => {}
            }
        }
    }
    mistakes
}

/// Whether the source has a test of this name: a function below `#[test]` and its kind, or in a macro that makes tests.
fn is_test(text: &str, test: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.contains(&format!("fn {test}("))) else { return false };
    let marked = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    marked.into_iter().any(|line| line.contains("test")) || text.contains("on_both_brokers! {")
}

#[test]
fn every_feature_is_linked_to_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/features.md")).unwrap();
    assert!(rows(&page).len() > 60, "the table has lost its rows");
    let mistakes = mistakes(&page, |file| fs::read_to_string(root.join(file)).ok());
    assert!(mistakes.is_empty(), "docs/features.md:\n  {}", mistakes.join("\n  "));
}

#[test]
fn a_page_that_promises_too_much_is_caught() {
    let page = "| Feature | asynq | go-workers | here | shown by |\n|---|---|---|---|---|\n\
                | flies | – | – | yes | [`it_flies`](../a.rs) |\n| swims | – | – | yes | [`it_swims`](../b.rs) |\n\
                | runs | – | – | yes | trust me |\n| flies | – | – | yes | [`helper`](../a.rs) |\n";
    let read = |file: &str| (file == "a.rs").then(|| "#[test]\nfn it_flies() {}\nfn helper() {}".to_owned());
    let expected = [
        "\"swims\": there is no b.rs",
        "\"runs\" is linked to no test",
        "\"flies\" is there twice",
        "\"flies\": a.rs has no test `helper`",
    ];
    assert_eq!(mistakes(page, read), expected);
}

#[test]
fn every_example_is_short_run_by_a_test_and_listed_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let readme = read("README.md");
    let tests: String = fs::read_dir(root.join("tests/examples"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    for folder in ["examples", "examples/web", "examples/tracing"] {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let mut files = Vec::new();
        for section in
            manifest.split("\n[[").filter(|section| section.starts_with("example]]") || section.starts_with("bin]]"))
        {
            let word = |key: &str| section.split(&format!("{key} = \"")).nth(1).unwrap().split('"').next().unwrap();
            let (name, path) = (word("name"), word("path"));
            files.push(path.to_owned());
            // The newsletter is a whole application.
            let lines = read(&format!("{folder}/{path}")).lines().count();
            assert!(lines <= 80 || name == "newsletter", "{folder}/{path} has {lines} lines, at most 80 are allowed");
            // Its own tests are run where the manifest says so.
            let is_run = tests.contains(&format!("\"{name}\"")) || section.contains("test = true");
            assert!(is_run, "no test in tests/examples runs `{name}`");
            assert!(readme.contains(&format!("`{name}`")), "the README's list of examples lacks `{name}`");
        }
        for entry in fs::read_dir(root.join(folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_listed = name == "lib.rs" || files.contains(&name);
            assert!(!name.ends_with(".rs") || is_listed, "{folder}/{name} is not in its manifest");
        }
    }
}

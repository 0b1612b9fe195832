//! Every example is short, run by a test, and listed in the README.

use crate::tree::{files, read};

/// The packages that hold examples: all of them, those that need the dashboard, and one that needs OpenTelemetry.
const FOLDERS: [&str; 3] = ["examples", "examples/web", "examples/tracing"];

#[test]
fn every_example_is_short_run_by_a_test_and_listed_in_the_readme() {
    let readme = read("README.md");
    let tests: String = files("tests/examples").iter().map(|path| read(path)).collect();
    for folder in FOLDERS {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let mut listed = vec![format!("{folder}/lib.rs")];
        let targets = manifest.split("\n[[").filter(|part| part.starts_with("example]]") || part.starts_with("bin]]"));
        for section in targets {
            let word = |key: &str| section.split(&format!("{key} = \"")).nth(1).unwrap().split('"').next().unwrap();
            let (name, path) = (word("name"), format!("{folder}/{}", word("path")));
            // The newsletter is a whole application.
            let lines = read(&path).lines().count();
            assert!(lines <= 80 || name == "newsletter", "{path} has {lines} lines, at most 80 are allowed");
            // Its own tests are run where the manifest says so.
            let is_run = tests.contains(&format!("\"{name}\"")) || section.contains("test = true");
            assert!(is_run, "no test in tests/examples runs `{name}`");
            assert!(readme.contains(&format!("`{name}`")), "the README's list of examples lacks `{name}`");
            listed.push(path);
        }
        let depth = folder.matches('/').count() + 1;
        for path in files(folder).iter().filter(|path| path.ends_with(".rs") && path.matches('/').count() == depth) {
            assert!(listed.contains(path), "{path} is not in the manifest of {folder}");
        }
    }
}

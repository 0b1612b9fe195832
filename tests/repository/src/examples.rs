//! Every example is short, run by a test, and listed in the README.

use crate::tree::{files, read};

#[test]
fn every_example_is_short_run_by_a_test_and_listed_in_the_readme() {
    let (readme, manifest) = (read("README.md"), read("examples/Cargo.toml"));
    let tests: String = files("examples/tests").iter().map(|path| read(path)).collect();
    let mut names = 0;
    for section in manifest.split("[[example]]").skip(1) {
        let word = |key: &str| section.split(&format!("{key} = \"")).nth(1).unwrap().split('"').next().unwrap();
        let (name, path) = (word("name"), word("path"));
        names += 1;
        // The newsletter is a whole application.
        let lines = read(&format!("examples/{path}")).lines().count();
        assert!(lines <= 80 || name == "newsletter", "examples/{path} has {lines} lines, at most 80 are allowed");
        // Its own tests are run where the manifest says so.
        let is_run = tests.contains(&format!("\"{name}\"")) || section.contains("test = true");
        assert!(is_run, "no test in examples/tests runs `{name}`");
        assert!(readme.contains(&format!("`{name}`")), "the README's list of examples lacks `{name}`");
    }
    let depth = "examples/x.rs".matches('/').count();
    let programs =
        files("examples").iter().filter(|path| path.ends_with(".rs") && path.matches('/').count() == depth).count();
    assert_eq!(names, programs + 1, "a file of examples/ is not in its manifest");
}

//! Compares the messages of `#[job]` and `#[periodic]` with the golden files in `tests/fail`.
//!
//! A case is a program with mistakes (`timeout_zero.rs`) and the messages that the compiler prints for it
//! (`timeout_zero.stderr`). The test expands the macros in its own process, so it needs milliseconds and no compiler. The
//! package `asynq-ui-tests` compiles the same cases and compares with the same golden files.
//!
//! `BLESS=1 cargo test -p asynq-macros` writes the golden files anew; read the difference.

mod expand;
mod render;
mod token_ranges;

use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn every_mistake_gives_the_message_of_its_golden_file() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fail");
    let cases = names(&folder, "rs");
    assert!(cases.len() > 100, "{} has lost its cases: {}", folder.display(), cases.len());
    let mut differences = Vec::new();
    for case in &cases {
        let source = fs::read_to_string(folder.join(format!("{case}.rs"))).expect("read the case");
        let golden = folder.join(format!("{case}.stderr"));
        let actual = messages(case, &source);
        if std::env::var_os("BLESS").is_some() {
            fs::write(golden, actual).expect("write the golden file");
            continue;
        }
        let expected = fs::read_to_string(golden).unwrap_or_default();
        if expected != actual {
            let lines = difference(&expected, &actual);
            differences.push(format!("tests/fail/{case}.stderr (-) and the messages now (+):\n{lines}"));
        }
    }
    let count = differences.len();
    let report = differences.join("\n");
    assert!(count == 0, "{count} of {} cases differ; BLESS=1 writes them anew\n\n{report}", cases.len());
    assert_eq!(names(&folder, "stderr"), cases, "a golden file without a case");
}

#[test]
fn attributes_are_found_wherever_the_compiler_expands_them() {
    let source = r#"
mod inner {
    /// With another attribute on each side.
    #[asynq::other]
    #[job(in_a_module = 1)]
    #[inline]
    pub async fn send() {}
}
impl Mailer {
    #[job(in_an_impl = 1)]
    fn send(&self) {}
}
fn outer() {
    #[periodic("@daily", in_a_function = 1)]
    fn send() {
        #[job(in_a_job = 1)]
        fn inside() {}
    }
}
#[job(last = 1)]
fn send() {}
"#;
    let diagnostics = expand::diagnostics(source);
    let places: Vec<_> = diagnostics.into_iter().map(|diagnostic| &source[diagnostic.bytes]).collect();
    assert_eq!(places, ["in_a_module", "in_an_impl", "&self", "in_a_function", "in_a_job", "last"]);
}

#[test]
fn a_case_that_differs_shows_both_messages() {
    let source = "#[job(retry = \"5\")]\nfn send() {}\n";
    let now = "error: `retry` takes a number: `retry = 5`\n --> fail/case.rs:1:15\n  |\n\
               1 | #[job(retry = \"5\")]\n  |               ^^^\n";
    assert_eq!(messages("case", source), now);
    let before = now.replace("takes a number", "is a number");
    let same: String = now.lines().skip(1).map(|line| format!("  {line}\n")).collect();
    let changed = "- error: `retry` is a number: `retry = 5`\n+ error: `retry` takes a number: `retry = 5`\n";
    assert_eq!(difference(&before, now), changed.to_owned() + &same);
}

/// Returns the files of this kind without their extension, sorted.
fn names(folder: &Path, extension: &str) -> Vec<String> {
    let files = fs::read_dir(folder).expect("read the folder").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    let mut names: Vec<_> =
        files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns all messages that the compiler prints for a case.
fn messages(case: &str, source: &str) -> String {
    let diagnostics = expand::diagnostics(source);
    assert!(!diagnostics.is_empty(), "{case} has no mistake that a macro finds");
    let path = format!("fail/{case}.rs");
    let messages: Vec<_> = diagnostics.iter().map(|diagnostic| render::diagnostic(&path, source, diagnostic)).collect();
    messages.join("\n")
}

/// Returns the lines of both texts; `-` and `+` mark those that only one of them has.
fn difference(expected: &str, actual: &str) -> String {
    let difference = similar::TextDiff::from_lines(expected, actual);
    difference.iter_all_changes().map(|change| format!("{} {change}", change.tag())).collect()
}

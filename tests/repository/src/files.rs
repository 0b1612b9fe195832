//! Checks the names, the lengths and the first lines of files.

use crate::tree::{files, none, read, rust_files};

/// The most lines of a source file.
const CEILING: usize = 500;

#[test]
fn no_source_file_is_longer_than_the_ceiling() {
    let mut broken = Vec::new();
    for path in files("") {
        let source = [".rs", ".lua", ".sql", ".py", ".sh"].iter().any(|end| path.ends_with(end));
        let golden = path.contains("/expansion/") || path.contains("/vectors/");
        let lines = if source && !golden { read(&path).lines().count() } else { 0 };
        if lines > CEILING {
            broken.push(format!("{path} has {lines} lines"));
        }
    }
    none(broken, "a source file has at most 500 lines");
}

#[test]
fn every_script_documents_its_arguments_and_its_answer() {
    let mut broken = Vec::new();
    for path in files("asynq-runtime") {
        let header = || -> String {
            let text = read(&path);
            text.lines().skip_while(|line| line.starts_with("#!")).take_while(|line| line.starts_with("--")).collect()
        };
        if path.ends_with(".sql") {
            if header().is_empty() {
                broken.push(format!("{path} has no header"));
            }
            let text = read(&path);
            let names = text.lines().zip(text.lines().skip(1)).filter(|(line, _)| line.starts_with("-- name: "));
            let without = names.filter(|(_, next)| !next.starts_with("-- "));
            broken.extend(without.map(|(name, _)| format!("{path}: `{name}` has no header")));
        }
        if path.ends_with(".lua") {
            let header = header();
            for part in ["KEYS", "ARGV", "Returns"] {
                if !header.contains(part) {
                    broken.push(format!("{path}: its header does not say {part}"));
                }
            }
        }
    }
    none(broken, "a script opens with its duty; a Lua script also with KEYS, ARGV and what it returns");
}

#[test]
fn no_text_keeps_the_two_sides_of_a_merge() {
    let texts = [".rs", ".lua", ".sql", ".py", ".sh", ".md", ".toml", ".txt", ".yml", ".html", ".css", ".js"];
    let ours = files("").into_iter().filter(|path| texts.iter().any(|end| path.ends_with(end)));
    let mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    let merged = ours.filter(|path| read(path).lines().any(mark));
    none(merged.collect(), "a conflict of a merge is resolved before it is committed");
}

#[test]
fn every_module_opens_with_its_duty() {
    let ours = ["asynq-grammar/src", "asynq-macros/src", "asynq-runtime/src", "asynq-cron/src", "tests/src"];
    let suites = ["tests/conformance", "tests/wire", "tests/support/src", "tests/repository/src"];
    let files = ours.iter().chain(&suites).flat_map(|folder| rust_files(folder));
    let is_unit_tests = |path: &str| path.ends_with("/tests.rs") || path.ends_with("_tests.rs");
    let without = files.filter(|path| !is_unit_tests(path) && !read(path).starts_with("//!"));
    none(without.collect(), "a module opens with a sentence about its duty");
}

#[test]
fn other_systems_than_unix_are_refused_first_and_mentioned_nowhere_else() {
    const REFUSED_BY: &str = "asynq-runtime/src/lib.rs";
    let front = read(REFUSED_BY);
    let first = front.lines().find(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("#!["));
    assert_eq!(first, Some("#[cfg(not(unix))]"), "{REFUSED_BY}: later errors would hide the one that says why");

    // Programs that macros read as data, and the rules about `cfg` itself.
    let exempt = [REFUSED_BY, "asynq-macros/tests/fail/", "tests/repository/"];
    let asks = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        line.contains("cfg") && words.any(|word| word == "unix" || word == "windows")
    };
    let sources = files("").into_iter().filter(|path| path.ends_with(".rs") || path.ends_with(".toml"));
    let mut asking = Vec::new();
    for path in sources.filter(|path| !exempt.iter().any(|start| path.starts_with(start))) {
        let text = read(&path);
        asking.extend(text.lines().zip(1..).filter(|&(line, _)| asks(line)).map(|(_, at)| format!("{path}:{at}")));
    }
    none(asking, "every supported system is a Unix, so no code asks whether it is one");
}

#[test]
fn no_file_is_named_after_nothing() {
    let vague = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "types.rs", "misc.rs"];
    let named = files("").into_iter().filter(|path| vague.iter().any(|name| path.ends_with(&format!("/{name}"))));
    none(named.collect(), "files are named by their content");
}

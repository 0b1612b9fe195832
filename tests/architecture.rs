//! Reads the source tree and checks the invariants of ARCHITECTURE §4.4: who may import whom, and the rules of the house.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// asynq-runtime's modules, lowest first: each may use those in rows above it and its own row.
const LAYERS: [&[&str]; 7] = [
    &["clock", "task", "thread"],
    &["broker"],
    &["connect", "propagation"],
    &["job"],
    &["client", "inspector", "metrics", "rate"],
    &["server"],
    &["app", "testing"],
];

/// Which of our crates each may depend on, dev-dependencies included.
const CRATES: [(&str, &[&str]); 6] = [
    ("asynq-grammar", &[]),
    ("asynq-macros", &["asynq-grammar"]),
    ("asynq-runtime", &["asynq-grammar", "asynq-macros"]),
    ("asynq-cron", &["asynq-grammar", "asynq-macros", "asynq-runtime"]),
    ("asynq-dashboard", &["asynq-cron", "asynq-grammar", "asynq-macros", "asynq-runtime"]),
    ("asynq-cli", &["asynq-cron", "asynq-dashboard", "asynq-grammar", "asynq-macros", "asynq-runtime"]),
];

/// Folders without source of ours.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// Most lines of a source file.
const CEILING: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file below `folder`, as paths from the root, in order.
fn files(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    walk(&entry.path(), found);
                }
            } else {
                found.push(entry.path());
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root.join(folder), &mut found);
    found.sort();
    found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
}

fn rust_files(folder: &str) -> Vec<String> {
    files(folder).into_iter().filter(|path| path.ends_with(".rs")).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether a file of a library holds its unit tests alone.
fn is_unit_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// The lines of library code with their numbers: without comments, and without the unit tests at the end of a file.
fn code(path: &str) -> Vec<(usize, String)> {
    let text = if is_unit_tests(path) { String::new() } else { read(path) };
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).enumerate();
    lines.map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default().to_owned())).collect()
}

/// The words of a line: identifiers and numbers.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Where the files of `folder` use one of `forbidden` as a word.
fn mentions(folder: &str, forbidden: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in rust_files(folder) {
        for (number, line) in code(&path) {
            if let Some(word) = words(&line).find(|word| forbidden.contains(word)) {
                found.push(format!("{path}:{number} mentions `{word}`"));
            }
        }
    }
    found
}

#[track_caller]
fn none(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

#[test]
fn modules_of_the_runtime_import_downwards_only() {
    const SRC: &str = "asynq-runtime/src/";
    let mut broken = Vec::new();
    for path in rust_files(SRC) {
        let inside = path.strip_prefix(SRC).unwrap();
        let module = inside.split(['/', '.']).next().unwrap();
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(module) else {
            broken.push(format!("{path}: give `{module}` its place in LAYERS and in ARCHITECTURE.md"));
            continue;
        };
        let text: String = code(&path).into_iter().map(|(_, line)| line + "\n").collect();
        for target in imports(&text) {
            if layer(target).is_some_and(|target| target > own) {
                broken.push(format!("{path}: `{module}` uses `crate::{target}`, which lies above it"));
            }
        }
    }
    none(broken, "a layer uses only those below it");
}

/// The first segments after every `crate::` in `text`; of a group, those of its members.
fn imports(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, start) in text.match_indices("crate::") {
        let rest = &text[at + start.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.extend(words(rest).next());
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ if begins && depth == 1 && c.is_alphabetic() => {
                    found.extend(words(&group[i..]).next());
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

#[test]
fn imports_are_found_in_paths_and_in_groups() {
    let text = "use crate::task::TaskId;\nuse crate::{\n    broker::{Broker, Run},\n    clock::Clock,\n};\nfn f() -> crate::job::Job {}";
    assert_eq!(imports(text), ["task", "broker", "clock", "job"]);
}

#[test]
fn the_wire_side_does_no_io_and_knows_no_jobs() {
    let forbidden =
        ["tokio", "redis", "rusqlite", "fs", "net", "io", "job", "Job", "JobContext", "inventory", "broker"];
    none(mentions("asynq-runtime/src/task", &forbidden), "a Go message can be read without any Rust job existing");
}

#[test]
fn brokers_move_opaque_bytes() {
    let forbidden = ["Job", "JobContext", "JobOptions", "serde", "serde_json", "postcard", "Serialize", "Deserialize"];
    none(mentions("asynq-runtime/src/broker", &forbidden), "brokers know messages, never jobs");
}

#[test]
fn the_server_does_not_know_which_broker_it_has() {
    let forbidden = ["redis", "sqlite", "rusqlite", "RedisBroker", "SqliteBroker"];
    none(mentions("asynq-runtime/src/server", &forbidden), "above `Arc<dyn Broker>` nobody knows which one it is");
}

#[test]
fn the_brokers_do_not_know_each_other() {
    let mut broken = mentions("asynq-runtime/src/broker/redis", &["sqlite", "rusqlite", "SqliteBroker"]);
    broken.extend(mentions("asynq-runtime/src/broker/sqlite", &["redis", "RedisBroker"]));
    none(broken, "what both brokers need lives in the contract files");
}

#[test]
fn only_clients_apps_and_tests_name_a_broker() {
    let mut broken = Vec::new();
    for path in rust_files("asynq-runtime/src") {
        let allowed = ["broker/", "client", "connect.rs", "app", "testing", "lib.rs"];
        if allowed.iter().any(|allowed| path.strip_prefix("asynq-runtime/src/").unwrap().starts_with(allowed)) {
            continue;
        }
        for (number, line) in code(&path) {
            if line.contains("RedisBroker") || line.contains("SqliteBroker") || line.contains("broker::redis") {
                broken.push(format!("{path}:{number} names a broker"));
            }
        }
    }
    none(broken, "brokers are named by app, client constructors and tests alone");
}

#[test]
fn no_type_has_a_broker_as_its_parameter() {
    let mut broken = Vec::new();
    for path in rust_files("asynq-runtime/src").into_iter().chain(rust_files("asynq-cron/src")) {
        for (number, line) in code(&path) {
            if ["<B: Broker", "B: Broker>", "impl Broker)", "impl Broker,"].iter().any(|generic| line.contains(generic))
            {
                broken.push(format!("{path}:{number} is generic over brokers"));
            }
        }
    }
    none(broken, "the boundary is `Arc<dyn Broker>`");
}

#[test]
fn both_brokers_have_a_file_per_contract() {
    let contracts = ["produce", "consume", "settle", "maintain", "presence", "inspect"];
    let mut missing = Vec::new();
    for broker in ["redis", "sqlite"] {
        for contract in contracts {
            let folder = format!("asynq-runtime/src/broker/{broker}");
            let there = |name: String| root().join(&folder).join(name).exists();
            if !there(format!("{contract}.rs")) && !there(format!("{contract}/mod.rs")) {
                missing.push(format!("{folder}/{contract}.rs"));
            }
        }
    }
    none(missing, "`ls broker/redis broker/sqlite` shows the contracts twice");
}

#[test]
fn crates_depend_downwards_only() {
    let ours: BTreeSet<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    let mut broken = Vec::new();
    for (name, allowed) in CRATES {
        for line in read(&format!("{name}/Cargo.toml")).lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if ours.contains(dependency) && !allowed.contains(&dependency) {
                broken.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    none(broken, "DECISIONS §2 says which crate may depend on which");
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    let manifests = files("").into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let without = manifests.filter(|path| !read(path).contains("[lints]\nworkspace = true")).collect();
    none(without, "`unsafe` is forbidden and public items are documented everywhere");
}

#[test]
fn only_one_file_of_the_macros_spells_a_runtime_path() {
    let mut broken = Vec::new();
    for path in rust_files("asynq-macros/src").into_iter().filter(|path| !path.ends_with("/paths.rs")) {
        for (number, line) in code(&path) {
            // Texts for people may name the crate: every second piece between quotes is one.
            let line = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
            if words(&line).any(|word| word == "asynq_runtime" || word == "asynq_cron") {
                broken.push(format!("{path}:{number} spells a path"));
            }
        }
    }
    none(broken, "only paths.rs spells ::asynq_runtime and ::asynq_cron");
}

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
fn every_script_says_what_it_takes_and_gives() {
    let mut broken = Vec::new();
    for path in files("asynq-runtime") {
        let header = || -> String {
            let text = read(&path);
            text.lines().skip_while(|line| line.starts_with("#!")).take_while(|line| line.starts_with("--")).collect()
        };
        if path.ends_with(".sql") && header().is_empty() {
            broken.push(format!("{path} has no header"));
        }
        if path.ends_with(".lua") {
            let header = header();
            // What lies beside the contracts' folders is put in front of scripts and takes no keys of its own.
            let fragment = path.matches('/').count() == "asynq-runtime/src/broker/redis/lua/x.lua".matches('/').count();
            let parts: &[&str] = if fragment { &["eturn"] } else { &["KEYS", "ARGV", "eturn"] };
            for part in parts {
                if !header.contains(part) {
                    broken.push(format!("{path}: its header does not say {part}"));
                }
            }
        }
    }
    none(broken, "a script opens with its duty; a Lua script also with KEYS, ARGV and what it returns");
}

#[test]
fn every_module_opens_with_its_duty() {
    let ours = ["asynq-grammar/src", "asynq-macros/src", "asynq-runtime/src", "asynq-cron/src", "tests/src"];
    let suites = ["tests/conformance", "tests/wire"];
    let files = ours.iter().chain(&suites).flat_map(|folder| rust_files(folder));
    let without = files.filter(|path| !is_unit_tests(path) && !read(path).starts_with("//!"));
    none(without.collect(), "a module opens with a sentence about its duty");
}

#[test]
fn no_file_is_named_after_nothing() {
    let vague = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "types.rs", "misc.rs"];
    let named = files("").into_iter().filter(|path| vague.iter().any(|name| path.ends_with(&format!("/{name}"))));
    none(named.collect(), "files are named by what they hold");
}

#[test]
fn nobody_is_held_to_one_compiler() {
    let pinned = files("").into_iter().filter(|path| path.contains("rust-toolchain"));
    none(pinned.collect(), "no rust-toolchain file: `rust-version` says what is needed");
}

/// A version as numbers, such as 1.89 as (1, 89, 0).
fn version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[test]
fn no_dependency_needs_a_newer_compiler_than_we_declare() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages: Vec<(&str, &str)> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|package| Some((package["name"].as_str().unwrap(), package["rust_version"].as_str()?)))
        .collect();
    let ours = packages.iter().find(|(name, _)| *name == "asynq-runtime").unwrap().1;
    let newer = packages.iter().filter(|(_, needs)| version(needs) > version(ours));
    none(newer.map(|(name, needs)| format!("{name} needs {needs}")).collect(), "`rust-version` is declared and true");
}

#[test]
fn both_brokers_are_held_to_the_same_cases() {
    let main = read("tests/conformance/main.rs");
    let (redis, sqlite) = main.split_once("mod sqlite {").unwrap();
    let mounted = |half: &str| -> BTreeSet<String> {
        let lines = half.lines().filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'));
        lines.filter(|name| !name.ends_with("_only")).map(str::to_owned).collect()
    };
    assert_eq!(mounted(redis), mounted(sqlite));
    let written: BTreeSet<String> = rust_files("tests/conformance")
        .iter()
        .map(|path| Path::new(path).file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "main" && !name.ends_with("_only"))
        .collect();
    assert_eq!(mounted(redis), written, "every file of cases is mounted");
}

//! The required contents of the packages' manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tree::{files, none, read, root};

/// The crates of ours on which each may depend, dev-dependencies included.
const CRATES: [(&str, &[&str]); 7] = [
    ("asynq-grammar", &[]),
    ("asynq-macros", &["asynq-grammar"]),
    ("asynq-runtime", &["asynq-grammar", "asynq-macros"]),
    ("asynq-cron", &["asynq-grammar", "asynq-macros", "asynq-runtime"]),
    ("asynq-dashboard", &["asynq-cron", "asynq-grammar", "asynq-macros", "asynq-runtime"]),
    ("asynq-jobs", &["asynq-cron", "asynq-dashboard", "asynq-macros", "asynq-runtime"]),
    ("asynq-cli", &["asynq-cron", "asynq-dashboard", "asynq-grammar", "asynq-macros", "asynq-runtime"]),
];

/// cargo's metadata of each package, ours and foreign.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

#[test]
fn crates_depend_downwards_only_and_on_their_own_version() {
    let allowed: BTreeMap<&str, &[&str]> = CRATES.into();
    let mut broken = Vec::new();
    let packages = packages();
    // A local package has no source; `publish = false` is an empty list.
    let ours = packages.iter().filter(|package| package["source"].is_null() && package["publish"].is_null());
    let mut found = BTreeSet::new();
    for package in ours {
        let name = text(package, "name");
        found.insert(name);
        let Some(allowed) = allowed.get(name) else {
            broken.push(format!("{name} has no place in CRATES"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let (dependency, version) = (text(dependency, "name"), text(dependency, "req"));
            if CRATES.iter().all(|(name, _)| *name != dependency) {
                continue;
            }
            if !allowed.contains(&dependency) {
                broken.push(format!("{name} depends on {dependency}"));
            }
            if !version.starts_with('=') {
                broken.push(format!("{name} takes other versions of {dependency} than its own: {version}"));
            }
        }
    }
    assert_eq!(found, CRATES.map(|(name, _)| name).into(), "the crates that are published");
    none(broken, "ARCHITECTURE.md says which crate may depend on which, and they use hidden items of each other");
}

#[test]
fn every_published_crate_has_its_registry_fields_and_can_be_packed() {
    let (packages, mut broken) = (packages(), Vec::new());
    for (name, _) in CRATES {
        let package =
            packages.iter().find(|package| text(package, "name") == name && package["source"].is_null()).unwrap();
        for key in ["description", "documentation", "license", "readme", "rust_version"] {
            if text(package, key).is_empty() {
                broken.push(format!("{name} has no {key}"));
            }
        }
        for (key, fewest, most) in [("keywords", 3, 5), ("categories", 1, 5)] {
            let n = package[key].as_array().map_or(0, Vec::len);
            if !(fewest..=most).contains(&n) {
                broken.push(format!("{name} has {n} {key}"));
            }
        }
        let has_features = package["features"].as_object().is_some_and(|features| !features.is_empty());
        if has_features && package["metadata"]["docs"]["rs"]["all-features"] != true {
            broken.push(format!("{name}: docs.rs would leave out the items behind its features"));
        }
        if has_features && !read(&format!("{name}/src/lib.rs")).contains("#![cfg_attr(docsrs, feature(doc_cfg))]") {
            broken.push(format!("{name}: docs.rs would not say which feature an item needs"));
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let list = ["package", "--list", "--allow-dirty", "--offline", "--locked", "-p", name];
        let output = std::process::Command::new(cargo).args(list).current_dir(root()).output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        let needed = ["src/lib.rs", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];
        let is_whole = needed.iter().all(|needed| listed.lines().any(|file| file == *needed));
        if !output.status.success() || !is_whole {
            broken.push(format!("{name} cannot be packed: {}{listed}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    none(broken, "a registry page describes the crate, and `cargo package` takes it");
}

#[test]
fn the_version_of_metrics_is_told_where_programs_add_their_own() {
    let workspace = read("Cargo.toml");
    let version = workspace.split("\nmetrics = \"").nth(1).unwrap().split('"').next().unwrap();
    let version = version.rsplit_once('.').unwrap().0;
    let told = [
        ("docs/operations.md", format!("version {version} of the [`metrics`]")),
        ("examples/web/metrics.rs", format!("`metrics = \"{version}\"`")),
    ];
    let missing = told.into_iter().filter(|(file, text)| !read(file).contains(text));
    let missing = missing.map(|(file, text)| format!("{file} lacks {text}")).collect();
    none(
        missing,
        "each version of the crate has a recorder of its own, and what another one counts is lost without an error",
    );
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    // Programs of other libraries are workspaces of their own, built as their users build them, and a program from a template
    // has lints of its own.
    let is_ours = |path: &String| !path.starts_with("bench/peers/") && !path.starts_with("template/");
    let manifests = files("").into_iter().filter(|path| path.ends_with("/Cargo.toml") && is_ours(path));
    let without = manifests.filter(|path| !read(path).contains("[lints]\nworkspace = true")).collect();
    none(without, "`unsafe` is forbidden and public items are documented everywhere");
}

/// A version as numbers, such as 1.89 as (1, 89, 0).
fn version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[test]
fn no_dependency_needs_a_newer_compiler_than_we_declare() {
    let packages = packages();
    let needs = |package: &Value| package["rust_version"].as_str().map(version);
    let ours = packages.iter().find(|package| text(package, "name") == "asynq-runtime").and_then(needs).unwrap();
    let newer = packages.iter().filter(|package| needs(package).is_some_and(|needs| needs > ours));
    let newer = newer.map(|package| format!("{} needs {}", text(package, "name"), text(package, "rust_version")));
    none(newer.collect(), "`rust-version` is declared and true");
}

/// The features of a package, and its dependencies of any kind with the features that it asks of them.
fn brings(package: &Value) -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
    let features = package["features"].as_object().unwrap().keys().filter(|name| *name != "default");
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for dependency in package["dependencies"].as_array().unwrap() {
        let asked = dependency["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        dependencies.entry(text(dependency, "name").to_owned()).or_default().extend(asked);
    }
    (features.cloned().collect(), dependencies)
}

#[test]
fn the_runtimes_unit_tests_are_compiled_with_all_of_its_features_and_dependencies() {
    let packages = packages();
    let named = |name| packages.iter().find(|package| text(package, "name") == name).unwrap();
    let (unit_tests, runtime) = (named("asynq-unit-tests"), named("asynq-runtime"));
    assert_eq!(brings(unit_tests), brings(runtime), "tests/unit/Cargo.toml follows asynq-runtime/Cargo.toml");
    let switched_on = unit_tests["features"]["default"].as_array().unwrap().len();
    assert_eq!(switched_on, brings(runtime).0.len(), "the features that tests/unit/Cargo.toml switches on");
}

#[test]
fn no_user_is_bound_to_one_compiler() {
    let pinned = files("").into_iter().filter(|path| path.contains("rust-toolchain"));
    none(pinned.collect(), "no rust-toolchain file: `rust-version` is the requirement");
}

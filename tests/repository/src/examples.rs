//! Every example is short, run by a test, and listed in the README.

use syn::{Attribute, Expr, Item, Lit, Meta};

use crate::tree::{files, none, read};

/// The packages that hold examples: all of them, those that need the dashboard, and one that needs OpenTelemetry.
const FOLDERS: [&str; 3] = ["examples", "examples/web", "examples/tracing"];

/// The items that most readers open, and the files where they are defined.
const OPENED: [(&str, &str); 21] = [
    ("App", "asynq-runtime/src/app/mod.rs"),
    ("Backoff", "asynq-runtime/src/job/backoff.rs"),
    ("Checkpoint", "asynq-runtime/src/job/checkpoint.rs"),
    ("Client", "asynq-runtime/src/client/mod.rs"),
    ("Enqueued", "asynq-runtime/src/client/enqueued.rs"),
    ("Inspector", "asynq-runtime/src/inspector/mod.rs"),
    ("Job", "asynq-runtime/src/job/mod.rs"),
    ("JobBuilder", "asynq-runtime/src/job/builder.rs"),
    ("JobContext", "asynq-runtime/src/job/context.rs"),
    ("JobError", "asynq-runtime/src/job/error.rs"),
    ("Outcome", "asynq-runtime/src/client/outcome.rs"),
    ("RawTask", "asynq-runtime/src/job/raw.rs"),
    ("Registry", "asynq-runtime/src/job/registry.rs"),
    ("Running", "asynq-runtime/src/server/running.rs"),
    ("Secret", "asynq-runtime/src/job/secret.rs"),
    ("Semaphore", "asynq-runtime/src/rate.rs"),
    ("Server", "asynq-runtime/src/server/mod.rs"),
    ("State", "asynq-runtime/src/job/state.rs"),
    ("TaskInfo", "asynq-runtime/src/task/info.rs"),
    ("TestApp", "asynq-runtime/src/testing/app.rs"),
    ("Tick", "asynq-cron/src/tick.rs"),
];

/// Whether a documentation has a block of Rust.
fn has_example(attributes: &[Attribute]) -> bool {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let fences = lines.filter_map(|line| line.trim().strip_prefix("```").map(str::to_owned));
    let words = ["", "no_run", "standalone_crate"];
    fences.into_iter().step_by(2).any(|language| words.contains(&language.as_str()))
}

#[test]
fn each_popular_item_has_an_example() {
    let mut without = Vec::new();
    for (name, path) in OPENED {
        let items = syn::parse_file(&read(path)).unwrap().items;
        let attributes = items.iter().find_map(|item| match item {
            Item::Struct(item) if item.ident == name => Some(&item.attrs),
            Item::Enum(item) if item.ident == name => Some(&item.attrs),
            Item::Trait(item) if item.ident == name => Some(&item.attrs),
            _ => None,
        });
        if !has_example(attributes.unwrap_or_else(|| panic!("{path} has no `{name}`"))) {
            without.push(format!("{path}: {name}"));
        }
    }
    none(without, "a reader sees the call before the list of methods");
}

#[test]
fn every_example_is_short_run_by_a_test_and_listed_in_the_order_of_the_readme() {
    let readme = read("README.md");
    let list = readme.split_once("[`examples/`]").expect("the README lists the examples").1;
    let tests: String = files("tests/examples").iter().map(|path| read(path)).collect();
    for folder in FOLDERS {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let (mut listed, mut last) = (vec![format!("{folder}/lib.rs")], 0);
        let targets = manifest.split("\n[[").filter(|part| part.starts_with("example]]") || part.starts_with("bin]]"));
        for section in targets {
            let word = |key: &str| section.split(&format!("{key} = \"")).nth(1).unwrap().split('"').next().unwrap();
            let (name, path) = (word("name"), format!("{folder}/{}", word("path")));
            // The newsletter is a whole application.
            let lines = read(&path).lines().count();
            assert!(lines <= 80 || name == "newsletter", "{path} has {lines} lines, at most 80 are allowed");
            // An example with tests of its own is run by its manifest.
            let is_run = tests.contains(&format!("\"{name}\"")) || section.contains("test = true");
            assert!(is_run, "no test in tests/examples runs `{name}`");
            let place = list.find(&format!("`{name}`"));
            let place = place.unwrap_or_else(|| panic!("the README's list of examples lacks `{name}`"));
            assert!(place > last, "`{name}` stands elsewhere in {folder}/Cargo.toml than in the README's list");
            last = place;
            listed.push(path);
        }
        let depth = folder.matches('/').count() + 1;
        for path in files(folder).iter().filter(|path| path.ends_with(".rs") && path.matches('/').count() == depth) {
            assert!(listed.contains(path), "{path} is not in the manifest of {folder}");
        }
    }
}

#[test]
fn examples_and_templates_call_no_hidden_method_of_a_broker() {
    let shown = [".clone()", ".kind()", ".location()", ".now()"];
    let is_hidden = |rest: &str| !shown.iter().any(|call| rest.starts_with(call));
    let calls_one = |path: &String| {
        let source = read(path);
        source.contains("dyn Broker") || source.split(".broker()").skip(1).any(is_hidden)
    };
    let sources = files("examples").into_iter().chain(files("template")).filter(|path| path.ends_with(".rs"));
    none(
        sources.filter(calls_one).collect(),
        "the contracts of a broker change with any version: a client and an inspector have the calls for programs",
    );
}

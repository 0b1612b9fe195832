//! The permitted imports: the layers of asynq-runtime, and the words that a folder must not know.

use std::sync::Arc;

use crate::{
    source::{Kind, Source, Token, mentions, sources, words},
    tree::{files, none, read},
};

const RUNTIME: &str = "asynq-runtime/src";

/// asynq-runtime's modules, lowest first: each may use those in the rows above its own, and those of its own row.
const LAYERS: [&[&str]; 7] = [
    &["censor", "clock", "panics", "pause", "task", "thread", "until", "variables"],
    &["broker"],
    &["connect", "propagation"],
    &["job"],
    &["client", "inspector", "metrics", "rate"],
    &["server"],
    &["app", "testing"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The module of the runtime that a file belongs to.
fn module_of(path: &str) -> &str {
    path.strip_prefix(RUNTIME).unwrap().trim_start_matches('/').split(['/', '.']).next().unwrap()
}

/// The places where `sources` import upwards, or an item whose layer is not known.
fn upwards(sources: &[Arc<Source>]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let module = module_of(&source.path);
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(module) else {
            broken.push(format!("{}: give `{module}` its place in LAYERS and in ARCHITECTURE.md", source.path));
            continue;
        };
        for import in &source.imports {
            let Some(target) = import.path.first() else { continue };
            let place = || format!("{}:{}: `{module}` uses `{}`", source.path, import.line, import.path.join("::"));
            match layer(target) {
                Some(target) if target > own => broken.push(format!("{}, which lies above it", place())),
                Some(_) => {}
                None => broken.push(format!("{}, whose layer is not known", place())),
            }
        }
    }
    broken
}

#[test]
fn modules_of_the_runtime_import_downwards_only() {
    none(upwards(&sources(RUNTIME)), "a layer uses only those below it");
}

#[test]
fn the_page_shows_these_layers() {
    let layers = LAYERS.map(|layer| layer.join(", ")).join("  →  ").replace("broker", "broker (contracts)");
    assert!(read("ARCHITECTURE.md").contains(&layers), "ARCHITECTURE.md does not show: {layers}");
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
fn the_product_has_no_lock_that_can_be_poisoned() {
    let product = ["asynq-runtime/src", "asynq-cron/src", "asynq-dashboard/src", "asynq-cli/src"];
    let found = product.iter().flat_map(|folder| mentions(folder, &["LockResult", "PoisonError"]));
    none(found.collect(), "locks are parking_lot's, which have no poison");
}

#[test]
fn no_line_of_the_log_can_end_the_code_that_logs_it() {
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    let mut broken = Vec::new();
    for source in [RUNTIME, "asynq-cron/src", "asynq-dashboard/src"].into_iter().flat_map(sources) {
        for tokens in source.tokens.windows(3) {
            let [level, call, next] = tokens else { continue };
            // Not `error != other`.
            if LEVELS.contains(&level.text.as_str()) && call.text == "!" && next.text != "=" {
                broken.push(format!("{}:{} logs without `log!`", source.path, level.line));
            }
        }
    }
    none(broken, "a subscriber is code of the program and may panic, which `log!` catches");
}

/// The files that belong to the feature `main`, and may use its dependencies.
const OF_MAIN: [&str; 5] = ["app/cli.rs", "app/command/", "app/env.rs", "app/logs.rs", "app/main_macro.rs"];

#[test]
fn a_program_without_main_needs_neither_flags_nor_a_subscriber() {
    let manifest = read("asynq-runtime/Cargo.toml");
    assert!(manifest.contains("main = [\"dep:clap\", \"dep:tracing-subscriber\"]"), "the feature brings both");
    let found = mentions(RUNTIME, &["clap", "tracing_subscriber"]);
    let is_of_main = |place: &String| OF_MAIN.iter().any(|path| place.starts_with(&format!("{RUNTIME}/{path}")));
    none(
        found.into_iter().filter(|place| !is_of_main(place)).collect(),
        "only the program of `main!` has a command line",
    );
}

#[test]
fn the_server_does_not_know_which_broker_it_has() {
    let forbidden = ["redis", "sqlite", "rusqlite", "RedisBroker", "SqliteBroker"];
    none(
        mentions("asynq-runtime/src/server", &forbidden),
        "above `Arc<dyn Broker>` no module knows which broker it is",
    );
}

#[test]
fn the_brokers_do_not_know_each_other() {
    let mut broken = mentions("asynq-runtime/src/broker/redis", &["sqlite", "rusqlite", "SqliteBroker"]);
    broken.extend(mentions("asynq-runtime/src/broker/sqlite", &["redis", "RedisBroker"]));
    none(broken, "code that both brokers need lives in the contract files");
}

/// The modules that may name a broker besides the brokers themselves, and why.
const NAME_A_BROKER: [(&str, &str); 4] = [
    ("connect.rs", "opens the broker that a URL asks for"),
    ("client/transaction.rs", "takes part in a transaction of the caller, which only SQLite has"),
    ("job/enqueue_error.rs", "holds the error of such a transaction"),
    ("testing/app.rs", "runs jobs on a SQLite database in memory"),
];

#[test]
fn only_the_places_that_connect_name_a_broker() {
    let (mut broken, mut needless) = (Vec::new(), NAME_A_BROKER.map(|(path, _)| path).to_vec());
    for source in sources(RUNTIME) {
        let inside = source.path.strip_prefix(RUNTIME).unwrap().trim_start_matches('/');
        let by_path = source.imports.iter().filter(|import| {
            matches!(&import.path[..], [first, second, ..] if first == "broker" && (second == "redis" || second == "sqlite"))
        });
        let by_name = source.tokens.iter().filter(|token| token.text == "RedisBroker" || token.text == "SqliteBroker");
        let mut lines = by_path.map(|import| import.line).chain(by_name.map(|token| token.line)).peekable();
        if lines.peek().is_some() && NAME_A_BROKER.iter().any(|(allowed, _)| inside == *allowed) {
            needless.retain(|path| *path != inside);
        } else if !inside.starts_with("broker/") {
            broken.extend(lines.map(|line| format!("{}:{line} names a broker", source.path)));
        }
    }
    none(broken, "a broker is named where it is opened, and nowhere above");
    assert!(needless.is_empty(), "{needless:?} name no broker any more: take them out of NAME_A_BROKER");
}

/// Whether `Broker` is the bound of a type parameter at `at`.
fn is_bound(tokens: &[Token], at: usize) -> bool {
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.text.as_str());
    let (before, second) = (text(at.checked_sub(1)), text(at.checked_sub(2)));
    text(Some(at)) == "Broker"
        && match before {
            ":" => second != ":",
            "+" => true,
            "impl" => text(Some(at + 1)) != "for",
            _ => false,
        }
}

#[test]
fn no_type_has_a_broker_as_its_parameter() {
    let mut broken = Vec::new();
    for source in sources(RUNTIME).into_iter().chain(sources("asynq-cron/src")) {
        let places = (0..source.tokens.len()).filter(|at| is_bound(&source.tokens, *at));
        broken.extend(places.map(|at| format!("{}:{} is generic over brokers", source.path, source.tokens[at].line)));
    }
    none(broken, "the boundary is `Arc<dyn Broker>`");
}

#[test]
fn only_one_file_of_the_macros_spells_a_runtime_path() {
    let mut broken = Vec::new();
    for source in sources("asynq-macros/src").into_iter().filter(|source| !source.path.ends_with("/paths.rs")) {
        // Texts for users may name the crate.
        for token in source.tokens.iter().filter(|token| token.kind != Kind::Literal) {
            if words(&token.text).any(|word| ["asynq_runtime", "asynq_cron", "asynq_jobs"].contains(&word)) {
                broken.push(format!("{}:{} spells a path", source.path, token.line));
            }
        }
    }
    none(broken, "only paths.rs spells ::asynq_runtime, ::asynq_cron and ::asynq_jobs");
}

#[test]
fn only_private_items_are_reachable_from_expansions() {
    let (mut broken, mut reached) = (Vec::new(), 0);
    for path in files("asynq-macros/tests/expansion") {
        let text = read(&path);
        for root in ["asynq_runtime::", "asynq_cron::"] {
            let paths = text.match_indices(root).map(|(at, _)| &text[at..]);
            let (private, other): (Vec<&str>, Vec<&str>) =
                paths.partition(|rest| rest[root.len()..].starts_with("__private"));
            reached += private.len();
            broken.extend(other.iter().map(|rest| format!("{path}: {}", rest.lines().next().unwrap())));
        }
    }
    none(broken, "the items that expansions use are in `__private`, so that everything else can change its place");
    assert!(reached > 0, "the expansions are in another folder");
}
